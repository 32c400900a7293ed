"""Runs as pandas frames: those of one run, and those of matrices, with the numbers of their cells."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gradwire.emu.events import EVENTS, Events, load_events
from gradwire.emu.records import EARLY_LINK_COLUMNS, LATER_LINK_COLUMNS, LINK_COLUMNS, Repeat, load_repeats
from gradwire.planning.plan import Plan
from gradwire.planning.runfiles import BadRun, read_table
from gradwire.results.matrixfile import Matrix, load_matrix
from gradwire.results.plannedcells import PlannedFlow, planned_flows
from gradwire.results.row import Row
from gradwire.results.runview import LinkUse, RunView, load_run
from gradwire.traces.dataframes import Column, frame, typed

NESTED = (
    "jobs",
    "idle_of",
    "tier_nbytes",
)  # of a row: lists and maps that are tables of their own, or in no table


@dataclass(frozen=True, slots=True)
class Iteration:
    """An iteration that lasts from start to start, and what of it no computing hides."""

    repeat: int
    iteration_s: float
    exposed_s: float


@dataclass(frozen=True, slots=True)
class RankRepeat:
    """What one rank did in a repeat: when it was done, and TCP's counts."""

    repeat: int
    rank: int
    host: str
    time_s: float
    sent_nbytes: int
    retransmits: int


@dataclass(frozen=True)
class Run:
    """A finished run's folder, as `replay` and `bench` leave it; `view` shows the repeat of middle time.

    Times are seconds, or ns of CLOCK_MONOTONIC on the machine that ran it.  A disturbed repeat was measured
    again: no figure of it counts.
    """

    folder: Path
    view: RunView

    @property
    def plan(self) -> Plan:
        return self.view.plan

    @cached_property
    def row(self) -> dict[str, Any]:
        """What the run means, with its `verdict` and `reasons`: a row of docs/schemas.md ("rows")."""
        return self._row.to_json()

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The same as a frame of one row, with the columns that the rows of a matrix have."""
        return frame(Row, [self._row], NESTED)

    @cached_property
    def repeats(self) -> pd.DataFrame:
        """A row each repeat: the fields of `repeats.json` that are one value each, and whether it counts."""
        many = [each.name for each in fields(Repeat) if "tuple" in str(each.type) or "dict" in str(each.type)]
        repeats = frame(Repeat, self._repeats, many)
        repeats.insert(0, "repeat", range(len(repeats)))
        return repeats.assign(counts=[repeat.counts for repeat in self._repeats])

    @cached_property
    def iterations(self) -> pd.DataFrame:
        """A row each iteration that lasts from start to start, of the repeats that count."""
        return frame(
            Iteration,
            [
                Iteration(number, *times_s)
                for number, repeat in enumerate(self._repeats)
                for times_s in zip(repeat.iteration_s, repeat.exposed_s, strict=True)
                if repeat.counts
            ],
        )

    @cached_property
    def ranks(self) -> pd.DataFrame:
        """A row each rank in each repeat: when it was done after the start, what it sent, and sent again."""
        return frame(
            RankRepeat,
            [
                RankRepeat(
                    number,
                    rank,
                    host,
                    repeat.rank_time_s[rank],
                    repeat.sent_nbytes[rank],
                    repeat.retransmits[rank],
                )
                for number, repeat in enumerate(self._repeats)
                for rank, host in enumerate(self.plan.placement)
            ],
        )

    @cached_property
    def links(self) -> pd.DataFrame:
        """Each direction of a cable in `view`'s repeat, the busiest first: the fields of `LinkUse`."""
        return frame(LinkUse, self.view.links, ["egress"])

    @cached_property
    def flows(self) -> pd.DataFrame:
        """Both directions of every connection of the plan: the columns of "plan --json: flows"."""
        return frame(PlannedFlow, planned_flows(self.plan))

    @cached_property
    def samples(self) -> pd.DataFrame:
        """Counters of every switch port over time: the columns of `links.parquet`, empty without that.

        Those that older runs lack, or that were not read each time, have missing values there.
        """
        path = self.folder / "links.parquet"
        read = [typed([Column(name, "str" if name == "interface" else "int64") for name in LINK_COLUMNS], ())]
        if path.exists():
            read = [
                read_table(path, EARLY_LINK_COLUMNS, each, LATER_LINK_COLUMNS).to_pandas()
                for each in range(len(self._repeats))
            ]
        samples = pd.concat(read, ignore_index=True).reindex(columns=list(LINK_COLUMNS))
        return samples.astype(dict.fromkeys(LATER_LINK_COLUMNS, "Int64"))

    @cached_property
    def events(self) -> pd.DataFrame:
        """What each rank did, and when: a row each event, by repeat, by rank, and in the order of time."""
        parts = [load_events(self.folder, self.plan, number) for number in range(len(self._repeats))]
        names = [field.name for field in fields(Events)]
        events = pd.DataFrame(
            {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        )
        return events.assign(event=pd.Categorical.from_codes(events["event"].to_numpy(), pd.Index(EVENTS)))

    @cached_property
    def _row(self) -> Row:
        (row,) = load_matrix(self.folder).rows
        return row

    @cached_property
    def _repeats(self) -> list[Repeat]:
        return load_repeats(self.folder, self.plan)


def load_run_tables(folder: Path) -> Run:
    """A run's folder.  Raise BadRun or BadPlan for what is not a complete one, OSError."""
    if (folder / "result.json").exists() and not (folder / "plan.json").exists():
        raise BadRun(folder, "these are results of several runs", "read them with read_results")
    return Run(folder, load_run(folder))


@dataclass(frozen=True)
class Results:
    """What commands left: `matrices` as values, and frames over all their cells.

    The first columns of each frame are `run`, the folder of the results, and `cell`, the number of the row in
    them, from 1.  Cells without a run (refused ones) are in `rows` alone.
    """

    matrices: tuple[Matrix, ...]

    @cached_property
    def rows(self) -> pd.DataFrame:
        """A row each cell: the fields of docs/schemas.md ("rows") as columns, FIELD_PART for parts."""
        rows = frame(Row, [row for _, _, row in self._cells], NESTED)
        rows.insert(0, "run", pd.Series([run for run, _, _ in self._cells], dtype="str"))
        rows.insert(1, "cell", pd.Series([cell for _, cell, _ in self._cells], dtype="int64"))
        return rows

    @cached_property
    def repeats(self) -> pd.DataFrame:
        """As of `Run`."""
        return self._each(lambda run: run.repeats)

    @cached_property
    def iterations(self) -> pd.DataFrame:
        """As of `Run`."""
        return self._each(lambda run: run.iterations)

    @cached_property
    def ranks(self) -> pd.DataFrame:
        """As of `Run`."""
        return self._each(lambda run: run.ranks)

    @cached_property
    def links(self) -> pd.DataFrame:
        """As of `Run`."""
        return self._each(lambda run: run.links)

    @cached_property
    def flows(self) -> pd.DataFrame:
        """As of `Run`."""
        return self._each(lambda run: run.flows)

    @cached_property
    def samples(self) -> pd.DataFrame:
        """As of `Run`."""
        return self._each(lambda run: run.samples)

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """All of these by name, as `--parquet` writes them."""
        names = ("rows", "repeats", "iterations", "ranks", "links", "flows", "samples")
        return {name: getattr(self, name) for name in names}

    @cached_property
    def _cells(self) -> list[tuple[str, int, Row]]:
        return [
            (str(matrix.folder), number, row)
            for matrix in self.matrices
            for number, row in enumerate(matrix.rows, start=1)
        ]

    @cached_property
    def _runs(self) -> list[tuple[str, int, Run]]:
        return [
            (run, cell, load_run_tables(Path(row.folder))) for run, cell, row in self._cells if row.folder
        ]

    def _each(self, table: Callable[[Run], pd.DataFrame]) -> pd.DataFrame:
        """The tables of all runs, one below the other."""
        parts = [table(run).assign(run=name, cell=cell) for name, cell, run in self._runs]
        if not parts:
            return typed([Column("run", "str"), Column("cell", "int64")], ())
        joined = pd.concat(parts, ignore_index=True)
        return joined[["run", "cell", *(name for name in joined.columns if name not in ("run", "cell"))]]
