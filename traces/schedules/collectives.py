"""Collectives as schedules: each function is one textbook algorithm.

Every function returns the sends of operation 0 alone, with ids from 0 on.  Offsets and sizes are in bytes
and, where data is added, multiples of an element (float32, 4 bytes).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from gradwire.traces.schedules.sends import Edges, Send, Sends

ELEMENT_NBYTES = 4
GLOO_MAX_SEGMENT_NBYTES = 1 << 20


class NotServedError(ValueError):
    """An algorithm that cannot serve this number of ranks; the text says why."""


def ring(n_ranks: int, nbytes: int) -> Sends:
    """Reduce-scatter round the ring, then all-gather: 2(n-1) steps.

    In step s, rank r sends chunk (r - s) mod n to rank r+1.  After n-1 steps rank r owns the full sum
    of chunk r+1, which is just what the same rule sends next, so the second half needs no formula of
    its own.  Receivers have two buffers: they are ready for a step when the one before the last is in.
    """
    check_ranks("a ring", n_ranks)
    cuts = np.array(chunk_starts(nbytes, n_ranks))
    n_steps = 2 * (n_ranks - 1)
    step = np.repeat(np.arange(n_steps, dtype=np.int32), n_ranks)
    src = np.tile(np.arange(n_ranks, dtype=np.int32), n_steps)
    chunk = (src - step) % n_ranks
    later, last_but_one = step[step > 0], step[step > 1]
    return Sends(
        op=np.zeros(len(step), np.int32),
        src=src,
        dst=(src + 1) % np.int32(n_ranks),
        step=step,
        offset=cuts[chunk],
        nbytes=cuts[chunk + 1] - cuts[chunk],
        shift=np.zeros(len(step), np.int64),
        reduce=step < n_ranks - 1,
        needs=Edges.one(step > 0, (later - 1) * n_ranks + (src[step > 0] - 1) % n_ranks),
        ready=Edges.one(step > 1, (last_but_one - 2) * n_ranks + src[step > 1]),
    )


def gloo_ring(
    n_ranks: int,
    nbytes: int,
    max_segment_nbytes: int = GLOO_MAX_SEGMENT_NBYTES,
) -> list[Send]:
    """gloo's own chunked ring, two segments in flight (gloo/allreduce.cc, `ring`).

    Each rank's chunk is cut in at least two equal segments of at most `max_segment_nbytes`; the last may be
    short, or absent.  Rank r sends to r-1.  Segment i leaves when segment i-2 has been sent and
    received; the all-gather begins when the rank's reduce-scatter is complete.
    """
    check_ranks("gloo's ring", n_ranks)
    cut = _gloo_cut(n_ranks, nbytes, max_segment_nbytes)
    ids: dict[tuple[int, int], int] = {}  # (round over both halves, source) -> id
    sends: list[Send] = []
    for round_ in range(2 * cut.rounds):
        before = cut.rounds_before(round_)
        for src in range(n_ranks):
            offset = cut.offset(round_, src)
            length = min(cut.segment_nbytes, nbytes - offset)
            if length <= 0:
                continue
            dst = (src - 1) % n_ranks
            ids[round_, src] = len(sends)
            sends.append(
                Send(
                    op=0,
                    src=src,
                    dst=dst,
                    offset=offset,
                    nbytes=length,
                    reduce=round_ < cut.rounds,
                    needs=_gloo_done(ids, before, src, n_ranks),
                    ready=_gloo_done(ids, before, dst, n_ranks),
                    step=round_,
                )
            )
    return sends


@dataclass(frozen=True, slots=True)
class _GlooCut:
    """How gloo cuts a buffer: `per_rank` segments of one size for each rank, one sent per round."""

    n_ranks: int
    per_rank: int
    segment_nbytes: int

    @property
    def rounds(self) -> int:
        """Those of each half: a rank sends all segments but one rank's."""
        return (self.n_ranks - 1) * self.per_rank

    def offset(self, round_: int, src: int) -> int:
        """Where the segment begins that `src` sends in this round; for one that is absent, beyond the end."""
        reduce = round_ < self.rounds
        index = (src + reduce) * self.per_rank + round_ % self.rounds
        return index % (self.n_ranks * self.per_rank) * self.segment_nbytes

    def rounds_before(self, round_: int) -> tuple[int, ...]:
        """The rounds that a rank must be done with before it goes on to this one."""
        if round_ % self.rounds >= 2:
            return (round_ - 2,)
        if round_ >= self.rounds:  # the first two of the all-gather: all of the reduce-scatter
            return (self.rounds - 2, self.rounds - 1)
        return ()


def _gloo_cut(n_ranks: int, nbytes: int, max_segment_nbytes: int) -> _GlooCut:
    max_segment = max(ELEMENT_NBYTES, max_segment_nbytes // ELEMENT_NBYTES * ELEMENT_NBYTES)
    n_segments = _round_up(max(-(-nbytes // max_segment), 2 * n_ranks), n_ranks)
    segment_nbytes = _round_up(-(-nbytes // n_segments), ELEMENT_NBYTES)
    return _GlooCut(n_ranks, n_segments // n_ranks, segment_nbytes)


def gloo_ring_sends(n_ranks: int, nbytes: int, max_segment_nbytes: int) -> int:
    """How many sends `gloo_ring` makes: every segment goes round the ring twice, less one step each time."""
    if n_ranks < 2 or not nbytes:
        return 0
    return 2 * (n_ranks - 1) * -(-nbytes // _gloo_cut(n_ranks, nbytes, max_segment_nbytes).segment_nbytes)


def _gloo_done(
    ids: Mapping[tuple[int, int], int], rounds: tuple[int, ...], rank: int, n_ranks: int
) -> tuple[int, ...]:
    """What `rank` receives and sends in these rounds, as far as there is something."""
    keys = [(round_, src) for round_ in rounds for src in ((rank + 1) % n_ranks, rank)]
    return tuple(ids[key] for key in keys if key in ids)


def piece_starts(sends: Iterable[Send]) -> Iterator[int]:
    """The starts of the pieces of the buffer that no send divides (for `contributions`)."""
    for send in sends:
        yield send.offset
        yield send.offset + send.nbytes


def chunk_starts(nbytes: int, n_chunks: int) -> list[int]:
    """Where to cut `nbytes` into chunks of whole elements that differ by at most one element."""
    elements, rest = divmod(nbytes, ELEMENT_NBYTES)
    if rest:
        raise ValueError(
            f"an allreduce adds {ELEMENT_NBYTES}-byte elements; {nbytes} is not a multiple of "
            f"{ELEMENT_NBYTES}"
        )
    return [elements * i // n_chunks * ELEMENT_NBYTES for i in range(n_chunks + 1)]


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def check_ranks(what: str, n_ranks: int) -> None:
    """Raise NotServedError for a rank that is alone; `what` names the algorithm."""
    if n_ranks < 2:
        raise NotServedError(f"{what} needs at least 2 ranks, got {n_ranks}")


def all_pairs(n_ranks: int, nbytes: int) -> list[Send]:
    """Direct reduce-scatter and all-gather, all posted at once: 2(n-1)/n S bytes each rank, in two steps.

    Rank r adds up chunk r.  Its closed form is 2 alpha + 2(n-1)/n S beta.
    """
    check_ranks("all-pairs", n_ranks)
    cut = chunk_starts(nbytes, n_ranks)
    pairs = [(src, (src + shift) % n_ranks) for shift in range(1, n_ranks) for src in range(n_ranks)]
    number = {pair: place for place, pair in enumerate(pairs)}
    into = {rank: tuple(number[pair] for pair in pairs if pair[1] == rank) for rank in range(n_ranks)}
    size = [cut[chunk + 1] - cut[chunk] for chunk in range(n_ranks)]
    sends = [Send(0, src, dst, cut[dst], size[dst], reduce=True) for src, dst in pairs]
    for src, dst in pairs:
        ready = (number[dst, src],)  # the receiver's own chunk has left
        sends.append(
            Send(0, src, dst, cut[src], size[src], reduce=False, needs=into[src], ready=ready, step=1)
        )
    return sends
