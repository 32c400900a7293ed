#!/usr/bin/env bash
# run.sh [WORKFOLDER]: the Vagrantfile, gradwire's set-up and a tiny replay on Debian's own kernel (see README.md here).
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
project=$(dirname "$(dirname "$here")")
work=$(realpath -m "${1:-$HOME/.cache/gradwire-vm}")
packages=(mmdebstrap qemu-utils qemu-system-x86 e2fsprogs fdisk grub-pc-bin vagrant vagrant-libvirt
    libvirt-daemon-system libvirt-clients dnsmasq-base iptables rsync openssh-client)

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

take_down() {
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
ssh -F "$work/ssh-config" default 'cd gradwire && sudo bash tests/vm/inside.sh'
say "passed"
