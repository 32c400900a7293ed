"""One fabric on two machines, as a person has it: each is a set of namespaces, and a cable joins them."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gradwire.emu.project import PROJECT
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.machines.machinesfile import read_machines
from gradwire.planning.machines.partition import partition
from tests.real.commands import CARRIED_OUT
from tests.real.twomachines import on_left

pytestmark = pytest.mark.real

GRADWIRE = str(PROJECT / "gradwire")


def bench(tmp_path: Path, spec: str, *options: str, **machines: Any) -> "subprocess.CompletedProcess[str]":
    fixed = ("--machines", "FILE", "--fabric", spec, "-n", "1", "--out", str(tmp_path / "runs"), "--json")
    return on_left(tmp_path, GRADWIRE, "bench", "allreduce", *fixed, *options, **machines)


def row_of(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    assert done.returncode in CARRIED_OUT, done.stderr
    (row,) = json.loads(done.stdout)
    assert isinstance(row, dict)
    return row


def audited(row: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [GRADWIRE, "audit", row["folder"], "--json"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    (found,) = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_all_hosts_reach_each_other_and_the_prompt_reaches_every_node(tmp_path: Path) -> None:
    """edge7 and h15 are on the other machine."""
    script = tmp_path / "script"
    script.write_text("pingall\nh15 hostname -I\niperf h0 h15\nedge7 dpctl dump-ports\nlinks\n")
    done = on_left(
        tmp_path, GRADWIRE, "up", "fat-tree:k=4,rate=20M", "--machines", "FILE", "--script", str(script)
    )
    assert done.returncode == 0, done.stderr + done.stdout
    made = partition(parse_fabric("fat-tree:k=4"), read_machines(tmp_path / "machines.yaml").machines)
    assert (made.machine_of["h0"], made.machine_of["edge7"], made.machine_of["h15"]) == (
        "left",
        "right",
        "right",
    )
    said = done.stderr
    assert "0% dropped (240/240 received)" in said
    assert "10.0.0.16" in said
    (rate,) = re.findall(r"Results: \['([\d.]+) Mbits/sec'", said)
    assert 18 < float(rate) < 20  # 20 Mb/s on the wire, also through a tunnel
    assert said.count("port  ") == 4
    assert said.count("(OK OK)") == len(parse_fabric("fat-tree:k=4").links)


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        ("fat-tree:k=4,rate=50M", ("--algorithm", "ina", "-b", "64KiB")),
        (
            "bigraph:n=8,m=2,rate=50M",
            ("--algorithm", "halving-doubling", "--placement", "hdrm", "--routes", "direct", "-b", "256KiB"),
        ),
    ],
    ids=["aggregation", "hdrm"],
)
def test_sums_are_right_and_every_link_carries_what_the_plan_says(
    tmp_path: Path, spec: str, options: tuple[str, ...]
) -> None:
    row = row_of(bench(tmp_path, spec, *options))
    assert (row["wrong"], row["ranks"], sorted(row["idle_of"])) == (0, 16, ["left", "right"])
    assert audited(row)["run"]["agrees"]


def test_a_network_between_the_machines_that_is_too_narrow_is_refused(tmp_path: Path) -> None:
    """1,500 bytes in a tunnel are 1,550."""
    done = bench(tmp_path, "bigraph:n=4,m=2,rate=50M", "-b", "64KiB", mtu=1549)
    assert done.returncode == 1
    assert "left0, which leads to 192.0.2.2, has an MTU of 1,549" in done.stderr
    assert "take 1,550 in a tunnel" in done.stderr


LOSING = """\
tc qdisc add dev left0 root handle 1: htb default 1
tc class add dev left0 parent 1: classid 1:1 htb rate 1gbit quantum 1600
tc class add dev left0 parent 1: classid 1:2 htb rate 1gbit quantum 1600
tc qdisc add dev left0 parent 1:2 bfifo limit 1
tc filter add dev left0 parent 1: protocol ip u32 match ip protocol 17 0xff match ip dport 4789 0xffff {} \
    flowid 1:2
exec "$@"
"""


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("", "packets do not come through a tunnel from 192.0.2.1 to 192.0.2.2"),
        ("match u16 0x0400 0x0400 at 2", "packets of 1,550 bytes do not come through a tunnel"),  # by length
    ],
    ids=["all", "long"],
)
def test_what_loses_packets_between_the_machines_is_named(tmp_path: Path, more: str, says: str) -> None:
    """A firewall, or a switch with a smaller MTU; not `waiting for the controller` two minutes later."""
    script = tmp_path / "script"
    script.write_text("h0 hostname -I\n")
    up = (GRADWIRE, "up", "bigraph:n=4,m=2,rate=20M", "--machines", "FILE", "--script", str(script))
    done = on_left(tmp_path, "sh", "-c", LOSING.format(more), "sh", *up)
    assert done.returncode == 1
    assert says in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("does", "says"),
    [
        (
            "echo 'gradwire: part needs root' >&2; exit 1",
            "machine right ended with exit code 1: gradwire: part",
        ),
        (
            """echo '["hello",{"version":"0.0.1","source":""}]'; sleep 20""",
            "machine right has gradwire 0.0.1, and this one",
        ),
        (f"timeout --signal KILL 4 {GRADWIRE} part", "machine right"),
        ("echo '[\"hello\",'; sleep 20", "machine right sent a message that cannot be used: not JSON"),
        (
            "printf '[\"hello\",'; sleep 50",
            "machine right sent a message that cannot be used: half a message",
        ),
    ],
    ids=["without root", "another version", "that dies", "that talks nonsense", "that stops in a word"],
)
@pytest.mark.untimed
def test_a_machine_that_cannot_is_named(tmp_path: Path, does: str, says: str) -> None:
    stand_in = tmp_path / "gradwire"
    stand_in.write_text(f"#!/bin/sh\n{does}\n")
    stand_in.chmod(0o755)
    done = bench(tmp_path, "bigraph:n=4,m=2,rate=20M", "-b", "4MiB", gradwire=str(stand_in))
    assert done.returncode == 1
    assert says in done.stderr.splitlines()[-1]
