"""Open MPI over its TCP BTL, as a framing: see `traces.framing.mpi_btl` for the wire format.

One frame of data is one MPI message.  A large one goes as a RNDV, the receiver's PUT request, PUTs and FINs:
its frame begins with the RNDV and ends with the last byte of the last PUT, so that `first_ns` is when the
message was ready and `last_ns` when its data had left.  So the frames of messages that are in flight at once
overlap, and requests for messages of the other direction may lie inside; payload is counted once.  The
receiver's requests are RECV_READY; FINs and handshakes are CONTROL.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from gradwire.traces.framing.beginnings import Beginnings, Mask
from gradwire.traces.framing.frames import Fit, Found, Hidden, Reading
from gradwire.traces.framing.mpi_btl import (
    HANDSHAKE_NBYTES,
    MAGIC,
    MAGIC_AT,
    SURE_NBYTES,
    WORLD,
    Process,
    What,
)
from gradwire.traces.framing.mpi_decode import MpiDecoded, decode, header_nbytes
from gradwire.traces.framing.mpi_hidden import recovered
from gradwire.traces.framing.mpi_messages import Frames, frames_of
from gradwire.traces.packets.directions import Direction
from gradwire.traces.packets.streams import Connection

_End = tuple[str, Process | int]  # an address, and the process there or, where it did not tell, a port


MAX_ROUNDS = 4  # of telling what is hidden in one direction from the other
ENOUGH = 32  # fragments of each stream that are looked at before a connection is taken for Open MPI's


class Mpi:
    """Ranks are what processes say of themselves in the handshake."""

    name = "mpi"
    is_training = True

    def fit(self, connection: Connection) -> Fit | None:
        """A handshake with Open MPI's magic word, or else several fragments that it would write."""
        decoded = [one for s in connection.streams if (one := decode(s, ENOUGH)) is not None]
        if not decoded:
            return None
        n_fragments = sum(len(one.placed) for one in decoded)
        greeted = [one.process.number for one in decoded if one.process is not None]
        if greeted:
            who = " and ".join(map(str, greeted))
            return Fit(
                1.0, f"the handshake OPAL-TCP-BTL of process {who}, and its first {n_fragments} fragments"
            )
        return Fit(
            0.9, f"{n_fragments} fragments that Open MPI's TCP BTL would write; no handshake was captured"
        )

    def rules_out(self, seen: Beginnings) -> Mask:
        """Where all streams begin with something else than the handshake, or are shorter than fragments."""
        magic = np.frombuffer(MAGIC, np.uint8)
        is_magic = (seen.head[:, MAGIC_AT : MAGIC_AT + len(magic)] == magic).all(axis=1)
        is_other = (seen.opens | seen.answers) & (seen.n_visible >= HANDSHAKE_NBYTES) & ~is_magic
        return seen.all_of(is_other | (seen.nbytes < SURE_NBYTES))

    def read(self, connections: Sequence[Connection]) -> Found:
        seen = [one for c in connections for stream in c.streams if (one := decode(stream)) is not None]
        between = _between(_completed(seen))
        match_nbytes = header_nbytes(seen)
        frames: Frames = defaultdict(list)
        for (src, dst), forth in between.items():
            for direction, some in frames_of(forth, between.get((dst, src), []), match_nbytes).items():
                frames[direction] += some
        readings = tuple(
            Reading(
                stream=one.stream,
                frames=tuple(sorted(frames[one.stream.direction])),
                hidden=tuple(Hidden(gap.start, gap.end) for gap in one.gaps),
            )
            for some in between.values()
            for one in some
        )
        return Found(readings, _ranks(seen), tuple(_notes(seen)))


def _completed(seen: Sequence[MpiDecoded]) -> list[MpiDecoded]:
    """With what the capture hides, where that is certain.

    Not where two processes share several connections (btl_tcp_links): what is due may go any of them.  What
    was found of one direction tells more about the other.
    """
    sizes = Counter(p.fragment.size for one in seen for p in one.placed if p.fragment.what is What.MATCH)
    between = _between(seen)
    completed = []
    for (src, dst), forth in between.items():
        back = between.get((dst, src), [])
        if len(forth) > 1 or len(back) > 1:
            completed += forth
        elif not back:
            completed += [recovered(one, None, sizes) for one in forth]
        elif src <= dst:
            completed += _both_completed(forth[0], back[0], sizes)
    return completed


def _both_completed(
    forth: MpiDecoded, back: MpiDecoded, sizes: Counter[int]
) -> tuple[MpiDecoded, MpiDecoded]:
    full_forth, full_back = forth, back
    for _ in range(MAX_ROUNDS):
        n_gaps = len(full_forth.gaps) + len(full_back.gaps)
        full_forth, full_back = recovered(forth, full_back, sizes), recovered(back, full_forth, sizes)
        if len(full_forth.gaps) + len(full_back.gaps) in (0, n_gaps):
            break
    return full_forth, full_back


def _between(decoded: Sequence[MpiDecoded]) -> dict[tuple[_End, _End], list[MpiDecoded]]:
    """The streams from each process to each other."""
    between: defaultdict[tuple[_End, _End], list[MpiDecoded]] = defaultdict(list)
    names = {one.stream.direction: one.process for one in decoded}
    for one in decoded:
        between[_ends(one.stream.direction, names)].append(one)
    return dict(between)


def _ends(direction: Direction, names: dict[Direction, Process | None]) -> tuple[_End, _End]:
    """Between which processes a stream is; connections of processes that gave no name are kept apart."""
    src, dst = names.get(direction), names.get(direction.reverse)
    if src is None or dst is None:
        return (direction.src, direction.sport), (direction.dst, direction.dport)
    return (direction.src, src), (direction.dst, dst)


def _ranks(decoded: Iterable[MpiDecoded]) -> dict[str, frozenset[int]]:
    """What each host's processes said: in the handshake, else as the source of messages in MPI_COMM_WORLD.

    That communicator is number 0.
    """
    said: dict[str, set[int]] = {}
    for one in decoded:
        said.setdefault(one.stream.direction.dst, set())
        numbers = said.setdefault(one.stream.direction.src, set())
        if one.process is not None:
            numbers.add(one.process.number)
            continue
        envelopes = (placed.fragment.envelope for placed in one.placed)
        numbers |= {e.source for e in envelopes if e is not None and e.context == WORLD}
    return {host: frozenset(numbers) for host, numbers in said.items()}


def _notes(decoded: Sequence[MpiDecoded]) -> Iterable[str]:
    jobs = {one.process.job for one in decoded if one.process is not None}
    if len(jobs) > 1:
        yield f"Open MPI: processes of {len(jobs)} jobs: their ranks are numbered apart"
