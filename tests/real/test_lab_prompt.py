"""The prompt's commands on a running fabric: rules, switches that stop, iperf, scapy."""

import re
import subprocess
from functools import cache

import pytest

from gradwire.emu.project import PROJECT

pytestmark = [pytest.mark.real, pytest.mark.untimed]

LIMIT_S = 90
DUMPS = "dpctl dump-flows\ndpctl dump-groups\n"
POWER = """\
switch spine0 stop
h0 ping -c3 -i0.2 -W1 h1
spine0 dpctl dump-flows
switch spine0 start
spine0 dpctl dump-flows | grep -c nw_dst=
switch spine1 stop
h0 ping -c3 -i0.2 -W1 h1
switch spine1 start
switch leaf1 stop
h0 ! ping -c1 -W1 h1
switch leaf1 start
h0 ping -c1 -w20 h1
pingall
"""


def carried_out(commands: str, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(PROJECT / "gradwire"), "up", *options, "--script", "/dev/stdin"],
        input=commands,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # where Mininet writes what a command prints
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@cache
def with_switches(kind: str) -> "subprocess.CompletedProcess[str]":
    return carried_out(DUMPS + POWER, "leaf-spine:leaves=2,spines=2,hosts=1", "--switch", kind)


def rules(said: str) -> list[str]:
    """The lines of the dumps without what differs from run to run, switch by switch."""
    dumps = said.partition("PING")[0].replace("\r", "")
    kept = re.findall(r"^(?:\*\*\* \S+ -+|.*(?:actions|bucket)=.*)$", dumps, re.MULTILINE)
    return sorted(re.sub(r"(duration|n_packets|n_bytes)=[\d.]+s?, ", "", line.strip()) for line in kept)


def test_both_kinds_of_switches_print_the_same_rules_in_the_same_words() -> None:
    ours, peer = (rules(with_switches(kind).stdout) for kind in ("gradwire", "ovs"))
    assert ours == peer
    assert sum("group_id=" in line for line in ours) == 2  # each leaf spreads over two spines
    assert sum("actions=group:" in line for line in ours) == 2
    assert sum(" actions=output:" in line for line in ours) == 2 + 2 * 2  # leaves: own host; spines: both


@pytest.mark.parametrize("kind", ["gradwire", "ovs"])
def test_traffic_goes_around_a_switch_that_stops_and_all_comes_back(kind: str) -> None:
    done = with_switches(kind)
    assert done.returncode == 1
    (last,) = re.findall(r"^gradwire: .*", done.stdout, re.MULTILINE)
    assert last.startswith("gradwire: /dev/stdin: 1 command failed: line 5, spine0 dpctl dump-flows: ")
    assert "spine0 is stopped: `switch spine0 start` starts it" in done.stdout
    assert re.search(r"^2\r?$", done.stdout, re.MULTILINE), "spine0 has its two rules again"
    assert len(re.findall("3 packets transmitted, [1-3] received", done.stdout)) == 2, "around each spine"
    assert "0% dropped (2/2 received)" in done.stdout


# Of a process (state Z, or gone): the kernel takes a while to detach the data plane, even after SIGKILL.
AWAIT_END = "while grep -qs State:.[^ZX] /proc/$0/status; do sleep 0.05; done"
RULE = "priority=60000,ip,nw_dst=10.0.0.2"
PROBE = """\
import sys
from gradwire.tools.dissect.lab import *
answer = sr1(IP(dst=sys.argv[1]) / ICMP(), timeout=5, verbose=0)
print("answer from", answer.src, GradwireAggregation.__name__)
"""


@pytest.fixture(scope="module")
def star(tmp_path_factory: pytest.TempPathFactory) -> "subprocess.CompletedProcess[str]":
    probe = tmp_path_factory.mktemp("probe") / "probe.py"
    probe.write_text(PROBE)
    commands = [
        "link h1 switch0 down",
        "iperf h0 h1",
        "links",
        "link h1 switch0 up",
        f"dpctl add-flow {RULE},actions=drop",
        "h0 ! ping -c1 -W1 h1",
        "switch0 dpctl dump-flows",
        f"sh ovs-ofctl -O OpenFlow13 del-flows switch0 --strict {RULE}",
        "h0 ping -c1 -W2 h1",
        f"h0 python3 {probe} h1",
        "h0 echo 'print(GradwireAggregation)' | scapy -H",
        f"sh p=$(pgrep -f [e]mu.switch.agent); kill -9 $p; timeout 20 sh -c '{AWAIT_END}' $p",
        "py __import__('os').kill(h2.pid, 9)",  # no shell was started there
        "h2 hostname",  # it may just be ending, or not have begun to
        "py __import__('select').select([__import__('os').pidfd_open(h2.pid)], [], [], 20)",
        "sh echo h2 has ended",
        "h2 hostname",
    ]
    return carried_out("\n".join(commands), "star:hosts=3")


def test_iperf_ends_when_nobody_is_reached_and_a_cable_can_be_put_back(
    star: "subprocess.CompletedProcess[str]",
) -> None:
    assert star.returncode == 1
    assert "h0-eth0<->switch0-eth1 (OK OK)" in star.stdout
    assert "h1-eth0<->switch0-eth2 (DOWN DOWN)" in star.stdout
    assert "commands failed: line 2, iperf h0 h1: h0 → h1: iperf3: unable to connect" in star.stdout


def test_the_prompt_says_that_what_it_needs_has_died(star: "subprocess.CompletedProcess[str]") -> None:
    assert re.search(r"\*\*\* the switch agent \(process \d+\) was killed \(SIGKILL\)", star.stdout)


def test_the_prompt_goes_on_when_a_hosts_process_has_died(star: "subprocess.CompletedProcess[str]") -> None:
    _, _, afterwards = star.stdout.partition("h2 has ended")
    assert "*** h2 is gone: the process that kept its network has ended" in afterwards


def test_a_rule_of_ones_own_drops_packets_until_it_is_deleted(
    star: "subprocess.CompletedProcess[str]",
) -> None:
    assert re.search(r"n_packets=1, .* priority=60000,ip,nw_dst=10\.0\.0\.2 actions=drop", star.stdout)
    assert "1 packets transmitted, 0 received" in star.stdout
    assert "1 packets transmitted, 1 received" in star.stdout


def test_scapy_at_a_host_knows_the_lab(star: "subprocess.CompletedProcess[str]") -> None:
    assert "answer from 10.0.0.2 GradwireAggregation" in star.stdout
    assert "scapy_layer.GradwireAggregation" in star.stdout
