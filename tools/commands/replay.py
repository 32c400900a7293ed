"""`gradwire replay`: a job's traffic, sent again as real packets."""

from dataclasses import replace
from fractions import Fraction

import typer

from emu.options import RunOptions
from planning.experiment import Job, cells
from planning.fabrics.spec import parse_fabric
from planning.plan import Plan
from planning.trees.tree import DEFAULT_ELEMENTS, SWITCH_SLOTS
from results.laboratory import planned
from results.row import Row
from tools.aggregationoptions import ElementsOption, InaOption, SlotsOption, SwitchSlotsOption, with_ina
from tools.carry import (
    carry_out,
    check_page,
    default_folder,
    show,
)
from tools.inputs import is_captures, read_beside, read_captured, read_job, source_of
from tools.machine import need_root_and_tools
from tools.options import (
    AlgorithmsOption,
    BesideOption,
    CapturesOption,
    ComputeOption,
    FabricsOption,
    FailOption,
    HtmlOption,
    IterationsOption,
    JitterOption,
    JobArgument,
    JsonOption,
    LossOption,
    OutOption,
    PlacementsOption,
    RanksFileOption,
    RepeatOption,
    RerouteOption,
    RoutesListOption,
    ScaleBytesOption,
    SeedOption,
    SlowOption,
    SwitchOption,
    parse_compute,
    parse_factor,
    parse_iterations,
    parse_percent,
    parse_slow,
    refuse_planned_options,
    straggler_words,
)
from traces.schedules.expand import AS_CAPTURED
from traces.schedules.straggling import straggling
from traces.workload import Workload


def replay(  # noqa: PLR0913, PLR0917 - a parameter for each option
    context: typer.Context,
    job: JobArgument,
    fabric: FabricsOption = ["fat-tree:k=4"],  # noqa: B006 - Typer only reads it
    algorithm: AlgorithmsOption = [AS_CAPTURED],  # noqa: B006
    ina: InaOption = "off",
    placement: PlacementsOption = ["linear"],  # noqa: B006
    routes: RoutesListOption = ["ecmp"],  # noqa: B006
    repeat: RepeatOption = 3,
    seed: SeedOption = 0,
    iteration: IterationsOption = None,
    scale_bytes: ScaleBytesOption = "1",
    compute: ComputeOption = "keep",
    slow: SlowOption = None,
    jitter: JitterOption = "0",
    beside: BesideOption = None,
    fail: FailOption = None,
    loss: LossOption = None,
    reroute: RerouteOption = True,
    switch_slots: SwitchSlotsOption = SWITCH_SLOTS,
    slots: SlotsOption = None,
    elements: ElementsOption = DEFAULT_ELEMENTS,
    ranks: RanksFileOption = None,
    switch: SwitchOption = "gradwire",
    captures: CapturesOption = False,
    out: OutOption = None,
    html: HtmlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a job's traffic again, as real packets over real TCP, on an emulated fabric.

    Every combination of the repeatable options is one row. A send leaves when its data has arrived and
    its rank has computed for long enough, not at its recorded time. Each fabric is calibrated first; a
    row says whether the machine let it be believed. Exit code 3: a row is not valid.
    """
    options = RunOptions(repeat, switch, captures, reroute)
    original = None
    given: Workload | Plan
    if is_captures(job):
        given, original = read_captured(job, ranks)
    else:
        given = read_job(job, ranks)
    if isinstance(given, Plan):
        refuse_planned_options(context, job[0])
        todo: list[Plan | Row] = [given]
    else:
        late, varied = parse_slow(slow), parse_percent(jitter)
        chosen = Job(
            workload=straggling(given, late, varied, seed),
            source=source_of(job) + straggler_words(late, varied),
            seed=seed,
            iterations=parse_iterations(iteration),
            scale=parse_factor(scale_bytes),
            compute=parse_compute(compute),
            beside=read_beside(beside),
            fail=tuple(fail or ()),
            loss=tuple(loss or ()),
            switch_slots=switch_slots,
            slots=slots,
            elements=elements,
        )
        if late or varied or chosen.beside or (chosen.scale, chosen.compute) != (Fraction(1), Fraction(1)):
            original = None  # it is another job
        chosen = replace(chosen, captured_on=original.fabric if original else None)
        fabrics = [parse_fabric(text) for text in fabric]
        matrix = cells(fabrics, with_ina(algorithm, ina), placement, routes)
        todo = planned([(cell, chosen) for cell in matrix])
    need_root_and_tools("replay", switch, captures)
    check_page(html)
    folder = out or default_folder()
    rows = carry_out(todo, options, folder, as_json, original)
    show(rows, folder, as_json, html, f"Replay of {source_of(job)}")
