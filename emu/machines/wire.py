"""What the machines of one run say to each other: JSON Lines over ssh, checked when they come in.

The machine that runs the command asks, each other one answers, but for `end`:

    begin (part, plan or fabric)   → forwarding (processes of hosts)
    power (verb, switch)           → power
    agents                         → listening
    connect                        → connected
    clock                          → clock
    run (repeat)                   → prepared
    start (time)                   → done (accesses to centres)
    check (accesses of all)        → outcome (of each rank there, and what the machine counted)
    end

Instead of any answer there may be `failed`, with a text and the ranks that it blames.
"""

import json
import math
import os
import select
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from gradwire.emu.records import RepeatCounts
from gradwire.emu.replay.centre_values import Access
from gradwire.emu.replay.outcome import Outcome, RankTimes
from gradwire.traces.complaints import complaint
from gradwire.traces.schedules.schedule import Schedule
from gradwire.traces.units import show_nbytes

MAX_LINE_NBYTES = 1 << 30  # what a machine measures in ten minutes at a thousand ports, and a plan, are long
MAX_SHORT_NBYTES = 1 << 20  # all other answers
SILENCE_S = 30.0  # in the middle of a message
MAX_DIGITS = 18  # of a whole number: times in ns for 31 years, counters up to 888 PiB
MAX_TEXT = 10_000
_CHUNK_NBYTES = 1 << 20
Value = TypeVar("Value")


class BadMessage(ValueError):
    """What another machine said cannot be used."""


@dataclass(frozen=True, slots=True)
class Hello:
    """Who answers: `source` is a digest of the code."""

    version: str
    source: str


@dataclass(frozen=True, slots=True)
class Built:
    """`pid` is the session's process in the machine's own namespaces, `host_pids` those of hosts in its."""

    pid: int
    host_pids: dict[str, int]


@dataclass(frozen=True, slots=True)
class Failure:
    text: Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(lambda text: " ".join(text.split()))]
    blamed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """The outcome of each rank of a machine, in their order, and what the machine counted."""

    outcomes: list[Outcome]
    counts: RepeatCounts


HELLO = TypeAdapter(Hello)
BUILT = TypeAdapter(Built)
FAILURE = TypeAdapter(Failure)
MEASURED = TypeAdapter(Measured)
ACCESSES = TypeAdapter(list[list[Access]])
NUMBER = TypeAdapter(int)


class Lines:
    """The lines that come from a descriptor, one at a time; what came beyond a line is kept for the next."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rest = b""

    def next(self, most_nbytes: int = MAX_LINE_NBYTES) -> bytes:
        """Wait for it.  Raise EOFError at the end, BadMessage for a line that is longer than `most_nbytes` or
        that does not go on for SILENCE_S.
        """
        parts = [self._rest]
        n_read = len(self._rest)
        while b"\n" not in parts[-1]:
            if n_read and not select.select([self._fd], [], [], SILENCE_S)[0]:
                raise BadMessage(f"half a message, and then nothing for {SILENCE_S:.0f} s")
            octets = os.read(self._fd, _CHUNK_NBYTES)
            if not octets:
                raise EOFError
            parts.append(octets)
            n_read += len(octets)
            if n_read > most_nbytes:
                raise BadMessage(f"a message of more than {show_nbytes(most_nbytes)}")
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line


def line(kind: str, value: Any = None) -> bytes:
    """A message; the value is JSON, or what `dumped` makes of it."""
    return json.dumps([kind, value], separators=(",", ":")).encode() + b"\n"


def put(fd: int, kind: str, value: Any = None) -> None:
    """Write a message whole.  Raise BrokenPipeError if nobody reads any more."""
    left = memoryview(line(kind, value))
    while left:
        left = left[os.write(fd, left) :]


def parsed(octets: bytes) -> tuple[str, Any]:
    """Kind and value, the value still to be checked.  Raise BadMessage."""
    try:
        message = json.loads(octets, parse_int=_whole, parse_float=_finite, parse_constant=_finite)
    except BadMessage:
        raise
    except (ValueError, RecursionError) as error:
        raise BadMessage(f"not JSON: {octets[:60]!r}") from error
    match message:
        case [str(kind), value]:
            return kind, value
    raise BadMessage(f"not a message: {octets[:60]!r}")


def _whole(digits: str) -> int:
    if len(digits.removeprefix("-")) > MAX_DIGITS:
        raise BadMessage(f"a number of more than {MAX_DIGITS} digits: {digits[:30]}")
    return int(digits)


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise BadMessage(f"{text[:30]} where a number should be")
    return number


def checked(kind: TypeAdapter[Value], value: Any) -> Value:
    """Raise BadMessage."""
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        raise BadMessage(complaint(error)) from error


def dumped(kind: TypeAdapter[Value], value: Value) -> Any:
    """As JSON."""
    return kind.dump_python(value, mode="json")


def earlier(measured: Measured, shift_ns: int) -> Measured:
    """The same with all times by the clock that is `shift_ns` behind the one that they were read from."""
    return Measured(
        [replace(outcome, times=_times_earlier(outcome.times, shift_ns)) for outcome in measured.outcomes],
        replace(
            measured.counts,
            link_rows=tuple(
                row._replace(time_ns=row.time_ns - shift_ns) for row in measured.counts.link_rows
            ),
        ),
    )


def _times_earlier(times: RankTimes, shift_ns: int) -> RankTimes:
    def moved(moments: Mapping[int, int]) -> dict[int, int]:
        return {number: time_ns - shift_ns for number, time_ns in moments.items()}

    return replace(
        times,
        start_ns=times.start_ns - shift_ns,
        began_ns=times.began_ns - shift_ns,
        done_ns=times.done_ns - shift_ns,
        queued_ns=moved(times.queued_ns),
        handed_ns=moved(times.handed_ns),
        arrived_ns=moved(times.arrived_ns),
        begun_ns=moved(times.begun_ns),
        aggregated_ns=moved(times.aggregated_ns),
        computing_ns=moved(times.computing_ns),
        computed_ns=moved(times.computed_ns),
    )


def check_accesses(accesses: Sequence[Sequence[Access]], n_ranks: int, schedule: Schedule) -> None:
    """Raise BadMessage unless there is a list for each rank, of operations of the schedule."""
    if len(accesses) != n_ranks:
        raise BadMessage(f"accesses of {len(accesses)} ranks, and it has {n_ranks}")
    for each in accesses:
        _check_numbers("operation", (access.op for access in each), len(schedule.ops))


def check_measured(
    measured: Measured, ranks: Collection[int], machine: str, schedule: Schedule, start_ns: int
) -> None:
    """Raise BadMessage unless it is of these ranks and of this machine, of the repeat that began at
    `start_ns` by that machine's clock, and about sends and operations that there are.
    """
    if len(measured.outcomes) != len(ranks):
        raise BadMessage(f"{len(measured.outcomes)} outcomes of {len(ranks)} ranks")
    counts = measured.counts
    if counts.machine != machine or set(counts.stopped_s) != set(ranks):
        raise BadMessage("counts of another machine, or of other ranks")
    n_sends, n_ops, n_aggregations = (
        len(every) for every in (schedule.sends, schedule.ops, schedule.aggregations)
    )
    for outcome in measured.outcomes:
        times = outcome.times
        if times.start_ns != start_ns or times.done_ns <= start_ns:
            raise BadMessage("times of another repeat")
        for sends in (times.queued_ns, times.handed_ns, times.arrived_ns):
            _check_numbers("send", sends, n_sends)
        for aggregations in (times.begun_ns, times.aggregated_ns):
            _check_numbers("aggregation", aggregations, n_aggregations)
        for ops in (times.computing_ns, times.computed_ns):
            _check_numbers("operation", ops, n_ops)
        if not times.computed_ns.keys() <= times.computing_ns.keys():
            raise BadMessage("the end of a computation that never began")


def _check_numbers(what: str, numbers: Iterable[int], n: int) -> None:
    for number in numbers:
        if not 0 <= number < n:
            raise BadMessage(f"{what} {number}, and the plan has {f'0 to {n - 1:,}' if n else 'none'}")
