#!/usr/bin/env bash
# inside.sh: what must pass in the VM; run as root in the project's folder.
set -euo pipefail

echo "== $(uname -r), $(systemctl is-system-running || true)"
[ "$(cat /proc/1/comm)" = systemd ]

echo "== second set-up"
./gradwire setup

echo "== doctor"
./gradwire doctor
./gradwire doctor --json | grep 'kernel datapath' # not -q: it would cut the writer off

replay() {
    ./gradwire replay traces/samples/ps_1srv_4wk --fabric star:hosts=5,rate=20M --iteration 0 \
        --compute none --scale-bytes 1/64 --repeat 1 "$@" && return
    # 3: carried out whole, but this emulated processor was too slow for its times to be believed.
    [ $? -eq 3 ]
}

echo "== replay, gradwire's switch"
replay --switch gradwire

echo "== aggregation in gradwire's switch"
./gradwire bench allreduce -b 64KiB --ina off,on --fabric star:hosts=4,rate=20M --repeat 1 || [ $? -eq 3 ]

echo "== replay, Open vSwitch in the kernel"
replay --switch ovs
lsmod | grep '^openvswitch '

echo "== nothing left"
! ip -o link | grep -E 'switch0|h[0-9]-eth' || exit 1
