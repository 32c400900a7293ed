#!/usr/bin/env bash
# setup.sh: installs what gradwire needs: Debian packages, .venv from requirements.lock, and what is compiled for the switch, ranks and reading.
#   setup.sh               install what is missing; safe to run again, and twice at the same time
#   setup.sh --live        also PyTorch, for runs with a live training job (requirements-live.lock)
#   setup.sh --docs        also MkDocs, for ./gradwire docs (requirements-docs.lock)
#   setup.sh --ryu         also .venv-ryu, for --controller ryu (requirements-ryu.lock)
#   setup.sh --ray         also Ray, for sweep --ray (requirements-ray.lock)
#   setup.sh --simgrid     also SimGrid, for plan --engine simgrid (Debian's, and a driver that is compiled)
#   setup.sh --ns3         also ns-3, for plan --engine packets (likewise)
#   setup.sh --is-current  exit 0 if nothing has changed since the last complete set-up
set -euo pipefail

home=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
cd "$home"
python=/usr/bin/python3
rings=traces/samples/ddp_gloo_8
# The loops of the capture reader, of the check of schedules and of the model, and what they refer to.
loops=(traces/packets/{addresses,columns,cover,decode,inorder,jit,packets,pcap,pcapng_loop,walkers}.py traces/analysis/{flowloops,percentiles,spacing}.py traces/schedules/{buffers,pieces,races}.py planning/model/{bulk,predict}.py tools/looplibrary.py)
simgrid_packages=(g++ libboost-dev libsimgrid-dev)
ns3_packages=(g++ libns3-dev)
stamp=.venv/set-up # written last: a set-up that was interrupted has none

# What the set-up was made from, as one line. Compared by content: a checkout changes every file's time.
fingerprint() {
    { cat tools/setup.sh tools/packages.apt requirements.lock emu/{switch,aggregation,replay}/{*.[ch],compile.sh} "${loops[@]}"; readlink -f $python; } |
        cksum | tr '\n' ' '
    echo "$HOSTTYPE"
}

is_current() {
    local made_from
    [ -x .venv/bin/python ] && [ -s emu/switch/build/switch.o ] && [ -s emu/aggregation/build/libworker.so ] &&
        [ -s emu/replay/build/librank.so ] && compgen -G 'traces/build/loops.*.so' >/dev/null && [ -r $stamp ] &&
        read -r made_from <$stamp && [ "$made_from" = "$(fingerprint)" ]
}

say() { printf 'set-up: %s\n' "$*"; }

fail() {
    printf 'gradwire: %s\n' "$*" >&2
    exit 1
}

# quietly WHAT COMMAND...: the command's output is only worth reading when it fails.
quietly() {
    local what=$1
    shift
    if ! "$@" >"$log" 2>&1 </dev/null; then
        tail -n 15 "$log" >&2
        fail "$what failed, its last lines are above; mend that and run: sudo ./gradwire setup"
    fi
}

missing_packages() {
    local -a wanted
    mapfile -t wanted < <(sed 's/#.*//; s/[[:space:]]//g; /^$/d' tools/packages.apt)
    comm -23 <(printf '%s\n' "${wanted[@]}" | sort) \
        <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null | sed -n 's/^installed //p' | sort)
}

install_packages() {
    local -a missing
    command -v apt-get >/dev/null ||
        fail "no apt-get here: gradwire sets itself up on Debian 12; on other systems use its lab VM (vagrant up)"
    mapfile -t missing < <(missing_packages)
    if [ ${#missing[@]} -eq 0 ]; then
        say "Debian packages: all there"
        return
    fi
    [ "$EUID" -eq 0 ] || fail "packages are missing (${missing[*]}) and installing them needs root: run: sudo ./gradwire setup"
    say "Debian packages: installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    quietly "apt-get update" apt-get -q update
    quietly "apt-get install" apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "${missing[@]}"
}

# install_locked VENV LOCK OPTION...: a lock is complete, so nothing else may come in, and no other file of that version.
install_locked() {
    local venv=$1 lock=$2
    shift 2
    quietly "pip install" "$venv/bin/python" -I -m pip install --disable-pip-version-check --no-input --no-deps --require-hashes "$@" -r "$lock"
}

make_venv() {
    if [ -e .venv/made-from ] && cmp -s requirements.lock .venv/made-from && .venv/bin/python -c '' 2>/dev/null; then
        say "Python packages: all there"
        return
    fi
    $python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$python is older than 3.11; gradwire needs Debian 12 or newer"
    # One that was made whole is brought up to date, anything else is made again.
    if [ -e .venv/made-from ] && .venv/bin/python -c '' 2>/dev/null; then
        say "Python packages: bringing .venv up to date"
    else
        say "Python packages: making .venv (about a minute)"
        rm -rf .venv
        quietly "python3 -m venv" $python -I -m venv .venv
    fi
    rm -f .venv/made-from
    install_locked .venv requirements.lock
    quietly "pip check" .venv/bin/python -I -m pip check
    cp requirements.lock .venv/made-from
}

add_live() {
    say "Python packages: adding PyTorch"
    install_locked .venv requirements-live.lock
    quietly "pip check" .venv/bin/python -I -m pip check
}

add_docs() {
    say "Python packages: adding MkDocs"
    install_locked .venv requirements-docs.lock
    quietly "pip check" .venv/bin/python -I -m pip check
}

add_ray() {
    say "Python packages: adding Ray"
    install_locked .venv requirements-ray.lock
    quietly "pip check" .venv/bin/python -I -m pip check
}

# Ryu's own build asks for what pip's isolated builds no longer have: see the lock.
add_ryu() {
    if [ -e .venv-ryu/made-from ] && cmp -s requirements-ryu.lock .venv-ryu/made-from; then
        say "Ryu: all there"
        return
    fi
    say "Ryu: making .venv-ryu"
    rm -rf .venv-ryu
    quietly "python3 -m venv" $python -I -m venv .venv-ryu
    awk '/^[^ #]/ { is_first = /^(pbr|setuptools|wheel)==/ } is_first' requirements-ryu.lock >.venv-ryu/first
    install_locked .venv-ryu .venv-ryu/first
    install_locked .venv-ryu requirements-ryu.lock --no-build-isolation
    cp requirements-ryu.lock .venv-ryu/made-from
}

# add_engine NAME DRIVER PACKAGE...: another simulator, and a driver that hands it plans.
add_engine() {
    local name=$1 driver=$2
    shift 2
    say "$name: installing it, and compiling its driver"
    [ "$EUID" -eq 0 ] || dpkg-query -W "$@" >/dev/null 2>&1 || fail "installing $name needs root: run: sudo ./gradwire setup --$driver"
    [ "$EUID" -ne 0 ] || quietly "apt-get install" apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "$@"
    quietly "compiling the driver of $name" emu/engines/compile.sh "$driver"
}

# numba compiles the checker of schedules and the fluid model at their first use and keeps the result; that use is now.
warm_planning() {
    [ -d "$rings" ] || return 0
    [ -z "$(find planning -name '*.nbi')" ] || return 0
    say "fluid model: compiling"
    quietly "planning $rings for more ranks" .venv/bin/python -I emu/interpreter.py gradwire.tools plan "$rings" \
        --scale-ranks 64 --algorithm all-pairs --fabric star:hosts=64
}

# As root in somebody's folder: what is made there is theirs, so that they can remove it and work without root.
hand_over() {
    [ "$EUID" -ne 0 ] || [ -O . ] || find . -path ./.git -prune -o \( -path ./.venv -o -path ./.venv-ryu -o -path './emu/*/build' -o -path ./traces/build -o -name __pycache__ \) -prune -print0 |
        xargs -0r chown -R --reference=.
}

main() {
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    [ -w . ] || fail "cannot write to $home: set up as its owner or as root, or copy the folder to a disk that can be written"
    [ -e gradwire.py ] || [ -z "$live$ryu$docs$ray" ] || fail "--live, --ryu, --docs and --ray are for a checkout; elsewhere install PyTorch or Ray by pip"
    install_packages
    if [ -e gradwire.py ]; then # a checkout; where pip has installed gradwire, it has brought the Python packages
        make_venv
        [ -z "$live" ] || add_live
        [ -z "$ryu" ] || add_ryu
        [ -z "$docs" ] || add_docs
        [ -z "$ray" ] || add_ray
    fi
    say "switch: compiling for the kernel's BPF"
    quietly "compiling the switch" emu/switch/compile.sh
    say "aggregation: compiling the hosts' side"
    quietly "compiling the hosts' side of aggregation" emu/aggregation/compile.sh
    [ -z "$simgrid" ] || add_engine SimGrid simgrid "${simgrid_packages[@]}"
    [ -z "$ns3" ] || add_engine ns-3 ns3 "${ns3_packages[@]}"
    say "ranks: compiling"
    quietly "compiling the ranks" emu/replay/compile.sh
    if [ -e gradwire.py ]; then
        say "loops: compiling"
        quietly "compiling the loops" .venv/bin/python -I emu/interpreter.py gradwire.tools.looplibrary
        warm_planning
        fingerprint >.venv/set-up.partial
        mv .venv/set-up.partial $stamp
        hand_over
    fi
    say "done"
}

live='' ryu='' docs='' simgrid='' ns3='' ray=''
for option; do
    case $option in
    --is-current) is_current && exit 0 || exit 1 ;;
    --live) live=1 ;;
    --ryu) ryu=1 ;;
    --docs) docs=1 ;;
    --simgrid) simgrid=1 ;;
    --ns3) ns3=1 ;;
    --ray) ray=1 ;;
    -h | --help)
        sed -n '2,10s/^# \{0,1\}//p' tools/setup.sh
        exit 0
        ;;
    *)
        sed -n '2,10s/^# \{0,1\}//p' tools/setup.sh >&2
        exit 2
        ;;
    esac
done
# One at a time in this folder. The lock is on the folder itself, so no file is left behind, and
# --close keeps it out of the hands of daemons that a package may start.
if [ -z "${GRADWIRE_SETUP_LOCKED-}" ]; then
    flock --nonblock . true || say "another set-up is at work in this folder; waiting for it"
    GRADWIRE_SETUP_LOCKED=1 exec flock --close . "$home/tools/setup.sh" "$@"
fi
main
