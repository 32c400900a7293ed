"""Finds collectives whose messages carry their instance's number, the tag.

They are compared with gloo's own ring and tree first; of some only a part of the ranks is seen.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from gradwire.traces.framing.frames import UNKNOWN_TAG, MessageKind
from gradwire.traces.framing.gloo_ring_counts import Edge, ring_lengths
from gradwire.traces.framing.messages import Messages
from gradwire.traces.recognition.algorithms import PATTERNS, UNKNOWN, Recognised, best_match, recognised
from gradwire.traces.recognition.lanes import lanes_of
from gradwire.traces.recognition.operation import Operation, earliest, handed_over_ns, latest
from gradwire.traces.recognition.patterns import SURE
from gradwire.traces.recognition.ranks import joined
from gradwire.traces.schedules.algorithms.gloo import GLOO_MAX_SEGMENT_NBYTES, gloo_ring, gloo_ring_sends
from gradwire.traces.schedules.algorithms.trees import broadcast
from gradwire.traces.schedules.kinds import ELEMENT_NBYTES
from gradwire.traces.schedules.sends import Send

Sends = Counter[tuple[int, int, int]]  # by source, destination and length
_WHOLE: tuple[Literal["allreduce", "broadcast"], ...] = ("allreduce", "broadcast")


def tagged(
    messages: Messages, all_visible: bool, seen_from: Collection[int] = ()
) -> tuple[list[Operation], list[str]]:
    """Allreduces and broadcasts with a tag, and the names of those that the capture's ends cut."""
    operations: list[Operation] = []
    cut: list[str] = []
    for rows in by_tag(messages, np.flatnonzero(of_tagged(messages))):
        instance = messages.where(rows)
        operation = _part(instance, seen_from) if seen_from else _collective(instance, all_visible)
        if isinstance(operation, str):
            cut.append(operation)
        else:
            operations.append(operation)
    return operations, cut


def of_tagged(messages: Messages) -> npt.NDArray[np.bool_]:
    """Rows of the collectives that `tagged` puts together."""
    is_whole = np.logical_or.reduce([messages.of(name) for name in _WHOLE])
    return np.asarray(is_whole & (messages.tag != UNKNOWN_TAG), np.bool_)


def by_tag(messages: Messages, rows: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """The rows by collective and tag, each group in time order."""
    order = np.lexsort((rows, messages.tag[rows], messages.operation[rows]))
    rows = rows[order]
    if not len(rows):
        return
    changes = (np.diff(messages.tag[rows]) != 0) | (np.diff(messages.operation[rows]) != 0)
    yield from np.split(rows, np.flatnonzero(changes) + 1)


def _collective(messages: Messages, all_visible: bool) -> Operation | str:
    """The operation, or its name if the capture holds only a part of it."""
    name = messages.operations[messages.operation[0]]
    tag = int(messages.tag[0])
    data = messages.where(messages.is_data)
    announced = _announced(messages)
    n_ranks = len(messages.addresses)
    if name == "allreduce" and not all_visible:
        announced = _as_ring(messages, announced)
    is_whole = len(data) == announced.total()
    if all_visible:
        senders, receivers = set(data.src.tolist()), set(data.dst.tolist())
    else:
        senders, receivers = {src for src, _, _ in announced}, {dst for _, dst, _ in announced}
    total = sum(length * count for (_, _, length), count in announced.items())
    roots = senders - receivers
    nbytes = max((length for _, _, length in announced), default=0)
    if name == "allreduce":
        # A ring and halving-doubling alike send 2(n-1)/n of the buffer from each of n ranks.
        nbytes, odd = divmod(total, 2 * (n_ranks - 1))
        is_part = bool(odd) or len(senders) < n_ranks or len(receivers) < n_ranks
    else:
        is_part = len(roots) != 1 or len(receivers) != n_ranks - 1
    if is_part or not data.whole.all() or (all_visible and announced.total() != len(data)):
        return f"{name} tag {tag}"
    usual = _usual(name, n_ranks, nbytes, min(roots, default=0), announced.total())
    if announced != usual and not is_whole:
        return f"{name} tag {tag}"
    known = _as_usual(name, n_ranks, announced) if announced == usual else _by_pattern(name, data)
    if (
        known is UNKNOWN
        and name == "allreduce"
        and not _is_balanced(messages, announced, nbytes, all_visible)
    ):
        return f"{name} tag {tag}"
    return Operation(
        kind="allreduce" if name == "allreduce" else "broadcast",
        what=name,
        tag=tag,
        nbytes=nbytes,
        src=min(roots, default=0),
        dst=0,
        begun=_begun(messages),
        done=latest(np.append(data.src, data.dst), np.append(handed_over_ns(data), data.received_ns))
        if is_whole
        else _done_at_least(messages),
        is_usual=announced == usual,
        recognised=known,
        is_whole=is_whole,
    )


def _part(messages: Messages, seen_from: Collection[int]) -> Operation | str:
    """A collective as the ranks `seen_from` take part in it, with their times alone.

    The size of an allreduce is certain if what these ranks send and receive is what they do in gloo's ring of
    that size; else it is as good as the assumption that each rank sends 2(n-1)/n of the buffer.
    """
    name = messages.operations[messages.operation[0]]
    tag, n_ranks = int(messages.tag[0]), len(messages.addresses)
    data = messages.where(messages.is_data)
    announced = _announced(messages)
    longest = nbytes = max((length for _, _, length in announced), default=0)
    is_usual = False
    if not len(data) or longest > data.nbytes.max():  # no message as long as announced: damaged, or cut
        return f"{name} tag {tag}"
    if name == "allreduce":
        nbytes = _reduced_nbytes(announced, n_ranks, seen_from)
        most = announced.total() * n_ranks  # all ranks send alike
        is_usual = announced == _sends_at(seen_from, _usual(name, n_ranks, nbytes, 0, most))
    begun = {rank: ns for rank, ns in _begun(messages).items() if rank in seen_from}
    if not nbytes or not data.whole.all() or not begun:
        return f"{name} tag {tag}"
    times = latest(np.append(data.src, data.dst), np.append(handed_over_ns(data), data.received_ns))
    return Operation(
        kind="allreduce" if name == "allreduce" else "broadcast",
        what=name,
        tag=tag,
        nbytes=nbytes,
        src=int(data.src[0]) if name == "broadcast" else 0,
        dst=0,
        begun=begun,
        done={rank: ns for rank, ns in times.items() if rank in seen_from},
        is_usual=is_usual,
        recognised=_as_usual(name, n_ranks, announced) if is_usual else UNKNOWN,
    )


def _sends_at(ranks: Collection[int], sends: Sends) -> Sends:
    return Counter({edge: count for edge, count in sends.items() if edge[0] in ranks or edge[1] in ranks})


def _reduced_nbytes(announced: Sends, n_ranks: int, seen_from: Collection[int]) -> int:
    """The buffer of an allreduce from what some ranks send; 0 where they do not send alike.

    gloo cuts the buffer into equal segments but for the last one, and each rank sends 2(n-1)/n of them.
    """
    sent = [sum(count for edge, count in announced.items() if edge[0] == rank) for rank in seen_from]
    received = [sum(count for edge, count in announced.items() if edge[1] == rank) for rank in seen_from]
    n_segments, odd = divmod(max(sent) * n_ranks, 2 * (n_ranks - 1))
    if odd or len({*sent, *received}) > 1:
        return 0
    lengths = [length for _, _, length in announced]
    return (n_segments - 1) * max(lengths) + min(lengths)


def _begun(messages: Messages) -> dict[int, int]:
    """A message whose header was not captured counts only for a rank that shows no other."""
    read = messages.where(~messages.recovered)
    return earliest(messages.src, messages.first_ns) | earliest(read.src, read.first_ns)


def _done_at_least(messages: Messages) -> dict[int, int]:
    """The last that is known of each rank: what it sent, notices too, and the data that it received."""
    data = messages.where(messages.is_data)
    return latest(
        np.concatenate([messages.src, data.dst]), np.concatenate([messages.last_ns, data.received_ns])
    )


def _as_ring(messages: Messages, announced: Sends) -> Sends:
    """All that gloo's ring must have sent, if that holds what was announced; else what was announced."""
    edges: defaultdict[Edge, list[int]] = defaultdict(list)
    answers = messages.where(messages.kind == MessageKind.RECV_READY)
    for src, dst, nbytes in zip(
        answers.dst.tolist(), answers.src.tolist(), answers.nbytes.tolist(), strict=True
    ):
        edges[str(src), str(dst)].append(nbytes)
    if len(edges) != len(messages.addresses):
        return announced
    sent = Counter(
        (int(src), int(dst), length)
        for (src, dst), lengths in ring_lengths(edges).items()
        for length in lengths
    )
    is_part = announced <= sent
    return sent if is_part else announced


def _is_balanced(messages: Messages, announced: Sends, nbytes: int, all_visible: bool) -> bool:
    """Whether an allreduce of no known pattern looks whole: each rank takes the same part in it.

    What a capture's end leaves of one may add up to some buffer, too.  All of its data was announced.
    """
    sent: Counter[int] = Counter()
    received: Counter[int] = Counter()
    for (src, dst, _), count in announced.items():
        sent[src] += count
        received[dst] += count
    if len(joined(messages.src, messages.dst)) > 1:
        return False
    if nbytes % ELEMENT_NBYTES or len({*sent.values(), *received.values()}) > 1:
        return False
    notices = [
        int((messages.kind == kind).sum()) for kind in (MessageKind.SEND_READY, MessageKind.RECV_READY)
    ]
    return not (all_visible and any(notices)) or min(notices) == announced.total()


def _as_usual(name: str, n_ranks: int, announced: Sends) -> Recognised:
    if name == "broadcast":
        return Recognised("tree", SURE, f"{n_ranks - 1} messages of the whole buffer, gloo's binomial tree")
    count = max(sum(some.values()) for some in _by_source(announced).values())
    evidence = f"each of {n_ranks} ranks sends to one other only, round a ring: {count} messages of "
    evidence += f"{max(length for _, _, length in announced)} bytes at most, cut as gloo's ring does"
    return Recognised("ring", SURE, evidence)


def _by_source(announced: Sends) -> dict[int, Sends]:
    found: defaultdict[int, Sends] = defaultdict(Counter)
    for (src, dst, length), count in announced.items():
        found[src][src, dst, length] += count
    return found


def _by_pattern(name: str, data: Messages) -> Recognised:
    """Named if one known pattern takes all of its messages."""
    if name not in PATTERNS or data.tag.size == 0:
        return UNKNOWN
    match = best_match(name, lanes_of(data, np.arange(len(data)), np.zeros(len(data), np.int64)))
    if match is None or sum(match.counts.values()) != len(data):
        return UNKNOWN
    return recognised(match)


@lru_cache(maxsize=256)
def _usual(name: str, n_ranks: int, nbytes: int, root: int, most_sends: int) -> Sends:
    """Sends by source, destination and length, as gloo itself makes them; none of a ring that takes more than
    `most_sends`, as a length in a damaged capture may ask for.
    """
    made: Iterable[Send] = ()
    if name == "broadcast":
        made = broadcast(n_ranks, nbytes, root)
    elif nbytes % ELEMENT_NBYTES == 0:
        n_sends = gloo_ring_sends(n_ranks, nbytes, GLOO_MAX_SEGMENT_NBYTES)
        made = gloo_ring(n_ranks, nbytes) if n_sends <= most_sends else ()
    return Counter((send.src, send.dst, send.nbytes) for send in made)


def _announced(messages: Messages) -> Sends:
    """Sends by source, destination and length, from whatever shows most of them: data or either notice."""
    counts: defaultdict[int, Sends] = defaultdict(Counter)
    columns = (messages.kind, messages.src, messages.dst, messages.nbytes)
    for kind, src, dst, nbytes in zip(*(column.tolist() for column in columns), strict=True):
        ends = (dst, src) if kind == MessageKind.RECV_READY else (src, dst)
        counts[kind][*ends, nbytes] += 1
    return counts[MessageKind.DATA] | counts[MessageKind.SEND_READY] | counts[MessageKind.RECV_READY]
