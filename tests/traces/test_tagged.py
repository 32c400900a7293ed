"""Collectives whose messages carry a tag: sizes and ends, also where only a part of one was captured."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from gradwire.traces.framing.frames import MessageKind
from gradwire.traces.framing.messages import Messages
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.tagged import tagged
from gradwire.traces.schedules.algorithms.gloo import gloo_ring
from gradwire.traces.schedules.sends import Send

SAMPLE = Path(__file__).parents[2] / "traces" / "samples" / "ddp_gloo_8"


@pytest.fixture(scope="module")
def messages() -> Messages:
    return open_trace([SAMPLE]).messages


def sizes(messages: Messages, all_visible: bool = True) -> dict[int, int]:
    return {o.tag: o.nbytes for o in tagged(messages, all_visible)[0] if o.kind == "allreduce"}


def test_an_allreduce_has_its_size_from_all_ranks_together(messages: Messages) -> None:
    assert sizes(messages) == {3: 340_008, 6: 340_008, 7: 340_008}


def test_notices_give_the_size_where_data_stays_hidden(messages: Messages) -> None:
    hidden = (messages.tag == 6) & messages.is_data & (messages.src == 2)
    hidden[hidden.nonzero()[0][5:]] = False  # five of rank 2's segments
    assert sizes(messages.where(~hidden), all_visible=False)[6] == 340_008


def of_allreduce_7(messages: Messages, kind: MessageKind) -> npt.NDArray[np.int64]:
    is_its = messages.of("allreduce") & (messages.tag == 7) & (messages.kind == kind)
    return np.flatnonzero(is_its)


def announcing(messages: Messages, row: int, nbytes: int) -> Messages:
    """As in a damaged capture."""
    lengths = messages.nbytes.copy()
    lengths[row] = nbytes
    return replace(messages, nbytes=lengths)


@pytest.mark.parametrize("kind", [MessageKind.SEND_READY, MessageKind.RECV_READY])
def test_a_length_that_no_capture_can_hold_makes_no_allreduce_of_terabytes(
    messages: Messages, kind: MessageKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """14 TiB more are a sum that 8 ranks may send; its ring would have had 16 million sends."""

    def small_ring(n_ranks: int, nbytes: int) -> Iterable[Send]:
        assert nbytes < 1 << 30
        return gloo_ring(n_ranks, nbytes)

    monkeypatch.setattr("gradwire.traces.recognition.tagged.gloo_ring", small_ring)
    damaged = announcing(messages, of_allreduce_7(messages, kind)[0], 14 << 40)
    found = sizes(damaged, all_visible=False)
    assert found[6] == 340_008
    assert 7 not in found


def test_one_hosts_part_is_not_as_long_as_a_notice_alone_says(messages: Messages) -> None:
    """Of the first data that rank 2 is sent all but its own notice is hidden, and that is damaged."""
    seen = messages.where((messages.src == 2) | (messages.dst == 2))
    hidden = [
        next(row for row in of_allreduce_7(seen, kind) if seen.dst[row] == 2)
        for kind in (MessageKind.DATA, MessageKind.SEND_READY)
    ]
    seen = seen.where(~np.isin(np.arange(len(seen)), hidden))
    notice = next(row for row in of_allreduce_7(seen, MessageKind.RECV_READY) if seen.src[row] == 2)
    found, cut = tagged(announcing(seen, notice, 1 << 40), all_visible=False, seen_from=(2,))
    assert {o.tag: o.nbytes for o in found if o.kind == "allreduce"} == {3: 340_008, 6: 340_008}
    assert "allreduce tag 7" in cut


def test_a_broadcast_of_which_only_what_came_in_is_seen_is_a_part(messages: Messages) -> None:
    """Damaged captures of one host had nothing else of it, not even that the host was ready."""
    data = messages.of("broadcast") & messages.is_data
    rank, tag = int(messages.dst[data][0]), int(messages.tag[data][0])
    came_in = data & (messages.dst == rank) & (messages.tag == tag)
    found, cut = tagged(messages.where(came_in), all_visible=True, seen_from=(rank,))
    assert not found
    assert cut == [f"broadcast tag {tag}"]


def test_a_rank_is_done_when_its_last_data_has_arrived_and_its_last_send_has_begun(
    messages: Messages,
) -> None:
    (tag3,) = (o for o in tagged(messages, all_visible=True)[0] if o.tag == 3 and o.kind == "allreduce")
    data = messages.where((messages.tag == 3) & messages.is_data)
    for rank in range(8):
        arrived = int(data.received_ns[data.dst == rank].max())
        assert tag3.done[rank] == max(arrived, int(data.first_ns[data.src == rank].max()))


@pytest.mark.parametrize("kept", range(3, 11))
def test_what_a_cut_leaves_of_an_allreduce_is_none(messages: Messages, kept: int) -> None:
    """Cut in time within it: no size may come of the rest, even if that adds up."""
    times = messages.first_ns[(messages.tag == 6) & messages.is_data & messages.of("allreduce")]
    begin_ns = int(times.min() + (times.max() - times.min()) * kept // 12)
    found = sizes(messages.where(messages.first_ns >= begin_ns))
    assert set(found.values()) == {340_008}
    assert 6 not in found


def test_an_allreduce_in_which_ranks_take_unequal_parts_is_not_whole(messages: Messages) -> None:
    """Rank 2 lacks some segments, with their notices; the rest adds up to a buffer one segment smaller."""
    gone = messages.of("allreduce") & (messages.tag == 7)
    gone &= messages.nbytes == 21_252  # all segments but the last
    first = np.flatnonzero(gone & messages.is_data & (messages.src == 2))[:14]
    assert len(first) == 14  # of 2(n-1) as many: the sum passes for a buffer's
    rows = set(first.tolist())
    for kind in (MessageKind.SEND_READY, MessageKind.RECV_READY):
        ends = messages.src if kind == MessageKind.SEND_READY else messages.dst
        rows |= set(np.flatnonzero(gone & (messages.kind == kind) & (ends == 2))[:14].tolist())
    found = sizes(messages.where(np.array([i for i in range(len(messages)) if i not in rows])))
    assert 7 not in found
