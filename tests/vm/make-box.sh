#!/usr/bin/env bash
# make-box.sh WORKFOLDER: a Debian 12 box for vagrant-libvirt, WORKFOLDER/gradwire.box, from Debian's packages alone.
# Needs no loop device and no running VM: the tree is made by mmdebstrap, written into an ext4 file system by
# mke2fs -d, and made bootable by putting GRUB's two parts where they belong.
set -euo pipefail

project=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
work=$1
tree=$work/tree
key=$(find /usr/share/rubygems-integration -path '*/vagrant-*/keys/vagrant.pub' | head -n 1)

say() { echo "$(date +%T) box: $*"; }

in_tree() { chroot "$tree" "$@"; }

base_system() {
    say "base system"
    rm -rf "$tree"
    mmdebstrap --quiet --variant=minbase --skip=check/qemu \
        --include=linux-image-cloud-amd64,initramfs-tools,systemd-sysv,udev,dbus,netbase,ca-certificates,openssh-server,sudo,rsync \
        bookworm "$tree" /etc/apt/sources.list.d/*.sources
    # This machine's way to the package registries: proxies and certificates.
    find /etc/apt/apt.conf.d -name '99*' -exec cp {} "$tree/etc/apt/apt.conf.d/" \;
    cp -r /usr/local/share/ca-certificates "$tree/usr/local/share/"
    in_tree update-ca-certificates >/dev/null 2>&1
    [ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$tree/etc/"
    [ ! -f "${PIP_CERT:-}" ] || install -D "$PIP_CERT" "$tree$PIP_CERT"
}

vagrant_user() {
    in_tree useradd --create-home --shell /bin/bash vagrant
    echo 'vagrant ALL=(ALL) NOPASSWD: ALL' >"$tree/etc/sudoers.d/vagrant"
    chmod 440 "$tree/etc/sudoers.d/vagrant"
    install -d -m 700 -o 1000 -g 1000 "$tree/home/vagrant/.ssh"
    install -m 600 -o 1000 -g 1000 "$key" "$tree/home/vagrant/.ssh/authorized_keys"
    echo 'UseDNS no' >"$tree/etc/ssh/sshd_config.d/box.conf"
}

# DHCP by systemd-networkd; minbase has no resolver, so the name server of the lease is written down by a service.
network_and_services() {
    printf '[Match]\nName=en* eth*\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\n' >"$tree/etc/systemd/network/20-dhcp.network"
    cat >"$tree/usr/local/sbin/name-server" <<'SCRIPT'
#!/bin/sh
for _ in $(seq 100); do
    grep -hqs ^DNS= /run/systemd/netif/leases/* && break
    sleep 0.2
done
sed -n 's/^DNS=//p' /run/systemd/netif/leases/* | tr ' ' '\n' | sed 's/^/nameserver /' >/etc/resolv.conf
SCRIPT
    chmod 755 "$tree/usr/local/sbin/name-server"
    cat >"$tree/etc/systemd/system/name-server.service" <<'UNIT'
[Unit]
After=systemd-networkd.service
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/name-server
[Install]
WantedBy=multi-user.target
UNIT
    cat >"$tree/etc/systemd/system/host-keys.service" <<'UNIT'
[Unit]
Before=ssh.service
[Service]
Type=oneshot
ExecStart=/usr/bin/ssh-keygen -A
[Install]
WantedBy=ssh.service
UNIT
    in_tree systemctl --quiet enable systemd-networkd ssh name-server.service host-keys.service
    in_tree systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer systemd-networkd-wait-online.service
}

# At native speed what the VM's own set-up would do on an emulated processor; nothing may be started meanwhile.
project_set_up() {
    say "gradwire's set-up in the tree"
    printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d"
    chmod 755 "$tree/usr/sbin/policy-rc.d"
    rsync --archive --exclude .git --exclude .venv --exclude .venv-ryu --exclude "emu/*/build" --exclude runs --exclude __pycache__ \
        "$project/" "$tree/home/vagrant/gradwire/"
    cp /etc/resolv.conf /etc/hosts "$tree/etc/"
    unshare --mount --pid --fork --kill-child --propagation private bash -euc '
        mount -t proc proc "$1/proc"
        mount --rbind /dev "$1/dev"
        mount -t tmpfs tmpfs "$1/tmp"
        exec chroot "$1" /home/vagrant/gradwire/tools/setup.sh' set-up "$tree"
    in_tree chown --recursive vagrant: /home/vagrant/gradwire
    rm "$tree/usr/sbin/policy-rc.d"
}

boot_files() {
    printf '127.0.0.1 localhost\n127.0.1.1 gradwire\n' >"$tree/etc/hosts"
    echo gradwire >"$tree/etc/hostname"
    echo 'LABEL=root / ext4 defaults,noatime 0 1' >"$tree/etc/fstab"
    rm -rf "$tree"/etc/resolv.conf "$tree"/etc/ssh/ssh_host_* "$tree"/var/cache/apt/archives/*.deb
    : >"$tree/etc/machine-id"
    version=$(basename "$tree"/boot/vmlinuz-*)
    version=${version#vmlinuz-}
    mkdir -p "$tree/boot/grub/i386-pc"
    cp /usr/lib/grub/i386-pc/*.{mod,lst} "$tree/boot/grub/i386-pc/"
    cat >"$tree/boot/grub/grub.cfg" <<GRUB
set timeout=0
linux /boot/vmlinuz-$version root=LABEL=root ro console=ttyS0,115200 net.ifnames=0 mitigations=off quiet
initrd /boot/initrd.img-$version
boot
GRUB
}

disk() {
    say "disk, kernel $version"
    rm -f "$work/disk.raw"
    truncate --size 8G "$work/disk.raw"
    echo '2048,,L,*' | sfdisk --quiet "$work/disk.raw"
    mke2fs -q -F -t ext4 -L root -d "$tree" -E offset=1048576 "$work/disk.raw" $((8 * 1024 * 1024 - 1024))k
    grub-mkimage -O i386-pc -p '(hd0,msdos1)/boot/grub' -o "$work/core.img" biosdisk part_msdos ext2 normal linux configfile
    dd if=/usr/lib/grub/i386-pc/boot.img of="$work/disk.raw" bs=440 count=1 conv=notrunc status=none
    dd if="$work/core.img" of="$work/disk.raw" bs=512 seek=1 conv=notrunc status=none
}

box() {
    mkdir -p "$work/box"
    qemu-img convert -O qcow2 "$work/disk.raw" "$work/box/box.img"
    echo '{"provider":"libvirt","format":"qcow2","virtual_size":8}' >"$work/box/metadata.json"
    echo 'Vagrant.configure("2") { |config| }' >"$work/box/Vagrantfile"
    tar -C "$work/box" --use-compress-program='gzip -1' -cf "$work/gradwire.box.partial" metadata.json Vagrantfile box.img
    mv "$work/gradwire.box.partial" "$work/gradwire.box"
    rm -rf "$work/disk.raw" "$work/core.img" "$work/box"
    say "$(du -m "$work/gradwire.box" | cut -f1) MB"
}

mkdir -p "$work"
base_system
vagrant_user
network_and_services
[ -n "${COLD-}" ] || project_set_up
boot_files
disk
box
rm -rf "$tree"
