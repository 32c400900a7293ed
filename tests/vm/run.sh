#!/usr/bin/env bash
# run.sh [WORKFOLDER]: the Vagrantfile, gradwire's set-up and a tiny replay on Debian's own kernel (see README.md here).
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
project=$(dirname "$(dirname "$here")")
work=$(realpath -m "${1:-$HOME/.cache/gradwire-vm}")
packages=(mmdebstrap qemu-utils qemu-system-x86 e2fsprogs fdisk grub-pc-bin vagrant vagrant-libvirt
    libvirt-daemon-system libvirt-clients dnsmasq-base iptables rsync openssh-client curl)

fail() {
    echo "run.sh: $*" >&2
    exit 1
}

say() { echo "$(date +%T) $*"; }

[ "$EUID" -eq 0 ] || fail "needs root, to make a box and a virtual machine"
missing=$(comm -23 <(printf '%s\n' "${packages[@]}" | sort) \
    <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null | sed -n 's/^installed //p' | sort))
[ -z "$missing" ] || fail "missing: apt-get install --no-install-recommends ${missing//$'\n'/ }"
mkdir -p "$work"

export VAGRANT_HOME=$work/vagrant VAGRANT_DOTFILE_PATH=$work/machine VAGRANT_CHECKPOINT_DISABLE=1
export LIBVIRT_DEFAULT_URI=qemu:///system
export GRADWIRE_BOX=gradwire/debian12 GRADWIRE_LIBVIRT_DRIVER=qemu GRADWIRE_BOOT_TIMEOUT=900
export GRADWIRE_LIBVIRT_PREFIX=gradwire-test-

cd "$project"
forwarding=$(cat /proc/sys/net/ipv4/ip_forward)
started_libvirt=
at_work= # an ssh to the machine, in which something is served

in_vm() { ssh -F "$work/ssh-config" "$@"; }

# A terminal of its own (-tt) hangs up when ssh ends, which ends what it runs there. Not by in_vm: a function in
# the background is a shell, and its end would leave the ssh that it began.
serve() {
    ssh -F "$work/ssh-config" -tt default "cd gradwire && exec $*" </dev/null >"$work/served" 2>&1 &
    at_work=$!
}

stop_serving() {
    [ -n "$at_work" ] || return 0
    kill "$at_work" 2>/dev/null || true
    wait "$at_work" 2>/dev/null || true
    at_work=
}

# from_host PORT PATTERN: what the machine serves there, by the port that Vagrant forwards to this one, has PATTERN.
from_host() {
    local page=$work/page-$1.html tries
    for tries in $(seq 60); do
        if curl -s -m 5 "http://127.0.0.1:$1/" >"$page" && grep -q "$2" "$page"; then
            say "port $1: $(wc -c <"$page") bytes after $tries tries"
            command -v chromium >/dev/null || return 0
            chromium --headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run \
                --user-data-dir="$work/chromium" --window-size=1280,900 --virtual-time-budget=5000 \
                --screenshot="$work/page-$1.png" "http://127.0.0.1:$1/" >/dev/null 2>&1 || true
            return 0
        fi
        sleep 5
    done
    tail -n 20 "$work/served" >&2
    fail "port $1 of this machine shows nothing of the VM's"
}

take_down() {
    stop_serving
    say "taking it down"
    vagrant destroy --force >/dev/null 2>&1 || true
    [ -n "$started_libvirt" ] || return 0
    virsh net-destroy vagrant-libvirt >/dev/null 2>&1 || true
    for daemon in libvirtd virtlogd; do
        [ ! -s "$work/$daemon.pid" ] || kill "$(cat "$work/$daemon.pid")" 2>/dev/null || true
    done
    echo "$forwarding" >/proc/sys/net/ipv4/ip_forward
}
trap take_down EXIT
trap 'exit 130' INT TERM

[ -s "$work/gradwire.box" ] || "$here/make-box.sh" "$work"
if ! vagrant box list | grep "^$GRADWIRE_BOX " >/dev/null; then
    say "adding the box"
    vagrant box add --provider libvirt --name "$GRADWIRE_BOX" "$work/gradwire.box" >/dev/null
fi
if ! virsh version >/dev/null 2>&1; then
    started_libvirt=1
    "$here/start-libvirt.sh" "$work"
fi

if virsh domid gradwire-test-default >/dev/null 2>&1; then
    say "removing what a run that was cut off has left"
    virsh destroy gradwire-test-default >/dev/null 2>&1 || true
    virsh undefine gradwire-test-default --remove-all-storage >/dev/null
    rm -rf "$VAGRANT_DOTFILE_PATH"
fi

say "vagrant up"
vagrant validate
# Vagrant draws its progress with carriage returns.
vagrant up --provider=libvirt --no-color 2>&1 | stdbuf -oL tr '\r' '\n' | grep --line-buffered -v 'Progress: ' |
    while IFS= read -r line; do say "$line"; done

say "inside"
vagrant ssh-config >"$work/ssh-config"
in_vm default 'cd gradwire && sudo bash tests/vm/inside.sh'

say "users' journeys"
in_vm default 'cd gradwire && sudo bash tests/vm/journeys.sh'

say "pages in this machine's browser"
serve ./gradwire serve .
from_host 8480 runs
stop_serving
echo 'h0 sleep 120' | in_vm default 'cat >watched'
serve sudo ./gradwire up star:hosts=3,rate=20M --watch --script ../watched
from_host 8470 html
stop_serving

say "vagrant reload"
in_vm default 'cd gradwire && mkdir -p captures && echo mine | tee captures/mine labs/mine.yaml /vagrant/labs/mine.yaml >/dev/null'
vagrant reload --provision --no-color 2>&1 | stdbuf -oL tr '\r' '\n' | grep --line-buffered -v 'Progress: ' |
    while IFS= read -r line; do say "$line"; done
vagrant ssh-config >"$work/ssh-config"
in_vm default 'cd gradwire && cat captures/mine labs/mine.yaml /vagrant/labs/mine.yaml && ./gradwire doctor' ||
    fail "vagrant reload lost a file, or gradwire"
say "passed"
