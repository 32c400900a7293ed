"""How closely a replay matches its capture, message by message.

Both sides are cut into iterations, and each iteration's messages from one rank to another are put in the
order in which they began.  The k-th message of a size there belongs to the k-th of that size on the other
side, and of those pairs the longest run that is in the same order on both sides is *matched*.  Then

    share      = 2 · matched / (messages of the capture + messages of the replay)
    time error = mean over matched of min(1, (|Δstart| + |Δend|) / 2 / T)
    score      = share · (1 − time error)

where times count from the first start of the iteration on that side and T is the capture's median iteration,
from first start to first start (of a single iteration, to its last end).  So the score is 1 for a replay that
is identical, and 0 for one with nothing in common.  How long iterations are in all is not in it: that is the
iteration time's own error.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from gradwire.traces.recognition.iterations import SETUP
from gradwire.traces.recognition.recognise import Job


@dataclass(frozen=True, slots=True)
class SentMessage:
    """One message between ranks.  Times in ns by one clock for all messages of a side."""

    iteration: int
    src: int
    dst: int
    nbytes: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Fidelity:
    """`score` and what it is made of; see the module."""

    score: float
    share: float
    time_error: float
    captured: int
    replayed: int
    matched: int


def captured_messages(job: Job) -> tuple[SentMessage, ...]:
    """What the packets show of the data that iterations send.

    A message belongs to the iteration of its operation where its tag names one; else, as with a parameter
    server's one tag, to the iteration that its source had begun last.
    """
    begun: defaultdict[int, dict[int, int]] = defaultdict(dict)
    by_tag: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for operation, iteration in zip(job.operations, job.labels.iterations, strict=True):
        by_tag[operation.what, operation.tag].add(iteration)
        for rank, begin_ns in operation.begun.items():
            begun[rank][iteration] = min(begun[rank].get(iteration, begin_ns), begin_ns)
    names = {name for (name, _), iterations in by_tag.items() if max(iterations) >= 0}
    messages = job.trace.messages
    data = messages.where(messages.is_data)
    sent = []
    for row in range(len(data)):
        name, src = data.operations[data.operation[row]], int(data.src[row])
        first_ns = int(data.first_ns[row])
        of_tag = by_tag.get((name, int(data.tag[row])), set())
        begins = begun.get(src, {})
        iteration = next(iter(of_tag)) if len(of_tag) == 1 else _begun_last(begins, first_ns)
        if name in names and iteration >= 0:
            dst, nbytes, end_ns = int(data.dst[row]), int(data.nbytes[row]), int(data.received_ns[row])
            sent.append(SentMessage(iteration, src, dst, nbytes, first_ns, end_ns))
    return tuple(sent)


def _begun_last(begins: Mapping[int, int], now_ns: int) -> int:
    """The iteration whose begin is the last up to now; SETUP if there is none."""
    so_far = [(begin_ns, iteration) for iteration, begin_ns in begins.items() if begin_ns <= now_ns]
    return max(so_far)[1] if so_far else SETUP


def message_starts(messages: Iterable[SentMessage], ranks: Iterable[int]) -> dict[int, dict[int, int]]:
    """When each of the ranks sent its first message of each iteration, in ns."""
    wanted = set(ranks)
    starts: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for message in messages:
        if message.src in wanted:
            of_rank = starts[message.src]
            of_rank[message.iteration] = min(
                of_rank.get(message.iteration, message.start_ns), message.start_ns
            )
    return dict(starts)


def fidelity(captured: Sequence[SentMessage], replayed: Sequence[SentMessage]) -> Fidelity:
    """Raise ValueError if the capture has no message."""
    if not captured:
        raise ValueError("the capture has no messages to compare with")
    theirs, ours = _grouped(captured), _grouped(replayed)
    their_first, our_first = _first_starts(captured), _first_starts(replayed)
    period_ns = _period_ns(captured, their_first)
    errors = []
    for key, group in theirs.items():
        for original, repeated in _matched(group, ours.get(key, [])):
            begins = (original.start_ns - their_first[key[0]], repeated.start_ns - our_first[key[0]])
            ends = (original.end_ns - their_first[key[0]], repeated.end_ns - our_first[key[0]])
            off_ns = (abs(begins[0] - begins[1]) + abs(ends[0] - ends[1])) / 2
            errors.append(min(1.0, off_ns / period_ns))
    share = 2 * len(errors) / (len(captured) + len(replayed))
    time_error = fmean(errors) if errors else 1.0
    return Fidelity(share * (1 - time_error), share, time_error, len(captured), len(replayed), len(errors))


def _grouped(messages: Sequence[SentMessage]) -> dict[tuple[int, int, int], list[SentMessage]]:
    groups: defaultdict[tuple[int, int, int], list[SentMessage]] = defaultdict(list)
    for message in sorted(messages, key=lambda each: each.start_ns):
        groups[message.iteration, message.src, message.dst].append(message)
    return groups


def _first_starts(messages: Sequence[SentMessage]) -> dict[int, int]:
    first: dict[int, int] = {}
    for message in messages:
        first[message.iteration] = min(first.get(message.iteration, message.start_ns), message.start_ns)
    return first


def _period_ns(messages: Sequence[SentMessage], first: dict[int, int]) -> float:
    if len(first) > 1:
        period_ns = median(later - earlier for earlier, later in pairwise(sorted(first.values())))
    else:
        period_ns = max(message.end_ns for message in messages) - min(first.values())
    return max(period_ns, 1.0)


def _matched(
    theirs: Sequence[SentMessage], ours: Sequence[SentMessage]
) -> list[tuple[SentMessage, SentMessage]]:
    """Pairs of one size in the same order on both sides: a longest increasing subsequence."""
    place: dict[tuple[int, int], int] = {}
    seen = Counter[int]()
    for position, message in enumerate(ours):
        place[message.nbytes, seen[message.nbytes]] = position
        seen[message.nbytes] += 1
    counted = Counter[int]()
    pairs = []  # (position there, position here)
    for position, message in enumerate(theirs):
        key = message.nbytes, counted[message.nbytes]
        counted[message.nbytes] += 1
        if key in place:
            pairs.append((position, place[key]))
    return [(theirs[there], ours[here]) for there, here in _longest_increasing(pairs)]


def _longest_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Of pairs with ascending first members, as many as have ascending second ones, too."""
    ends: list[int] = []  # the least second member with which a run of each length ends
    last: list[int] = []  # and which pair that is
    before: list[int] = []
    for number, (_, here) in enumerate(pairs):
        length = bisect_left(ends, here)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [here]
        last[length : length + 1] = [number]
    chosen = []
    number = last[-1] if last else -1
    while number >= 0:
        chosen.append(pairs[number])
        number = before[number]
    return chosen[::-1]
