#!/bin/sh
# Compile the loop of a rank into build/librank.so; Debian: clang.
set -eu
cd "$(dirname "$0")"
mkdir -p build
partial=build/librank.so.$$
trap 'rm -f "$partial"' EXIT
clang -O3 -std=gnu11 -fPIC -fvisibility=hidden -shared -Wall -Wextra -Werror rank.c rankloop.c adding.c -o "$partial"
mv "$partial" build/librank.so
