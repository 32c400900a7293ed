"""A matrix of runs: fabric × algorithm × placement × routes, each calibrated and judged."""

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from controller.fluid import fluid_s
from controller.loads import audit
from controller.resolve import resolve, resolve_placed
from controller.routing.shortest import access_switch, distances
from emu import calibration, manifest, records, result, verdict
from emu import run as runs
from emu.calibration import Calibration
from emu.fabric import Fabric
from emu.options import RunOptions
from emu.plan import Plan
from emu.refused import Refused
from emu.result import REFUSED, Row
from emu.transport import fabric_transport
from traces.expand import expand
from traces.workload import Workload


@dataclass(frozen=True, slots=True)
class Cell:
    fabric: Fabric
    algorithm: str
    placement: str
    routes: str

    def __str__(self) -> str:
        return f"{self.fabric.spec} {self.algorithm} {self.placement} {self.routes}"


@dataclass(frozen=True, slots=True)
class Job:
    """What every cell carries; see `traces.expand.expand` for the last three."""

    workload: Workload
    source: str
    seed: int = 0
    iterations: tuple[int, ...] | None = None
    scale: Fraction = Fraction(1)
    compute: Fraction = Fraction(1)


Tell = Callable[[str], None]
CALIBRATION_REPEATS = 2  # the better one counts: what disturbs one flow alone can only slow it


def cells(
    fabrics: Sequence[Fabric], algorithms: Sequence[str], placements: Sequence[str], routes: Sequence[str]
) -> list[Cell]:
    return [Cell(*choice) for choice in itertools.product(fabrics, algorithms, placements, routes)]


def plan_of(cell: Cell, job: Job) -> Plan:
    """Raise Refused for a cell that makes no sense, ValueError for what is wrong in any cell."""
    try:
        schedule = expand(
            job.workload, cell.algorithm, iterations=job.iterations, scale=job.scale, compute=job.compute
        )
    except ValueError as error:
        raise Refused(str(error)) from error
    return resolve(
        cell.fabric,
        schedule,
        algorithm=cell.algorithm,
        placement=cell.placement,
        routes=cell.routes,
        seed=job.seed,
        transport=fabric_transport(cell.fabric),
        source=job.source,
    )


class Laboratory:
    """Carries plans out, one after the other; calibrates each fabric once."""

    def __init__(self, folder: Path, options: RunOptions, tell: Tell) -> None:
        self._folder = folder
        self._options = options
        self._tell = tell
        self._calibrations: dict[str, Calibration] = {}
        self._number = 0

    def rows(self, chosen: Sequence[Cell], job: Job) -> Iterator[Row]:
        """One row per cell; a cell that makes no sense is a row with its reason."""
        for cell in chosen:
            try:
                plan = plan_of(cell, job)
            except Refused as error:
                yield refused(cell, job, str(error))
                continue
            yield self.row(plan, str(cell))

    def row(self, plan: Plan, name: str) -> Row:
        calibrated = self.calibration(plan.fabric)
        self._number += 1
        folder = self._folder / f"{self._number:02d}-{_file_name(name)}"
        self._run(plan, folder, self._options, name)
        repeats = records.load_repeats(folder)
        judged = verdict.judge(repeats, self._options.repeats, calibrated)
        worst = audit(plan).worst
        predicted_s, _ = fluid_s(
            plan.fabric, plan.flows, plan.schedule, alpha_s=calibrated.alpha_s, eta=calibrated.eta
        )
        made = result.row(
            plan,
            repeats,
            judged,
            predicted_s=predicted_s,
            worst=worst.egress,
            worst_flows=worst.together,
            folder=folder,
        )
        result.save(folder, made, judged, calibrated)
        return made

    def calibration(self, fabric: Fabric) -> Calibration:
        """Measured at its first use."""
        if fabric.spec not in self._calibrations:
            folder = self._folder / f"calibration-{_file_name(fabric.spec)}"
            plan = calibration_plan(fabric)
            options = RunOptions(CALIBRATION_REPEATS, self._options.switch)
            self._run(plan, folder, options, f"{fabric.spec} calibration")
            repeats = records.load_repeats(folder)
            fits = [calibration.fit(plan, *arrivals) for arrivals in _arrivals(folder, plan, len(repeats))]
            good = [fit for fit, repeat in zip(fits, repeats, strict=True) if not repeat.disturbed]
            self._calibrations[fabric.spec] = max(good or fits, key=lambda fit: fit.eta)
        return self._calibrations[fabric.spec]

    def _run(self, plan: Plan, folder: Path, options: RunOptions, name: str) -> None:
        def progress(phase: str, more: dict[str, Any]) -> None:
            where = f" {more['repeat'] + 1}/{options.repeats}" if "repeat" in more else ""
            self._tell(f"{name}: {phase}{where}")

        runs.run(plan, folder, options, progress)
        made = manifest.manifest(plan, options, folder / "plan.json")
        (folder / "manifest.json").write_text(json.dumps(made, indent=1) + "\n")


def calibration_plan(fabric: Fabric) -> Plan:
    """Two ranks as far from each other as the fabric allows."""
    transport = fabric_transport(fabric)
    rate_bps = min(fabric.rates.values())
    away = distances(fabric, access_switch(fabric, fabric.hosts[0]))
    far = max(fabric.hosts[1:], key=lambda host: away[access_switch(fabric, host)])
    return resolve_placed(
        fabric,
        (fabric.hosts[0], far),
        calibration.schedule(rate_bps, transport.gso_max_nbytes),
        algorithm="calibration",
        placement="farthest",
        routes="ecmp",
        seed=0,
        transport=transport,
    )


def refused(cell: Cell, job: Job, reason: str) -> Row:
    return Row(
        fabric=cell.fabric.spec,
        algorithm=cell.algorithm,
        placement=cell.placement,
        routes=cell.routes,
        ranks=job.workload.n_ranks,
        bytes=0,
        verdict=REFUSED,
        seed=job.seed,
        reasons=(reason,),
    )


def _arrivals(folder: Path, plan: Plan, repeats: int) -> list[tuple[list[int], int]]:
    """Of each repeat: when each send arrived, and the common start."""
    arrived = [[0] * len(plan.schedule.sends) for _ in range(repeats)]
    start_ns = [0] * repeats
    for path in sorted((folder / "events").glob("rank-*.jsonl")):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event["event"] == "arrived":
                arrived[event["repeat"]][event["send"]] = event["t_ns"]
            elif event["event"] == "start":
                start_ns[event["repeat"]] = event["due_ns"]
    return list(zip(arrived, start_ns, strict=True))


def _file_name(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-=." else "_" for letter in text)
