"""The message patterns of allreduce algorithms: which messages would make up the next instance of each.

Nothing is assumed of how a buffer is cut or how large its elements are: what must be equal by the algorithm
(what one rank passes on is what it was sent before) is compared, and the buffer's size follows.  Sources:
Open MPI's coll_base_allreduce.c, MPICH's allreduce, gloo's docs/algorithms.md; closed forms as in
`traces.schedules`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from gradwire.traces.recognition.lanes import Ahead, Pair
from gradwire.traces.schedules.algorithms.doubling import Fold
from gradwire.traces.workload import Shape

SURE, AMBIGUOUS = 1.0, 0.5
MAX_TOO_EARLY = 0.02
Name = Literal[
    "ring",
    "segmented-ring",
    "recursive-doubling",
    "halving-doubling",
    "tree",
    "reduce-broadcast",
    "all-pairs",
    "parameter-server",
    "point-to-point",
    "unknown",
]


@dataclass(frozen=True)
class PatternMatch:
    """The next `counts` messages of each pair are one instance, of a buffer of `nbytes`."""

    name: Name
    nbytes: int
    counts: Mapping[Pair, int]
    evidence: str
    confidence: float = SURE
    root: int = 0
    shape: Shape | None = None  # of a tree
    sizes: frozenset[int] = frozenset()  # of a ring's messages


def allreduces(ahead: Ahead) -> Iterator[PatternMatch]:
    """All that the next messages may be; the same messages may fit several."""
    known: tuple[Callable[[Ahead], PatternMatch | None], ...]
    known = (recursive_doubling, halving_doubling, ring, all_pairs)
    for look in known:
        match = look(ahead)
        if match:
            yield match


def ring(ahead: Ahead) -> PatternMatch | None:
    """2(n-1) messages from each rank to the next one only: chunk r-s in step s.

    In P phases (Open MPI's segmented ring) the reduce-scatter's messages are pieces of the chunks, a phase's
    after another's, and the all-gather's whole chunks.
    """
    for successor in _rings(ahead):
        match = _ring(ahead, successor)
        if match:
            return match
    return None


def _rings(ahead: Ahead) -> Iterator[list[int]]:
    """Rings that may be meant, as ranks in order: up, down, and the only one that there are messages on."""
    n = ahead.n_ranks
    up = list(range(n))
    yield up
    if n > 2:
        yield up[::-1]
    following = {src: dst for src, dst in ahead.lanes if ahead.left((src, dst))}
    if len(following) == n == sum(ahead.left(pair) > 0 for pair in ahead.lanes):
        order = [0]
        while len(order) < n and following[order[-1]] not in order:
            order.append(following[order[-1]])
        if len(order) == n:
            yield order


def _ring(ahead: Ahead, order: Sequence[int]) -> PatternMatch | None:
    n = len(order)
    edges = [(order[i], order[(i + 1) % n]) for i in range(n)]
    plain = _ring_in(ahead, edges, phases=1)
    until_larger = ahead.until_larger(edges[0])
    phases, remainder = divmod(until_larger, n - 1)
    segmented = _ring_in(ahead, edges, phases) if phases > 1 and not remainder else None
    if plain and segmented and phases % 2 == 0:  # or larger rings follow smaller ones?
        larger = ahead.past(dict.fromkeys(edges, until_larger))
        return plain if _ring_in(larger, edges, phases=1) else segmented
    return segmented or plain


def _ring_in(ahead: Ahead, edges: Sequence[Pair], phases: int) -> PatternMatch | None:
    n = len(edges)
    count = (phases + 1) * (n - 1)
    if any(ahead.left(edge) < count for edge in edges):
        return None
    chunks = _ring_chunks([ahead.nbytes(edge, count) for edge in edges], phases)
    if chunks is None or _too_early(ahead, edges, phases) > MAX_TOO_EARLY:
        return None
    what = f"1/{n} of the buffer"
    if phases > 1:
        what += f", those to be added in {phases} segments each"
    evidence = f"each of {n} ranks sends to one other only, round a ring: {count} messages of {what}"
    halves = n == 2 and len(set(chunks)) == 1  # twice recursive doubling would look the same
    return PatternMatch(
        "ring" if phases == 1 else "segmented-ring",
        sum(chunks),
        dict.fromkeys(edges, count),
        evidence,
        AMBIGUOUS * 0.9 if halves else SURE,
        sizes=frozenset(size for edge in edges for size in ahead.nbytes(edge, count)),
    )


def _too_early(ahead: Ahead, edges: Sequence[Pair], phases: int) -> float:
    """The share of messages sent before what they pass on had come: if there are many, lanes are out of step.

    That is so where a capture begins within an instance, or lacks a message.
    """
    steps = len(edges) - 1
    count = (phases + 1) * steps
    total = early = 0
    for before, edge in zip((edges[-1], *edges), edges, strict=False):
        sent, come = ahead.times_ns(edge, count), ahead.arrivals_ns(before, count)
        for at in range(1, count):
            if at % steps or at == phases * steps:  # a phase's first message passes nothing on
                total += 1
                early += sent[at] < come[at - 1]
    return early / (total or 1)


def _ring_chunks(sent: Sequence[Sequence[int]], phases: int) -> list[int] | None:
    """The chunks' sizes if these are a ring's messages; `sent[i]` are those of the i-th rank of the ring."""
    n = len(sent)
    steps = n - 1
    pieces = [[sent[c][phase * steps] for phase in range(phases)] for c in range(n)]
    chunks = [sum(some) for some in pieces]
    for i, sizes in enumerate(sent):
        for at in range(phases * steps):
            phase, step = divmod(at, steps)
            if sizes[at] != pieces[(i - step) % n][phase]:
                return None
        if any(sizes[phases * steps + step] != chunks[(i + 1 - step) % n] for step in range(steps)):
            return None
    return chunks if sum(chunks) else None


def recursive_doubling(ahead: Ahead) -> PatternMatch | None:
    """lg n exchanges of the whole buffer, with Open MPI's fold when n is not a power of two.

    Of the n - 2^q ranks too many each first gives its buffer to its neighbour and gets the result from it.
    """
    fold = Fold(ahead.n_ranks)
    pairs = [(fold.rank(v), fold.rank(v ^ d)) for d in fold.distances for v in range(fold.n_inner)]
    pairs += chain.from_iterable(((even, odd), (odd, even)) for even, odd in fold.folded)
    sizes = {size for pair in pairs for size in ahead.nbytes(pair, 1) or (-1,)}
    if len(sizes) != 1 or min(sizes) <= 0:
        return None
    lg = len(fold.distances)
    evidence = f"each of {fold.n_inner} ranks exchanges the whole buffer with {lg} others, at distances "
    evidence += ", ".join(map(str, fold.distances))
    if fold.folded:
        evidence += f"; {len(fold.folded)} more give theirs to a neighbour before and get it back after"
    confidence = AMBIGUOUS if ahead.n_ranks == 2 and _continues(ahead, pairs) else SURE
    return PatternMatch("recursive-doubling", min(sizes), dict.fromkeys(pairs, 1), evidence, confidence)


def _continues(ahead: Ahead, pairs: Sequence[Pair]) -> bool:
    """Whether the next exchange is of the same size: of two ranks, the other half of a ring perhaps."""
    return all(len(set(ahead.nbytes(pair, 2))) == 1 and ahead.left(pair) > 1 for pair in pairs)


def halving_doubling(ahead: Ahead) -> PatternMatch | None:
    """Rabenseifner's: halves of what is left, then the same back; near exchanges first, or far ones.

    With Open MPI's fold: both ranks of a folded pair exchange halves, one gives the other its sum.
    """
    fold = Fold(ahead.n_ranks, keeps_odd=False)
    if fold.n_inner < 4:
        return None
    for distances in (fold.distances, fold.distances[::-1]):
        match = _halving(ahead, fold, distances)
        if match:
            return match
    return None


def _halving(ahead: Ahead, fold: Fold, distances: Sequence[int]) -> PatternMatch | None:
    taken: defaultdict[Pair, list[int]] = defaultdict(list)

    def take(src: int, dst: int) -> int:
        place = len(taken[src, dst])
        sizes = ahead.nbytes((src, dst), place + 1)
        taken[src, dst].append(sizes[place] if place < len(sizes) else -1)
        return taken[src, dst][-1]

    wholes = set()
    for even, odd in fold.folded:  # even keeps the left half, odd adds up the right one and gives it back
        right, left, back = take(even, odd), take(odd, even), take(odd, even)
        wholes.add(right + left if back == right and min(left, right) >= 0 else -1)
    window: dict[int, int] = {}
    stages: list[dict[int, int]] = []
    for distance in distances:
        sent = {v: take(fold.rank(v), fold.rank(v ^ distance)) for v in range(fold.n_inner)}
        both = {v: sent[v] + sent[v ^ distance] for v in sent}
        if min(sent.values()) < 0 or (window and both != window):
            return None
        wholes |= set(both.values()) if not window else set()
        window = {v: sent[v ^ distance] for v in sent}  # the partner's message: one's own part
        stages.append(window)
    for distance, kept in zip(reversed(distances), reversed(stages), strict=True):
        if any(take(fold.rank(v), fold.rank(v ^ distance)) != kept[v] for v in kept):
            return None
    wholes |= {take(even, odd) for even, odd in fold.folded}
    if len(wholes) != 1 or min(wholes) <= 0:
        return None
    evidence = f"each of {fold.n_inner} ranks exchanges 1/2 to 1/{fold.n_inner} of the buffer with "
    evidence += f"{len(distances)} others, at distances {', '.join(map(str, distances))}, then the same back"
    if fold.folded:
        evidence += f"; {len(fold.folded)} ranks more are folded into a neighbour before and after"
    counts = {pair: len(some) for pair, some in taken.items()}
    return PatternMatch("halving-doubling", wholes.pop(), counts, evidence)


def all_pairs(ahead: Ahead) -> PatternMatch | None:
    """Two messages between every two ranks: to each the chunk that it adds up, then one's own to all."""
    n = ahead.n_ranks
    if n < 3:
        return None
    pairs = [(src, dst) for src in range(n) for dst in range(n) if src != dst]
    sizes = {pair: ahead.nbytes(pair, 2) for pair in pairs}
    if any(len(some) < 2 for some in sizes.values()):
        return None
    chunk = [sizes[(dst + 1) % n, dst][0] for dst in range(n)]
    if not sum(chunk) or any(list(sizes[s, d]) != [chunk[d], chunk[s]] for s, d in pairs):
        return None
    evidence = f"each of {n} ranks sends each other 2 messages of 1/{n} of the buffer"
    return PatternMatch("all-pairs", sum(chunk), dict.fromkeys(pairs, 2), evidence)
