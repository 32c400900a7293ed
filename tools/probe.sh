# probe.sh SWITCH_OBJECT: tries what a run needs of the kernel, inside throw-away namespaces (see tools/thismachine.py).
# Prints one line for each: name, tab, "ok" or what went wrong.

try() {
    local name=$1 text
    shift
    if text=$("$@" 2>&1 </dev/null); then text=ok; fi
    printf '%s\t%s\n' "$name" "${text:-it failed without a word}" | tr '\n' ' ' && echo
}

shaped() {
    tc qdisc add dev probe0 root handle 1: htb default 1 &&
        tc class add dev probe0 parent 1: classid 1:1 htb rate 50mbit
}

loaded() {
    mount -t bpf bpf /sys/fs/bpf && bpftool prog load "$1" /sys/fs/bpf/probe type classifier
}

attached() {
    tc qdisc add dev probe1 clsact &&
        tc filter add dev probe1 ingress bpf direct-action object-pinned /sys/fs/bpf/probe
}

mirrored() { # at the clsact that attached() made
    tc filter add dev probe1 egress protocol ip u32 match ip protocol 6 0xff action mirred egress mirror dev probe0
}

hosted() { # exits 0 and silent where "/" is no mount point, so its word counts, not its exit code
    [ "$(mnexec -n echo alive)" = alive ] || { echo 'mnexec starts nothing: is "/" a mount point?' && false; }
}

echo "namespaces	ok"
try veth ip link add name probe0 type veth peer name probe1
try htb shaped
try "switch program" loaded "$1"
try cls_bpf attached
try mirred mirrored
try mnexec hosted
