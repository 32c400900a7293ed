#!/usr/bin/env bash
# journeys.sh: what four kinds of users do first, each step checked; run as root in the project's folder, in the VM
# or in any clean Debian. Times are not judged: exit code 3 (the machine was too slow) counts as success.
set -euo pipefail

# Network namespaces, each with one of its processes; without those that systemd gives to its services.
namespaces() {
    lsns -t net -n -o NS,PID,COMMAND | awk '!/systemd/ {print $1}' | sort
}

place=$(mktemp -d)
namespaces_before=$(namespaces)
trap 'rm -rf "$place"' EXIT
out=$place/out
sample=traces/samples/ddp_gloo_8

fail() {
    echo "journeys.sh: $*" >&2
    tail -n 40 "$out" >&2
    exit 1
}

# shows PATTERN COMMAND…: it ends with 0, or with 3 if only the machine was too slow, and its output has PATTERN.
shows() {
    local pattern=$1 code=0
    shift
    echo "\$ $*"
    "$@" >"$out" 2>&1 || code=$?
    [ "$code" -eq 0 ] || [ "$code" -eq 3 ] || fail "ended with $code: $*"
    grep -E -- "$pattern" "$out" | head -n 3 || fail "no line has '$pattern': $*"
}

# refuses CODE PATTERN COMMAND…: it ends with CODE, says PATTERN, and leaves no traceback.
refuses() {
    local expected=$1 pattern=$2 code=0
    shift 2
    echo "\$ $*"
    "$@" >"$out" 2>&1 || code=$?
    [ "$code" -eq "$expected" ] || fail "ended with $code, not $expected: $*"
    grep -E -- "$pattern" "$out" | head -n 3 || fail "no line has '$pattern': $*"
    ! grep -q Traceback "$out" || fail "a traceback: $*"
}

echo "== a network engineer"
shows 'bisection|oversubscription' ./gradwire fabric fat-tree:k=4 bigraph:n=8,m=2 leaf-spine:leaves=2,spines=2,hosts=4
shows '3456|3,456' ./gradwire fabric fat-tree:k=24
refuses 1 'did you mean' ./gradwire plan "$sample" --fabric fattree:k=4
shows 'up to 48' ./gradwire fabric fat-tree:k=48
shows 'leaf-spine:leaves=24' ./gradwire fabric --radix 24
shows 'class="paper"' sh -c "./gradwire fabric bigraph:n=4,m=2 --svg $place/fabric.svg && cat $place/fabric.svg"
refuses 1 'write fat-tree:k=4' ./gradwire fabric fat-tree:4
refuses 1 'did you mean 100M' ./gradwire fabric star:hosts=4,rate=100
refuses 1 'did you mean ring' ./gradwire plan "$sample" --fabric star:hosts=8 --algorithm rign
refuses 1 'did you mean ecmp' ./gradwire plan "$sample" --fabric star:hosts=8 --routes ecpm
refuses 1 'its switches are edge0..7' ./gradwire plan "$sample" --fabric fat-tree:k=4 --fail leaf0-spine0@0
shows 'halving-doubling' ./gradwire plan "$sample" --fabric fat-tree:k=4 --algorithm halving-doubling --out "$place/plan.json"
shows 'edge0→agg1 ×2' ./gradwire audit "$place/plan.json"
shows '^ring .* 0 +(valid|not )' ./gradwire bench allreduce -b 64KiB -e 64KiB --fabric star:hosts=4,rate=20M --repeat 1 --out "$place/monday"

echo "== a performance engineer with a capture"
shows 'without the first 2, the warm-up' ./gradwire inspect traces/samples/ddp_gloo_4_resnet18_tso
shows 'An iteration takes' ./gradwire inspect "$sample" --html "$place/page.html"
shows 'from 10.77.0.1 only' ./gradwire inspect "$sample/h0.pcap"
shows 'from 10.77.0.1 only' sh -c "./gradwire inspect - <$sample/h0.pcap"
refuses 1 'No such file' ./gradwire inspect "$place/nothing.pcap"
refuses 1 'but in .*ddp_gloo_8' ./gradwire inspect traces/samples
shows '41%' ./gradwire inspect traces/samples/slow_ddp_8_mlp_leafspine50M
shows 'first_ns,last_ns' sh -c "./gradwire inspect $sample --csv $place/tables >/dev/null && cat $place/tables/messages.csv"

echo "== a researcher"
shows '"busbw_Bps": [0-9]' ./gradwire bench allreduce -b 64K -e 64K -n 1 -w 0 --fabric star:hosts=2,rate=20M --json --out "$place/tuesday"
shows 'Options' ./gradwire help bench
refuses 1 'swap them' ./gradwire bench allreduce -b 8K -e 4K --fabric star:hosts=2
shows 'monday' ./gradwire runs "$place"
shows 'star' ./gradwire report "$place/monday" "$place/tuesday" --html "$place/both.html"
shows 'too few|no change|only in|slower|faster' ./gradwire compare "$place/monday" "$place/tuesday"

echo "== a teacher"
cat >"$place/lesson" <<'LESSON'
net
links
pingall
leaf0 dpctl dump-flows
leaf0 dpctl dump-groups
leaf0 dpctl dump-ports
iperf h0 h3
switch spine0 stop
switch spine0 start
pingall
LESSON
shows '0% dropped' ./gradwire up leaf-spine:leaves=2,spines=2,hosts=2,rate=50M --script "$place/lesson"
echo 'h0 false' >"$place/mistake"
refuses 1 'false' ./gradwire up star:hosts=2 --script "$place/mistake"
for lab in labs/0[!7]*/lab.yaml; do # the seventh needs the policy that it teaches to write
    shows 'can be computed' ./gradwire run --check "$lab"
done
shows 'expect' ./gradwire run labs/01-oversubscription/planned.yaml

echo "== nothing left"
for _ in 1 2 3 4 5; do # what was killed may take a moment
    namespaces_after=$(namespaces)
    processes=$(pgrep -af 'gradwire\.emu|mininet:' || true)
    [ "$namespaces_before$processes" != "$namespaces_after" ] || break
    sleep 1
done
new=$(comm -13 <(echo "$namespaces_before") <(echo "$namespaces_after"))
if [ -n "$processes$new" ]; then
    lsns -t net >&2
    echo "journeys.sh: still there: $processes; new network namespaces: $new" >&2
    exit 1
fi
