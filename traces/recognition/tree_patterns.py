"""The message patterns of broadcasts, reductions and barriers.

A tree's edges all carry the same messages: the buffer, whole or cut in segments of one size (the last may be
shorter).  What the ranks do between, or gaps in time, show how many of equal messages are one
instance; where neither does, each message is one.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from gradwire.traces.recognition.lanes import Ahead, Pair
from gradwire.traces.recognition.patterns import AMBIGUOUS, SURE, PatternMatch
from gradwire.traces.schedules.algorithms.trees import SHAPES, parents
from gradwire.traces.workload import Shape

BY_GAPS = 0.8
CLEAR_GAPS = 1.5  # between instances at least so much longer than within
MAX_ROOTS_TRIED = 64  # bounds the work on a capture of many ranks: each root is a tree to follow
MAX_SEGMENTS = 1 << 16  # the same, for each tree


def broadcasts(ahead: Ahead) -> Iterator[PatternMatch]:
    """The earliest message of an instance is its root's: all others receive first."""
    head = ahead.earliest()
    if head:
        root = head[0]
        limit = ahead.sent_before_receiving(root)
        for shape in SHAPES:
            edges = [(up, child) for child, up in parents(shape, ahead.n_ranks, root).items()]
            match = _tree(ahead, edges, root, shape, limit)
            if match:
                yield match


def reductions(ahead: Ahead) -> Iterator[PatternMatch]:
    """A reduction is a broadcast the other way round; its root sends nothing."""
    for root in range(min(ahead.n_ranks, MAX_ROOTS_TRIED)):
        for shape in SHAPES:
            edges = [(child, up) for child, up in parents(shape, ahead.n_ranks, root).items()]
            match = _tree(ahead, edges, root, shape, MAX_SEGMENTS)
            if match:
                yield match


def _tree(ahead: Ahead, edges: Sequence[Pair], root: int, shape: Shape, limit: int) -> PatternMatch | None:
    first = {size for edge in edges for size in ahead.nbytes(edge, 1) or (-1,)}
    if len(first) != 1 or min(first) <= 0:
        return None
    in_run = Counter(min(ahead.left_in_run(edge), MAX_SEGMENTS) for edge in edges)
    left = min(ahead.left(edge) for edge in edges)
    most = min(in_run.most_common(1)[0][0], left)
    sent = [ahead.nbytes(edge, most) for edge in edges]
    alike = next((i for i in range(most) if len({sizes[i] for sizes in sent}) > 1), most)
    # Only an edge at the root shows by its times where an instance ends: the others wait for it.
    at_root = [edge for edge in edges if root in edge]
    if limit < MAX_SEGMENTS:
        most = min(most, max(1, limit // len(at_root)))
    is_end_known = most < left or ahead.has_turns
    times_ns = ahead.times_ns(at_root[0], most)
    pause_ns = ahead.pause_before_ns(at_root[0])
    count, confidence = _segments(sent[0][: min(alike, most)], times_ns, pause_ns, is_end_known=is_end_known)
    nbytes = sum(sent[0][:count])
    way = "up to" if edges[0][1] == root or edges[-1][1] == root else "down from"
    parts = "whole" if count == 1 else f"in {count} segments"
    evidence = f"{len(edges)} edges, a {shape} tree {way} rank {root}, each carry {nbytes} bytes {parts}"
    if confidence == BY_GAPS:
        evidence += "; gaps in time show where one ends"
    if confidence == AMBIGUOUS:
        evidence += "; equal messages follow at once, each is taken for one operation"
    return PatternMatch("tree", nbytes, dict.fromkeys(edges, count), evidence, confidence, root, shape)


def _segments(
    sizes: Sequence[int], times_ns: Sequence[int], pause_ns: int, *, is_end_known: bool
) -> tuple[int, float]:
    """How many of these messages are one instance, which begins `pause_ns` after the message before it.

    `is_end_known`: the ranks did something else after the last.
    """
    change = next((i for i, size in enumerate(sizes) if size != sizes[0]), len(sizes))
    if change < len(sizes):
        if change > 1 and sizes[change] < sizes[0]:  # the last segment is what is left of the buffer
            return change + 1, SURE
        return _segments(sizes[:change], times_ns, pause_ns, is_end_known=True)
    if len(sizes) == 1:
        return 1, SURE
    count = _by_gaps(times_ns[: len(sizes)], pause_ns)
    if count:
        return count, BY_GAPS
    return (len(sizes), BY_GAPS) if is_end_known else (1, AMBIGUOUS)


def _by_gaps(times_ns: Sequence[int], pause_ns: int) -> int | None:
    """The number of messages after which there is always a gap clearly longer than all others."""
    gaps = [later - earlier for earlier, later in pairwise(times_ns)]
    best, clearest = None, CLEAR_GAPS
    for count in range(2, len(times_ns) + 1):
        if len(times_ns) % count == 0:
            between = min([*gaps[count - 1 :: count], *[pause_ns] * (count == len(times_ns))])
            within = max(gap for i, gap in enumerate(gaps) if (i + 1) % count)
            if between > clearest * within:
                best, clearest = count, between / max(1, within)
    return best


def barriers(ahead: Ahead) -> Iterator[PatternMatch]:
    """Open MPI's barriers (coll_base_barrier.c), of messages without payload."""
    n = ahead.n_ranks
    ranks = range(n)
    near = [1 << j for j in range((n - 1).bit_length())]
    inner = 1 << (n.bit_length() - 1)
    folded = [((r, r ^ d), 1) for d in near for r in range(inner) if d < inner]
    tree = [(r, r & (r - 1)) for r in ranks[1:]]
    known: dict[str, list[tuple[Pair, int]]] = {
        "linear": [(pair, 1) for r in ranks[1:] for pair in ((r, 0), (0, r))],
        "bruck": [((r, (r + d) % n), 1) for d in near for r in ranks],
        "double ring": [((r, (r + 1) % n), 2) for r in ranks],
        "recursive doubling": folded
        + [(p, 1) for r in range(inner, n) for p in ((r, r - inner), (r - inner, r))],
        "tree": [(pair, 1) for child, up in tree for pair in ((child, up), (up, child))],
    }
    for name, some in known.items():
        counts: Counter[Pair] = Counter()
        for pair, count in some:
            counts[pair] += count
        if all(not any(sizes := ahead.nbytes(p, c)) and len(sizes) == c for p, c in counts.items()):
            evidence = f"{counts.total()} messages without payload: a {name} barrier of {n} ranks"
            yield PatternMatch("unknown", 0, counts, evidence)
