#!/bin/sh
# Compile the driver of SimGrid into build/driver; Debian: g++, libboost-dev, libsimgrid-dev.
set -eu
cd "$(dirname "$0")"
mkdir -p build
partial=build/driver.$$
trap 'rm -f "$partial"' EXIT
g++ -O2 -std=c++17 driver.cpp -lsimgrid -o "$partial"
mv "$partial" build/driver
