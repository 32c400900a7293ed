#!/usr/bin/env bash
# package.sh [--image] FOLDER: builds FOLDER/gradwire_VERSION_ARCH.deb for this Debian and machine, as root; with
# --image also FOLDER/gradwire_VERSION_ARCH.oci.tar, an OCI image of Debian with that package (needs mmdebstrap, umoci).
# The package holds the Python environment of requirements.lock and all that set-up compiles, so installing it runs
# neither pip nor a compiler.
set -euo pipefail

usage="package.sh [--image] FOLDER: name the folder that the package goes to"
image=
if [ "${1-}" = --image ]; then
    image=yes
    shift
fi
out=$(realpath -m "${1:?$usage}")
project=$(dirname "$(dirname "$(readlink -f "$0")")")
home=/usr/lib/gradwire

fail() {
    echo "package.sh: $*" >&2
    exit 1
}

[ "$EUID" -eq 0 ] || fail "needs root: the set-up in the package installs what it compiles with"
cd "$project"
[ -z "$(git status --porcelain)" ] || fail "commit first: the package is made of the last commit"
if [ -n "$image" ]; then
    for program in mmdebstrap umoci; do
        command -v $program >/dev/null || fail "$program is missing: run: apt-get install $program"
    done
fi
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' gradwire.py)
arch=$(dpkg --print-architecture)
depends=$(sed 's/#.*//; s/[[:space:]]//g; /^$/d' tools/packages.apt | paste -sd,)
name=$out/gradwire_${version}_$arch
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree

# Times of whole seconds, as archives keep them: numba compares them with what it compiled.
mkdir -p "$tree$home"
git archive HEAD | tar -x -C "$tree$home"
rm -rf "$tree$home"/{tests,benchmarks,.ci,.types,Vagrantfile,tools/vm,tools/site,tools/docsite.py,tools/package.sh}
rm -f "$tree$home"/tools/commands/{test,docs}.py
"$tree$home/tools/setup.sh"
grep -rlIZ "$tree" "$tree$home/.venv/bin" "$tree$home/.venv/pyvenv.cfg" | xargs -0r sed -i "s|$tree||g"

mkdir -p "$tree/usr/bin" "$tree/usr/share/man/man1" "$tree/DEBIAN" "$out"
ln -s "$home/gradwire" "$tree/usr/bin/gradwire"
"$tree$home/.venv/bin/python" -I "$tree$home/emu/interpreter.py" gradwire.tools help --man "$tree/usr/share/man/man1" >/dev/null
gzip -9n "$tree"/usr/share/man/man1/*
cat >"$tree/DEBIAN/control" <<CONTROL
Package: gradwire
Version: $version
Architecture: $arch
Maintainer: gradwire
Section: net
Priority: optional
Depends: ${depends//,/, }
Installed-Size: $(du -sk "$tree/usr" | cut -f1)
Description: replays captured distributed training on emulated data-centre fabrics
 Reads packet captures of training jobs, and sends their traffic again, as real
 packets, on fabrics that it builds on one machine.
CONTROL
install -m 755 /dev/stdin "$tree/DEBIAN/postrm" <<POSTRM
#!/bin/sh
[ "\$1" != remove ] || rm -rf $home # what Python compiled later
POSTRM
dpkg-deb --root-owner-group -Zzstd -z9 --build "$tree" "$name.deb"

[ -n "$image" ] || exit 0
mmdebstrap --quiet --variant=minbase --include="$depends" \
    --customize-hook="copy-in $name.deb /tmp" \
    --customize-hook='chroot "$1" sh -c "dpkg -i /tmp/gradwire_*.deb && rm /tmp/gradwire_*.deb"' \
    bookworm "$work/layer.tar"
umoci init --layout "$work/image"
umoci new --image "$work/image:$version"
umoci raw add-layer --image "$work/image:$version" "$work/layer.tar"
umoci config --image "$work/image:$version" --config.entrypoint /usr/bin/gradwire --config.workingdir /root
sed -i "s|\"$version\"|\"gradwire:$version\"|" "$work/image/index.json" # umoci takes no colon in a name
tar -cf "$name.oci.tar" -C "$work/image" .
echo "image: $name.oci.tar"
