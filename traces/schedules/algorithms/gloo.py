"""gloo's own ring, which is what "as captured" means where no other algorithm was recognised."""

from dataclasses import dataclass

import numpy as np

from gradwire.traces.schedules.algorithm import check_ranks
from gradwire.traces.schedules.kinds import ELEMENT_NBYTES
from gradwire.traces.schedules.sends import Edges, Nbytes, Sends

GLOO_MAX_SEGMENT_NBYTES = 1 << 20


def gloo_ring(
    n_ranks: int,
    nbytes: int,
    max_segment_nbytes: int = GLOO_MAX_SEGMENT_NBYTES,
) -> Sends:
    """gloo's own chunked ring, two segments in flight (gloo/allreduce.cc, `ring`).

    Each rank's chunk is cut in at least two equal segments of at most `max_segment_nbytes`; the last may be
    short, or absent.  Rank r sends to r-1.  Segment i leaves when segment i-2 has been sent and
    received; the all-gather begins when the rank's reduce-scatter is complete.
    """
    check_ranks("gloo's ring", n_ranks)
    cut = _gloo_cut(n_ranks, nbytes, max_segment_nbytes)
    step = np.repeat(np.arange(2 * cut.rounds), n_ranks)
    src = np.tile(np.arange(n_ranks), 2 * cut.rounds)
    dst = (src - 1) % n_ranks
    offset = cut.offset(step, src)
    is_there = offset < nbytes
    ids = np.where(is_there, np.cumsum(is_there) - 1, -1).reshape(-1, n_ranks)  # by step and source
    before = cut.steps_before(step)
    return Sends(
        op=np.zeros(int(is_there.sum()), np.int32),
        src=src[is_there].astype(np.int32),
        dst=dst[is_there].astype(np.int32),
        step=step[is_there].astype(np.int32),
        offset=offset[is_there],
        shift=np.zeros(int(is_there.sum()), np.int64),
        nbytes=np.minimum(cut.segment_nbytes, nbytes - offset[is_there]),
        reduce=step[is_there] < cut.rounds,
        needs=_gloo_done(ids, before[is_there], src[is_there]),
        ready=_gloo_done(ids, before[is_there], dst[is_there]),
    )


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

    def offset(self, step: Nbytes, src: Nbytes) -> Nbytes:
        """Where the segments begin that `src` sends in these steps; of one that is absent, beyond the end."""
        index = (src + (step < self.rounds)) * self.per_rank + step % self.rounds
        return index % (self.n_ranks * self.per_rank) * self.segment_nbytes

    def steps_before(self, step: Nbytes) -> Nbytes:
        """The two steps that a rank must be done with before it goes on to each of these; -1: none."""
        before = np.where(step % self.rounds >= 2, step - 2, -1)
        is_turn = (step >= self.rounds) & (before < 0)  # the all-gather's first two wait for the last two
        return np.stack(
            [np.where(is_turn, self.rounds - 2, before), np.where(is_turn, self.rounds - 1, -1)], axis=1
        )


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


def _gloo_done(ids: Nbytes, before: Nbytes, rank: Nbytes) -> Edges:
    """What each `rank` receives and sends in the steps before, as far as there is something.

    `ids` are those of all sends, by step and source; both it and `before` have -1 for what does not exist.
    """
    neighbour = (rank + 1) % ids.shape[1]
    columns = [ids[steps, sender] for steps in before.T for sender in (neighbour, rank)]
    is_there = [steps >= 0 for steps in before.T for _ in range(2)]
    done = np.where(np.stack(is_there, axis=1), np.stack(columns, axis=1), -1)
    return Edges.present(done)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
