"""Select groups of our switch on real cables: the bucket that the published hash names, and no other."""

import struct
import tempfile
from collections.abc import Sequence
from math import gcd
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from os_ken.ofproto import ofproto_v1_3 as ofp

from gradwire.planning.flowhash import flow_hash, switch_salt
from tests.made_frames import Frame
from tests.made_rules import PORTS, Change, FlowChange, GroupBucket, GroupChange, Output, ToGroup, encoded
from tests.real.inside import inside
from tests.real.sides import Side, our_switch

pytestmark = [pytest.mark.real, pytest.mark.untimed]

IN_PORT, OUT_PORTS, GROUP, DPID = PORTS[0], PORTS[1:], 5, 1
N_EXAMPLES, N_FLOWS = 40, 4000
FiveTuple = tuple[int, int, int, int, int]

five_tuples = st.tuples(
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.sampled_from((6, 17)),
    st.integers(0, 2**16 - 1),
    st.integers(0, 2**16 - 1),
)
weights = st.lists(st.integers(1, 20), min_size=2, max_size=6)


def frame(five: FiveTuple) -> Frame:
    src, dst, proto, sport, dport = five
    l4 = struct.pack("!HH", sport, dport) + (b"\0\x08\0\0" if proto == 17 else bytes(8) + b"\x50" + bytes(7))
    ip = struct.pack("!BBHHHBBHII", 0x45, 0, 20 + len(l4), 0, 0, 64, proto, 0, src, dst)
    return Frame(IN_PORT, b"\x02" * 6 + b"\x02\0\0\0\0\1\x08\0" + ip + l4, str(five))


def programmed(switch: Side, buckets: Sequence[tuple[int, int]]) -> None:
    """All packets go to one group with these (port, weight)."""
    group = tuple(GroupBucket((Output(port),), weight=weight) for port, weight in buckets)
    changes: tuple[Change, ...] = (
        FlowChange(ofp.OFPFC_DELETE, (), 0, instruction=None, table=ofp.OFPTT_ALL),
        GroupChange(ofp.OFPGC_DELETE, ofp.OFPGT_ALL, ofp.OFPG_ALL),
        GroupChange(ofp.OFPGC_ADD, ofp.OFPGT_SELECT, GROUP, group),
        FlowChange(ofp.OFPFC_ADD, (), 0, (ToGroup(GROUP),)),
    )
    switch.speaker.send(b"".join(encoded(change, n) for n, change in enumerate(changes)))
    assert switch.speaker.barrier() == []


def port_of(five: FiveTuple, buckets: Sequence[tuple[int, int]], seed: int) -> int:
    """Where the documented rule sends a flow: a slot for each unit of weight, hash modulo slots."""
    unit = gcd(*(weight for _, weight in buckets))
    slots = [port for port, weight in buckets for _ in range(weight // unit)]
    return slots[flow_hash(*five, switch_salt(DPID, seed)) % len(slots)]


def went(switch: Side, fives: Sequence[FiveTuple]) -> dict[FiveTuple, list[int]]:
    """The ports that each flow's packet came out of."""
    frames = {five: frame(five) for five in fives}
    switch.markers(is_on=True)
    switch.ends.send(frames.values())
    came = switch.ends.received(PORTS)
    switch.markers(is_on=False)
    return {
        five: [port for port in PORTS for _ in range(came[port][sent.octets])]
        for five, sent in frames.items()
    }


def unpredicted(seed: int) -> list[str]:
    """Flows that did not go where the hash says, over made-up weights, ports and flows."""
    wrong: list[str] = []
    with (
        tempfile.TemporaryDirectory(dir="/run") as folder,
        our_switch(Path(folder), "--seed", str(seed)) as switch,
    ):

        @settings(
            max_examples=N_EXAMPLES,
            derandomize=True,
            deadline=None,
            database=None,
            phases=[Phase.generate],  # on cables, a smaller example takes minutes to find
            suppress_health_check=list(HealthCheck),
        )
        @given(st.data(), weights, st.lists(five_tuples, min_size=10, max_size=30, unique=True))
        def as_published(data: st.DataObject, made: list[int], fives: list[FiveTuple]) -> None:
            buckets = [(data.draw(st.sampled_from(OUT_PORTS)), weight) for weight in made]
            if sum(made) // gcd(*made) > 64:  # more slots than the data plane has
                return
            programmed(switch, buckets)
            for five, ports in went(switch, fives).items():
                if ports != [port_of(five, buckets, seed)]:
                    wrong.append(f"{five} {buckets}: {ports}")

        as_published()
    return wrong


@pytest.mark.parametrize("seed", [0, 12345])
def test_every_flow_leaves_by_the_bucket_that_the_published_hash_names(seed: int) -> None:
    assert inside(unpredicted, seed) == []


def shares(made: list[int]) -> list[int]:
    """How many of N_FLOWS random flows left by each of three buckets."""
    random = Random(7)
    fives = [
        (random.getrandbits(32), random.getrandbits(32), 17, random.getrandbits(16), random.getrandbits(16))
        for _ in range(N_FLOWS)
    ]
    with tempfile.TemporaryDirectory(dir="/run") as folder, our_switch(Path(folder)) as switch:
        programmed(switch, list(zip(OUT_PORTS, made, strict=True)))
        ports = [port for came in went(switch, fives).values() for port in came]
    return [ports.count(port) for port in OUT_PORTS]


@pytest.mark.parametrize("made", [[1, 1, 1], [1, 2, 5]])
def test_flows_spread_over_the_buckets_as_their_weights_say(made: list[int]) -> None:
    """Pearson's chi-square with two degrees of freedom is above 13.8 once in a thousand."""
    found = inside(shares, made)
    assert sum(found) == N_FLOWS
    expected = [N_FLOWS * weight / sum(made) for weight in made]
    assert sum((n - e) ** 2 / e for n, e in zip(found, expected, strict=True)) < 13.8
