"""Hidden preambles of a simulated ring on slow links: what is recovered is right, whatever is hidden."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gradwire.traces.framing import gloo_ring_counts, gloo_ways
from gradwire.traces.framing.gloo import PREAMBLE_NBYTES, Opcode
from gradwire.traces.framing.gloo_ring_counts import ring_lengths
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.schedules.algorithms.gloo import gloo_ring
from tests.made_gloo import found_in
from tests.made_ring import SEGMENT_NBYTES as SEGMENT_PAYLOAD_NBYTES
from tests.made_ring import Links, Ring, direction

NOTICES_NBYTES = 16 * PREAMBLE_NBYTES  # by which notices of unknown place may move a message
SEGMENT_NBYTES = SEGMENT_PAYLOAD_NBYTES + 3 * PREAMBLE_NBYTES  # with its preamble and notices
MS = 1_000_000

# When each of up to four ranks begins a bucket, in ms; often several of them begin two at the same instant.
BEGINS = st.lists(st.integers(0, 300) | st.integers(0, 2), min_size=4, max_size=4)
BUCKET = st.tuples(st.integers(2_000, 12_000) | st.just(4_660), BEGINS | st.just([1, 1, 1, 1]))


def named(*values: object) -> dict[str, Any]:
    """A case that was once read wrongly."""
    names = ("n_ranks", "kilobytes_per_s", "delay_ms", "buffer_nbytes", "packet_nbytes", "buckets", "visible")
    more = {"spread_segments": 0, "counts_are_known": values[6] == 62}
    return {**dict(zip(names, values, strict=True)), **more}


@pytest.mark.long
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    n_ranks=st.integers(3, 4),
    kilobytes_per_s=st.sampled_from([50, 200, 1000]),
    delay_ms=st.integers(0, 20),
    buffer_nbytes=st.sampled_from([2_000, 8_000, 40_000]),
    packet_nbytes=st.sampled_from([1_448, 5_000, 64_000]),
    buckets=st.lists(BUCKET, min_size=1, max_size=3),
    visible=st.sampled_from([48, 54, 62, 100]),
    spread_segments=st.sampled_from([0, gloo_ways.MAX_SPREAD_SEGMENTS]),
    counts_are_known=st.booleans(),
)
@example(**named(3, 50, 1, 2_000, 64_000, [(4660, [1, 1, 1]), (4660, [2, 2, 2])], 48))
@example(
    **named(4, 200, 0, 40_000, 1_448, [(10_659, [43, 255, 173, 256]), (10_659, [43, 256, 173, 256])], 48)
)
@example(
    **named(4, 50, 7, 40_000, 5_000, [(8917, [184, 0, 191, 264]), (2337, [0, 162, 17, 139])], 62),
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
    spread_segments: int,
    counts_are_known: bool,
) -> None:
    """With no spread allowed each is at its very place; else within two segments of it.

    How many pieces the ring must send is known only where its segments are as large as gloo makes them.
    """
    links = Links(n_ranks, kilobytes_per_s * 1000, delay_ms * MS, buffer_nbytes, packet_nbytes)
    begins = [(4 * n_ranks * words, [1_000 + ms * MS for ms in at[:n_ranks]]) for words, at in buckets]
    ring = Ring(links, begins)
    path = ring.captured(tmp_path_factory.mktemp("ring") / "a.pcap", visible)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gloo_ways, "MAX_SPREAD_SEGMENTS", spread_segments)
        if counts_are_known:
            patch.setattr(gloo_ring_counts, "MAX_SEGMENT_NBYTES", SEGMENT_PAYLOAD_NBYTES)
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
        parts = [(f.offset, f.offset + f.nbytes) for f in one.frames] + [g[:2] for g in one.unresolved]
        assert all(end <= start for (_, end), (start, _) in pairwise(sorted(parts)))
        for frame in one.frames:
            places = true.get((frame.opcode, frame.slot, frame.length), [])
            if frame.opcode is Opcode.DATA:
                nearest = min((abs(place - frame.offset) for place in places), default=1 << 60)
                assert nearest <= (
                    NOTICES_NBYTES + spread_segments * SEGMENT_NBYTES if frame.recovered else 0
                )
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


def test_one_edge_that_shows_all_its_pieces_is_enough() -> None:
    sends = gloo_ring(4, 340_008)
    whole = {
        (f"h{src}", f"h{(src - 1) % 4}"): tuple(s.nbytes for s in sends if s.src == src) for src in range(4)
    }
    short = min(whole["h0", "h3"])
    seen = {edge: [n for n in lengths if n != short] for edge, lengths in whole.items()}
    assert ring_lengths(seen) == {}
    assert ring_lengths({**seen, ("h0", "h3"): whole["h0", "h3"]}) == whole


def test_lengths_that_gloo_would_cut_smaller_are_no_rings() -> None:
    """Of a hostile file: a buffer that explains them would be cut into millions of pieces."""
    seen = {(f"h{i}", f"h{(i - 1) % 8}"): [1 << 40] * 14 for i in range(8)}
    assert ring_lengths(seen) == {}
