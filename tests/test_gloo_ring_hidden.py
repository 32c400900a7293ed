"""Hidden preambles of a simulated ring on slow links: what is recovered is right, whatever is hidden."""

import itertools
from collections.abc import Sequence
from operator import add

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.made_gloo import found_in
from tests.made_ring import Links, Ring, direction
from traces.framing import gloo_ways
from traces.framing.gloo import PREAMBLE_NBYTES, Opcode
from traces.framing.gloo_ring_counts import ring_lengths
from traces.packets.capture import read_capture
from traces.schedules.collectives import gloo_ring

NOTICES_NBYTES = 16 * PREAMBLE_NBYTES  # by which notices of unknown place may move a message
MS = 1_000_000


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    n_ranks=st.integers(3, 4),
    kilobytes_per_s=st.sampled_from([50, 200, 1000]),
    delay_ms=st.integers(0, 20),
    buffer_nbytes=st.sampled_from([2_000, 8_000, 40_000]),
    packet_nbytes=st.sampled_from([1_448, 5_000, 64_000]),
    buckets=st.lists(
        st.tuples(st.integers(2_000, 12_000), st.lists(st.integers(0, 300), min_size=4, max_size=4)),
        min_size=1,
        max_size=3,
    ),
    visible=st.sampled_from([48, 54, 62, 100]),
    spread_nbytes=st.sampled_from([0, gloo_ways.MAX_SPREAD_NBYTES]),
)
def test_no_message_gets_the_name_of_another(  # noqa: PLR0917 - a parameter for each thing that varies
    tmp_path_factory: pytest.TempPathFactory,
    n_ranks: int,
    kilobytes_per_s: int,
    delay_ms: int,
    buffer_nbytes: int,
    packet_nbytes: int,
    buckets: Sequence[tuple[int, Sequence[int]]],
    visible: int,
    spread_nbytes: int,
) -> None:
    """With no spread allowed each is at its very place; else it is one of those that are in its gap."""
    links = Links(n_ranks, kilobytes_per_s * 1000, delay_ms * MS, buffer_nbytes, packet_nbytes)
    # A rank begins its buckets one after the other, as its backward pass makes them.
    after = itertools.accumulate(([1 + ms for ms in at] for _, at in buckets), lambda a, b: [*map(add, a, b)])
    begins = [
        (4 * n_ranks * words, [1_000 + ms * MS for ms in at[:n_ranks]])
        for (words, _), at in zip(buckets, after, strict=True)
    ]
    ring = Ring(links, begins)
    path = ring.captured(tmp_path_factory.mktemp("ring") / "a.pcap", visible)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gloo_ways, "MAX_SPREAD_NBYTES", spread_nbytes)
        found = found_in(read_capture(path))
    for (src, dst), written in ring.written.items():
        offset = 8 if src > dst else 0
        true: dict[tuple[int, int, int], list[int]] = {}
        for sent in written:
            true.setdefault((sent.opcode, sent.slot, sent.length), []).append(offset)
            offset += len(sent.wire)
        one = found.get(direction(src, dst))
        if one is None:
            continue
        covered = sum(f.nbytes for f in one.frames) + sum(g.end - g.start for g in one.unresolved)
        assert covered == one.stream.nbytes - (8 if src > dst else 0)
        for frame in one.frames:
            places = true.get((frame.opcode, frame.slot, frame.length), [])
            if frame.opcode is Opcode.DATA:
                nearest = min((abs(place - frame.offset) for place in places), default=1 << 60)
                assert nearest <= (NOTICES_NBYTES + spread_nbytes if frame.recovered else 0)
            else:
                assert places
        for kind, places in true.items():
            assert sum((f.opcode, f.slot, f.length) == kind for f in one.frames) <= len(places)


def test_an_edge_that_lacks_a_piece_is_completed_from_the_others() -> None:
    sends = gloo_ring(4, 340_008)
    seen = {(f"h{src}", f"h{(src - 1) % 4}"): [s.nbytes for s in sends if s.src == src] for src in range(4)}
    whole = {edge: tuple(lengths) for edge, lengths in seen.items()}
    del seen["h2", "h1"][3]
    assert ring_lengths(seen) == whole
    seen["h2", "h1"].append(4)
    assert ring_lengths(seen) == {}
