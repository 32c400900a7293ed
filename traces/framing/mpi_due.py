"""Fragments of an Open MPI connection that one direction implies for the other: see `mpi_hidden`."""

from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gradwire.traces.framing.mpi_btl import Fragment, What
from gradwire.traces.framing.mpi_decode import MpiDecoded, Placed

MAX_EACH = 8  # fragments of a kind that are looked for in one gap

_Key = tuple[int | None, int]  # where a PUT goes, and its size


class Answer(NamedTuple):
    """A PUT request that reached the sender."""

    time_ns: int
    fragment: Fragment


@dataclass
class Due:
    """What the other direction makes one expect, and what of it was seen up to some place of the stream."""

    rndv_ns: Sequence[int]
    answers: Mapping[_Key, Sequence[Answer]]
    puts: Counter[_Key]  # hidden somewhere in the stream
    requests: deque[Answer]  # whose RNDV is hidden
    n_open: int = 0  # PUTs without a FIN
    n_answered: int = 0
    n_put: Counter[_Key] = field(default_factory=Counter)


def due_of(forth: MpiDecoded, back: MpiDecoded | None) -> Due:
    rndv_ns: list[int] = []
    answers: list[Answer] = []
    if back is not None:
        timeline = back.stream.received.in_order
        times = timeline.first_seen_ns([placed.end - 1 for placed in back.placed]).tolist()
        for placed, time_ns in zip(back.placed, times, strict=True):
            if placed.fragment.what is What.RNDV:
                rndv_ns.append(time_ns)
            elif placed.fragment.what in (What.PUT_REQUEST, What.ACK):
                answers.append(Answer(time_ns, placed.fragment))
    by_key: defaultdict[_Key, list[Answer]] = defaultdict(list)
    for answer in answers:
        if answer.fragment.what is What.PUT_REQUEST and answer.fragment.total:
            by_key[answer.fragment.address, answer.fragment.total].append(answer)
    sent = Counter((p.fragment.address, p.fragment.size) for p in forth.placed if p.fragment.what is What.PUT)
    hidden = +(Counter({key: len(some) for key, some in by_key.items()}) - sent)
    puts = Counter(dict(hidden.most_common(MAX_EACH)))
    return Due(rndv_ns, by_key, puts, _unbegun(forth, answers))


def _unbegun(forth: MpiDecoded, answers: Sequence[Answer]) -> deque[Answer]:
    """The PUT requests whose RNDV is hidden.

    Numbers are used again, so what counts is whether one was under way when the answer came.  A number that
    was not captured may be any: such an answer is the oldest RNDV's.
    """
    begun = [placed for placed in forth.placed if placed.fragment.what is What.RNDV]
    times = forth.stream.sent.in_order.first_seen_ns([placed.offset for placed in begun]).tolist()
    events = [Answer(time_ns, placed.fragment) for placed, time_ns in zip(begun, times, strict=True)]
    under_way: deque[int | None] = deque()
    found: deque[Answer] = deque()
    for event in sorted([*events, *answers], key=lambda event: event.time_ns):  # a RNDV first, if at once
        number = event.fragment.request
        if event.fragment.what is What.RNDV:
            under_way.append(number)
        elif number is None and under_way:
            under_way.popleft()
        elif number in under_way:
            under_way.remove(number)
        elif None in under_way:
            under_way.remove(None)
        elif event.fragment.what is What.PUT_REQUEST and event.fragment.total:
            found.append(event)
    return found


def advance(placed: Placed, due: Due) -> None:
    what = placed.fragment.what
    if what is What.PUT:
        due.n_open += 1
        due.n_put[placed.fragment.address, placed.fragment.size] += 1
    elif what is What.FIN:
        due.n_open = max(0, due.n_open - 1)
    elif what in (What.PUT_REQUEST, What.ACK):
        due.n_answered += 1


def due_puts(due: Due, time_ns: int) -> list[Fragment]:
    """The requests for PUTs that had been asked for and not been sent, in the order in which they came."""
    found: list[Answer] = []
    for key, count in due.puts.items():
        answers = due.answers[key]
        arrived = bisect_right(answers, time_ns, key=lambda answer: answer.time_ns)
        first = due.n_put[key]
        found += answers[first : min(arrived, first + count, first + MAX_EACH)]
    return [answer.fragment for answer in sorted(found, key=lambda answer: answer.time_ns)[:MAX_EACH]]
