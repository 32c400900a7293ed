"""A port that we shape by rtnetlink is to the kernel as one that `tc` shapes."""

import socket
import subprocess

import pytest

from gradwire.emu.kernel import rtnetlink
from gradwire.emu.network import htb
from gradwire.emu.network.shaping import PortShape, port_batch
from gradwire.planning.transport import port_burst_nbytes
from tests.real.inside import inside

pytestmark = pytest.mark.real

SHAPES = [  # 10 Gb/s is the largest rate that 32 bits hold as bytes; 40 and 100 need 64
    (rate_bps, port_burst_nbytes(rate_bps / 8, 1514), (262_144, queue))
    for rate_bps, queue in (
        (1_000_000, 262_144),
        (20_000_000, 1_234_567),
        (123_456_789, 400_000),
        (1_000_000_000, 8_000_000),
        (10_000_000_000, 1 << 30),
        (40_000_000_000, 1 << 30),
        (100_000_000_000, (1 << 32) - 1),
    )
]


def run(*command: str, stdin: str = "") -> str:
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True).stdout


def said(name: str) -> list[str]:
    """What tc says of an interface's disciplines, classes and filters."""
    return [run("tc", "-d", kind, "show", "dev", name) for kind in ("qdisc", "class", "filter")]


def both() -> list[list[list[str]]]:
    run("ip", "link", "add", "ours", "type", "veth", "peer", "name", "theirs")
    found = []
    for rate_bps, burst_nbytes, queues_nbytes in SHAPES:
        shape = PortShape(rate_bps, burst_nbytes, queues_nbytes, delay_ns=0)
        rtnetlink.carry_out(htb.requests(socket.if_nametoindex("ours"), shape))
        run("tc", "-batch", "-", stdin="\n".join(port_batch("theirs", shape)) + "\n")
        found.append([said("ours"), said("theirs")])
        for name in ("ours", "theirs"):
            run("tc", "qdisc", "del", "dev", name, "root")
    return found


def test_tc_sees_no_difference_between_our_shaping_and_its_own() -> None:
    for (rate_bps, *_), (ours, theirs) in zip(SHAPES, inside(both), strict=True):
        assert ours == theirs, f"at {rate_bps} bit/s"
        disciplines, classes, filters = ours
        assert (disciplines.count("bfifo"), classes.count("htb"), filters.count("match")) == (2, 3, 4)


def test_a_port_that_delays_is_left_to_tc() -> None:
    with pytest.raises(ValueError, match="delays"):
        list(htb.requests(1, PortShape(10**8, 3028, (1, 1), delay_ns=1)))
