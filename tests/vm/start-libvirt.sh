#!/usr/bin/env bash
# start-libvirt.sh WORKFOLDER: libvirt's daemons on a machine without systemd; their process ids go to WORKFOLDER.
# /dev/kvm is hidden from them, in a mount namespace of their own: where it is there but only emulates, asking it
# for its abilities costs libvirt a minute at every machine that it defines.
set -euo pipefail

export work=$1
mkdir -p /run/libvirt
: >"$work/no-kvm"
chmod 0 "$work/no-kvm"
unshare --mount --propagation slave bash -euc '
    [ ! -e /dev/kvm ] || mount --bind "$work/no-kvm" /dev/kvm
    # libvirt cannot move that mount into a /dev of the guest, so the guest gets none of its own.
    { cat /etc/libvirt/qemu.conf; echo "namespaces = []"; } >"$work/qemu.conf"
    chmod 600 "$work/qemu.conf"
    mount --bind "$work/qemu.conf" /etc/libvirt/qemu.conf
    virtlogd --daemon --pid-file "$work/virtlogd.pid"
    libvirtd --daemon --pid-file "$work/libvirtd.pid"'
for _ in $(seq 100); do
    ! virsh --connect qemu:///system version >/dev/null 2>&1 || exit 0
    sleep 0.2
done
echo "start-libvirt.sh: libvirtd does not answer" >&2
exit 1
