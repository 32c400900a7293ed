#!/usr/bin/env bash
# verifier.sh [WORKFOLDER]: does Debian 12's kernel accept the switch's program as compiled here? Half a minute.
# Boots that kernel alone, with a root in memory that holds bpftool and the program; needs no root.
set -euo pipefail

project=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
object=$project/emu/switch/build/switch.o
work=$(realpath -m "${1:-$HOME/.cache/gradwire-vm}")/verifier

fail() {
    echo "verifier.sh: $*" >&2
    exit 1
}

fetch() {
    local kernel
    kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p')
    [ -n "$kernel" ] || fail "no kernel known to apt: apt-get update"
    (cd "$work" && apt-get -q download "$kernel" busybox-static && for package in *.deb; do dpkg -x "$package" parts; done)
}

# bpftool with its libraries: a name that starts with "/" is where the file goes too.
make_root() {
    local root=$work/root bpftool file
    rm -rf "$root"
    mkdir -p "$root"/{bin,proc,sys}
    bpftool=$(PATH=$PATH:/usr/sbin command -v bpftool) || fail "no bpftool: sudo ./gradwire setup"
    cp "$work/parts/bin/busybox" "$bpftool" "$root/bin/"
    cp "$object" "$root/switch.o"
    for file in $(ldd "$bpftool" | grep -o '/[^ ]*'); do
        install -D "$(readlink -f "$file")" "$root$file"
    done
    cat >"$root/init" <<'INIT'
#!/bin/busybox sh
busybox=/bin/busybox
$busybox mount -t proc proc /proc
$busybox mount -t sysfs sys /sys
$busybox mount -t bpf bpf /sys/fs/bpf
if bpftool prog loadall /switch.o /sys/fs/bpf/switch >/said 2>&1; then
    echo "accepted by Linux $($busybox uname -r)"
else
    $busybox tail -n 40 /said
fi
$busybox poweroff -f
INIT
    chmod +x "$root/init"
    (cd "$root" && find . | "$work/parts/bin/busybox" cpio -o -H newc 2>/dev/null | gzip -1 >"$work/root.gz")
}

command -v qemu-system-x86_64 >/dev/null || fail "missing: apt-get install --no-install-recommends qemu-system-x86"
[ -s "$object" ] || fail "$object is not compiled: sudo ./gradwire setup"
mkdir -p "$work"
ls "$work"/parts/boot/vmlinuz-* >/dev/null 2>&1 || fetch
make_root
timeout 300 qemu-system-x86_64 -machine q35 -cpu max -m 2G -nographic -no-reboot -nic none \
    -kernel "$work"/parts/boot/vmlinuz-* -initrd "$work/root.gz" \
    -append 'console=ttyS0 panic=-1 quiet mitigations=off rdinit=/init' </dev/null | tr -d '\r' >"$work/console"
grep -a -o 'accepted by Linux .*' "$work/console" && exit
tail -n 45 "$work/console" >&2
fail "refused"
