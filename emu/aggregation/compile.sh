#!/bin/sh
# Compile the host's side of aggregation into build/libworker.so; Debian: clang.
set -eu
cd "$(dirname "$0")"
mkdir -p build
partial=build/libworker.so.$$
trap 'rm -f "$partial"' EXIT
clang -O3 -std=gnu11 -fPIC -fvisibility=hidden -shared -fno-math-errno -Wall -Wextra -Werror stream.c sums.c sending.c worker.c waiting.c -o "$partial"
mv "$partial" build/libworker.so
