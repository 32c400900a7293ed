"""Which training iteration each operation belongs to.

Data-parallel training repeats itself: every iteration reduces the same gradient bytes, in one bucket or
in several (PyTorch DDP uses one for the whole model in its first iteration and rebuilds the buckets
after it), so iterations are runs of allreduces with equal sums.  With a parameter server an iteration
is a push and the pull that follows it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from gradwire.traces.framing.frames import ALLGATHER, ALLREDUCE, BARRIER, BROADCAST
from gradwire.traces.recognition.operation import ALLTOALLS, Operation
from gradwire.traces.recognition.servers import WHOLE, View, servers_of

SETUP = -1
COLLECTIVE_NAMES = frozenset(
    (
        ALLREDUCE,
        ALLGATHER,
        BROADCAST,
        BARRIER,
        "allgatherv",
        *ALLTOALLS,
        "exscan",
        "gather",
        "gatherv",
        "internal",
        "nonblocking",
        "reduce",
        "reduce_scatter",
        "reduce_scatter_block",
        "scan",
        "scatter",
        "scatterv",
    )
)
MOST = 0.9
MAX_SETUP_ALLREDUCES = 8
MAX_WARM_UP = 4
Role = Literal["push", "pull", "other"]
Broadcasts = tuple[tuple[int, ...], ...]  # of each its size


@dataclass(frozen=True)
class Labels:
    """For each operation its iteration (SETUP: none) and its role; `notes` say how that was found.

    `servers` are the ranks to which others push; none if there are none.  The first `warm_up` iterations
    are not like the rest: connections are opened in them, DDP makes its buckets, and when the very first
    began to compute no capture shows.
    """

    iterations: tuple[int, ...]
    roles: tuple[Role, ...]
    notes: tuple[str, ...]
    servers: tuple[int, ...] = ()
    warm_up: int = 0


def label(operations: Sequence[Operation], view: View = WHOLE) -> Labels:
    """Number the iterations from 0; what is before, between and after them is SETUP."""
    iterations = [SETUP] * len(operations)
    notes = []
    if any(operation.kind != "message" for operation in operations):
        notes.append(_label_collectives(operations, iterations))
    sends = [i for i, operation in enumerate(operations) if is_point_to_point(operation)]
    roles: list[Role] = ["other"] * len(operations)
    servers: set[int] = set()
    workers: set[int] = set()
    if sends:
        reduced = sum(operation.nbytes for operation in operations if operation.kind != "message")
        if sum(operations[i].nbytes for i in sends) > reduced:  # else the collectives are the job
            servers, workers = servers_of([operations[i] for i in sends], view) or (set(), set())
        notes.append(_label_sends(operations, sends, (servers, workers), iterations, roles))
    _label_others(operations, roles, iterations)
    warm_up = _warm_up(operations, iterations)
    return Labels(tuple(iterations), tuple(roles), tuple(notes), tuple(sorted(servers)), warm_up)


def _warm_up(operations: Sequence[Operation], iterations: Sequence[int]) -> int:
    """How many of the first iterations are not like the others: the first, and as long as the job still sets
    itself up or reduces other sizes than in most iterations.  At least one iteration is left.
    """
    n_iterations = max(iterations, default=SETUP) + 1
    sizes: list[list[int]] = [[] for _ in range(n_iterations)]
    begins: dict[int, int] = {}
    setups = []
    for operation, iteration in zip(operations, iterations, strict=True):
        if iteration == SETUP:
            setups += [operation.begin_ns] if operation.kind != "message" else []
            continue
        begins[iteration] = max(begins.get(iteration, 0), operation.begin_ns)
        if operation.kind != "message":
            sizes[iteration].append(operation.nbytes)
    shapes = [tuple(sorted(some)) for some in sizes]
    usual = Counter(shapes).most_common(1)[0][0] if shapes else ()
    count = min(1, n_iterations)
    while count < min(n_iterations, MAX_WARM_UP):
        begun = (begins.get(count - 1, 0), begins.get(count, 0))
        if shapes[count] == usual and not any(begun[0] < ns < begun[1] for ns in setups):
            break
        count += 1
    return max(0, min(count, n_iterations - 1))


def is_point_to_point(operation: Operation) -> bool:
    """Whether it is a message that belongs to no collective."""
    return operation.kind == "message" and operation.what not in COLLECTIVE_NAMES


def _label_collectives(operations: Sequence[Operation], iterations: list[int]) -> str:
    """Set the iterations of collectives, in their order: tags count them, and so the program's.

    Allreduces repeat; where there are none, broadcasts do.
    """
    collectives = [i for i, operation in enumerate(operations) if operation.kind != "message"]
    collectives.sort(key=lambda i: operations[i].tag)
    kinds = {operations[i].kind for i in collectives}
    repeating = "allreduce" if "allreduce" in kinds else "broadcast"
    chosen: list[int] = []
    before: list[list[int]] = [[]]  # the broadcasts before each allreduce, and after the last
    for i in collectives:
        if operations[i].kind == repeating:
            chosen.append(i)
            before.append([])
        else:
            before[-1].append(i)
    prefixes = [tuple((operations[i].nbytes,) for i in part) for part in before]
    runs = equal_runs([operations[i].nbytes for i in chosen], prefixes)
    repeated = _repeated([prefixes[first] for first, _ in runs])
    is_after = _come_after(repeated, prefixes, operations[collectives[0]].tag)
    for number, (first, last) in enumerate(runs):
        for i in chosen[first:last]:
            iterations[i] = number
        part = before[last if is_after else first]
        kept = _shared(prefixes[last], repeated) if is_after else _shared(prefixes[first], repeated)
        for i in part[:kept] if is_after else part[len(part) - kept :]:
            iterations[i] = number
    return _runs_note(repeating, runs, [operations[i].nbytes for i in chosen], is_after)


def _runs_note(repeating: str, runs: Sequence[tuple[int, int]], sizes: Sequence[int], is_after: bool) -> str:
    if len(runs) == 1:
        return f"iterations: the {repeating}s do not repeat, so they are one iteration"
    counts = [last - first for first, last in runs]
    buckets = f"{counts[0]}, then {counts[1]}" if counts[0] != counts[1] else str(counts[0])
    equal = f"{len(runs)} runs of {repeating}s with the same sum of bytes"
    first, last = runs[0]
    again = Counter(sizes[first:last])
    size, times = again.most_common(1)[0]
    if counts[0] == counts[1] and len(again) > 1 < times and size * times > MOST * sum(again.elements()):
        buckets += f", {times} of {size} bytes, which may be as many iterations with something else between"
    after = "; each ends with the broadcasts that follow" if is_after else ""
    return f"iterations: {equal}; buckets in each: {buckets}{after}"


def equal_runs(sizes: Sequence[int], prefixes: Sequence[Broadcasts]) -> list[tuple[int, int]]:
    """Cut the allreduces into runs [first, last) of equal sums, the shortest ones that go through.

    `prefixes` are the broadcasts before each allreduce: a run has none inside, and from the third run on
    all have the same ones before them.  A few allreduces may precede the first run, and the last run may be
    incomplete if there is no other way.  One run of all of them if nothing repeats.
    """
    for skipped in range(min(MAX_SETUP_ALLREDUCES, len(sizes)) + 1):
        for may_break in (False, True):
            for count in range(1, len(sizes) - skipped):
                runs = _cut(sizes, skipped, sum(sizes[skipped : skipped + count]), may_break)
                heads = [first for first, _ in runs]
                steady = {prefixes[first] for first in heads[2:]}
                inside = set(range(skipped, len(sizes))) - set(heads)
                if runs and len(steady) <= 1 and not any(prefixes[i] for i in inside):
                    return runs
    return [(0, len(sizes))]


def _cut(sizes: Sequence[int], first: int, total: int, may_break: bool) -> list[tuple[int, int]]:
    """Runs from `first` on that sum up to `total`; empty if there are not at least two whole ones."""
    runs, begin, held = [], first, 0
    for i in range(first, len(sizes)):
        held += sizes[i]
        if held > total:
            return []
        if held == total:
            runs.append((begin, i + 1))
            begin, held = i + 1, 0
    if len(runs) < 2 or (held and not may_break):
        return []
    return [*runs, (begin, len(sizes))] if held else runs


def _repeated(prefixes: Sequence[Broadcasts]) -> Broadcasts:
    """The broadcasts with which every iteration begins: what the last ones have in common at their end."""
    if len(prefixes) < 2:
        return ()
    if len(prefixes) > 2:
        return prefixes[-1]
    return prefixes[1][len(prefixes[1]) - _shared(*prefixes) :]


def _come_after(repeated: Broadcasts, prefixes: Sequence[Broadcasts], first_tag: int) -> bool:
    """Whether iterations end with broadcasts: none come before the job's first allreduce, and the last one
    has some behind it.  `prefixes` has an entry for what comes after the last.
    """
    return bool(repeated) and first_tag == 0 and not prefixes[0] and prefixes[-1] == repeated


def _shared(a: Broadcasts, b: Broadcasts) -> int:
    """How many entries at the end of both are the same."""
    count = 0
    while count < min(len(a), len(b)) and a[-1 - count] == b[-1 - count]:
        count += 1
    return count


def _label_sends(
    operations: Sequence[Operation],
    sends: list[int],
    sides: tuple[set[int], set[int]],
    iterations: list[int],
    roles: list[Role],
) -> str:
    """Set the roles and iterations of messages between servers and workers, if that is what they are."""
    servers, workers = sides
    if not servers and any(operation.kind != "message" for operation in operations):
        return f"messages: {len(sends)} beside the collectives, each in the iteration that its sender is in"
    if not servers:
        for i in sends:
            iterations[i] = 0
        return "messages: not between servers and workers; all are iteration 0"
    pushed: defaultdict[tuple[int, int], int] = defaultdict(lambda: SETUP)
    last_role: dict[tuple[int, int], Role] = {}
    aside = set()
    for i in sends:
        src, dst = operations[i].src, operations[i].dst
        if not ((src in servers and dst in workers) or (src in workers and dst in servers)):
            aside |= {src, dst} - servers - workers
            continue
        role: Role = "push" if dst in servers else "pull"
        pair = (dst, src) if role == "push" else (src, dst)
        if role == "push" and last_role.get(pair) != "push":
            pushed[pair] += 1
        iterations[i], roles[i] = pushed[pair], role
        last_role[pair] = role
    note = f"parameter server: rank {_listed(servers)}; an iteration is a push and its pull"
    return note + (f"; rank {_listed(aside)} has no part in it" if aside else "")


def _listed(ranks: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ranks)))


def _label_others(operations: Sequence[Operation], roles: Sequence[Role], iterations: list[int]) -> None:
    """Barriers, and what else has no iteration yet, belong to the one that their source is in; none before
    the first and after the last.
    """
    last: dict[int, int] = {}
    for i, operation in enumerate(operations):
        if iterations[i] != SETUP:
            last |= dict.fromkeys(operation.begun, i)
    current: dict[int, int] = {}
    for i, operation in enumerate(operations):
        if iterations[i] != SETUP:
            current |= dict.fromkeys(operation.begun, iterations[i])
        elif operation.kind == "message" and roles[i] == "other" and i < last.get(operation.src, 0):
            iterations[i] = current.get(operation.src, SETUP)
