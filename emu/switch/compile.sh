#!/bin/sh
# Compile the switch's tc program into build/switch.o; Debian: clang, libbpf-dev, linux-libc-dev.
set -eu
cd "$(dirname "$0")"
mkdir -p build
partial=build/switch.o.$$
trap 'rm -f "$partial"' EXIT
# asm/types.h lives in a folder named after the machine, which clang does not search for target bpf.
clang -O2 -g -target bpf -mcpu=v3 -Wall -Wextra -Werror -I"/usr/include/$(uname -m)-linux-gnu" -c switch.c -o "$partial"
mv "$partial" build/switch.o
