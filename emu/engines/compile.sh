#!/bin/sh
# compile.sh simgrid|ns3: compile an engine's driver into build/.  Debian: g++; libboost-dev and libsimgrid-dev,
# or libns3-dev.
set -eu
cd "$(dirname "$0")"
case ${1-} in
simgrid) libraries=-lsimgrid ;;
ns3) libraries='-lns3-core -lns3-network -lns3-traffic-control -lns3-internet -lns3-point-to-point' ;;
*)
	sed -n '2,3s/^# //p' "$0" >&2
	exit 2
	;;
esac
mkdir -p build
partial=build/$1.$$
trap 'rm -f "$partial"' EXIT
# shellcheck disable=SC2086 # several libraries
g++ -O2 -std=c++17 "$1.cpp" $libraries -o "$partial"
mv "$partial" "build/$1"
