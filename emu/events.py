"""The events of a run's ranks: when each send, sum and computation began and ended.  A file a repeat."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from gradwire.emu.replay.outcome import Outcome
from gradwire.planning.plan import Plan
from gradwire.planning.runfiles import BadRun, read_table

OF_A_SEND = ("queued", "handed", "arrived")
OF_AN_AGGREGATION = ("aggregation_begun", "aggregated")
OF_COMPUTING = ("computing", "computed")
EVENTS = ("start", *OF_A_SEND, *OF_AN_AGGREGATION, *OF_COMPUTING, "done")
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Events:
    """Columns with a value for each event: by repeat, then by rank, then in the order of time.

    `event` is the position of its name in EVENTS; `t_ns` is CLOCK_MONOTONIC.  `send` is a number in the plan,
    and -1 of what is not about a send; `op` is -1 of a start and an end; `due_ns` is 0 of all but starts.
    """

    repeat: Numbers
    rank: Numbers
    event: Numbers
    t_ns: Numbers
    send: Numbers
    op: Numbers
    due_ns: Numbers

    def __len__(self) -> int:
        return len(self.t_ns)

    def of(self, name: str) -> Self:
        """Those of one name."""
        chosen = self.event == EVENTS.index(name)
        return type(self)(*(getattr(self, field.name)[chosen] for field in fields(self)))

    @property
    def send_ns(self) -> dict[int, int]:
        """When, by send; of those that are about one."""
        return dict(zip(self.send.tolist(), self.t_ns.tolist(), strict=True))


def events_path(folder: Path, repeat: int) -> Path:
    return folder / "events" / f"repeat-{repeat}.parquet"


def load_events(folder: Path, plan: Plan, repeat: int) -> Events:
    """Those of all ranks in one repeat; none if the run has left no events.  Raise BadRun, or OSError."""
    path = events_path(folder, repeat)
    if (path.parent / "rank-0.jsonl").exists():
        raise BadRun(path.parent, "an earlier version wrote these events, as JSON")
    if not path.exists():
        return Events(*([np.zeros(0, np.int64)] * len(fields(Events))))
    names = [field.name for field in fields(Events)]
    table = read_table(path, names, repeat, most=_most_events(plan)).combine_chunks()
    text = table["event"].combine_chunks().dictionary_encode()
    known = {name: place for place, name in enumerate(EVENTS)}
    places = [known.get(name, -1) for name in text.dictionary.to_pylist()]
    if -1 in places:
        raise BadRun(path, f"it has an unknown event, {text.dictionary.to_pylist()[places.index(-1)][:40]!r}")
    columns = {name: table[name].to_numpy() for name in names if name != "event"}
    event = np.array(places, np.int64)[text.indices.to_numpy()] if places else np.zeros(0, np.int64)
    events = Events(event=event, **columns)
    _check(path, plan, events)
    return events


def _most_events(plan: Plan) -> int:
    """A start and an end of each rank, and what the plan has it do."""
    schedule = plan.schedule
    sums = sum(len(each.members) for each in schedule.aggregations)
    return 2 * plan.n_ranks * (1 + len(schedule.ops)) + 3 * len(schedule.sends) + 2 * sums


def _check(path: Path, plan: Plan, events: Events) -> None:
    """Raise BadRun for an event of what the plan does not have."""
    of_a_send = np.isin(events.event, [EVENTS.index(name) for name in OF_A_SEND])
    of_an_op = np.isin(events.event, [EVENTS.index(name) for name in (*OF_AN_AGGREGATION, *OF_COMPUTING)])
    for what, numbers, due in (
        ("rank", events.rank, plan.n_ranks),
        ("send", events.send[of_a_send], len(plan.schedule.sends)),
        ("operation", events.op[of_an_op], len(plan.schedule.ops)),
    ):
        strange = numbers[(numbers < 0) | (numbers >= due)]
        if len(strange):
            raise BadRun(path, f"{what} {strange[0]} is not in the plan")


class SendTimes(NamedTuple):
    """When each send of one repeat was queued at its source and arrived, 0 of one that did not; and when all
    ranks started.
    """

    queued_ns: list[int]
    arrived_ns: list[int]
    start_ns: int


def load_send_times(folder: Path, plan: Plan, repeats: int) -> list[SendTimes]:
    """Those of each repeat.  Raise BadRun, or OSError."""
    return [_send_times(plan, load_events(folder, plan, repeat)) for repeat in range(repeats)]


def _send_times(plan: Plan, events: Events) -> SendTimes:
    starts = events.of("start")
    times_ns = {name: np.zeros(len(plan.schedule.sends), np.int64) for name in ("queued", "arrived")}
    for name, each_ns in times_ns.items():
        some = events.of(name)
        each_ns[some.send] = some.t_ns
    start_ns = int(starts.due_ns[-1]) if len(starts) else 0
    return SendTimes(times_ns["queued"].tolist(), times_ns["arrived"].tolist(), start_ns)


def write_events(folder: Path, plan: Plan, repeat: int, outcomes: Sequence[Outcome]) -> None:
    """The file of a repeat, packed with zstd: the columns of `Events`, and of each send `src`, `dst` and
    `nbytes` (docs/schemas.md, "events/repeat-N.parquet").
    """
    import pyarrow as pa  # here, because it takes 0.2 s, which a network on its way up would wait for
    import pyarrow.parquet as pq

    parts = [_columns_of(plan, rank, outcome) for rank, outcome in enumerate(outcomes)]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    names = pa.DictionaryArray.from_arrays(pa.array(columns["event"]), pa.array(EVENTS)).cast(pa.string())
    table = {"repeat": np.full(len(names), repeat), **columns, "event": names}
    pq.write_table(pa.table(table), events_path(folder, repeat), compression="zstd")


def _columns_of(plan: Plan, rank: int, outcome: Outcome) -> dict[str, Numbers]:
    """What one rank did in one repeat, in the order of time."""
    times, schedule = outcome.times, plan.schedule
    ops = np.array([each.op for each in schedule.aggregations], np.int64)
    sizes = np.array([op.nbytes for op in schedule.ops], np.int64)
    parts = [_part("start", [times.began_ns], due_ns=times.start_ns)]
    for name, moments in zip(OF_A_SEND, (times.queued_ns, times.handed_ns, times.arrived_ns), strict=True):
        send, t_ns = _numbers(moments)
        of_send = {key: getattr(schedule.sends, key)[send] for key in ("op", "src", "dst", "nbytes")}
        parts.append(_part(name, t_ns, send=send, **of_send))
    for name, moments in zip(OF_AN_AGGREGATION, (times.begun_ns, times.aggregated_ns), strict=True):
        number, t_ns = _numbers(moments)
        parts.append(_part(name, t_ns, op=ops[number], nbytes=sizes[ops[number]]))
    for name, moments in zip(OF_COMPUTING, (times.computing_ns, times.computed_ns), strict=True):
        op, t_ns = _numbers(moments)
        parts.append(_part(name, t_ns, op=op))
    parts.append(_part("done", [times.done_ns]))
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(columns["t_ns"], kind="stable")
    return {"rank": np.full(len(order), rank), **{name: column[order] for name, column in columns.items()}}


def _numbers(moments: Mapping[int, int]) -> tuple[Numbers, Numbers]:
    """The numbers and the times, ns."""
    count = len(moments)
    return np.fromiter(moments, np.int64, count), np.fromiter(moments.values(), np.int64, count)


def _part(name: str, t_ns: Sequence[int] | Numbers, **columns: Numbers | int) -> dict[str, Numbers]:
    """The columns of events of one name; what is not given is -1, and 0 where it is a time or a size."""
    none = {"due_ns": 0, "send": -1, "op": -1, "src": -1, "dst": -1, "nbytes": 0}
    values = {"event": EVENTS.index(name), "t_ns": t_ns, **none, **columns}
    return {key: np.broadcast_to(np.asarray(value, np.int64), len(t_ns)) for key, value in values.items()}
