"""`gradwire plan`: decide everything of a run beforehand."""

import json
from pathlib import Path
from typing import Annotated

import typer

from planning import plan as plans
from planning.experiment import Cell, Job, plan_of
from planning.fabrics.spec import parse_fabric
from planning.plan import Plan
from planning.trees.tree import DEFAULT_ELEMENTS, SWITCH_SLOTS
from tools.aggregationoptions import ElementsOption, SlotsOption, SwitchSlotsOption
from tools.console import console
from tools.inputs import read_beside, read_job, source_of
from tools.options import (
    AlgorithmOption,
    BesideOption,
    ComputeOption,
    FabricOption,
    FailOption,
    IterationsOption,
    JitterOption,
    JobArgument,
    JsonOption,
    LossOption,
    PlacementOption,
    RanksFileOption,
    RoutesOption,
    ScaleBytesOption,
    SeedOption,
    SlowOption,
    parse_compute,
    parse_factor,
    parse_iterations,
    parse_percent,
    parse_slow,
    refuse_planned_options,
    straggler_words,
)
from tools.plansummary import print_summary, summary
from traces.schedules.expand import AS_CAPTURED
from traces.schedules.straggling import straggling


def plan(  # noqa: PLR0913, PLR0917 - a parameter for each option
    context: typer.Context,
    job: JobArgument,
    fabric: FabricOption = "fat-tree:k=4",
    algorithm: AlgorithmOption = AS_CAPTURED,
    placement: PlacementOption = "linear",
    routes: RoutesOption = "ecmp",
    seed: SeedOption = 0,
    iteration: IterationsOption = None,
    scale_bytes: ScaleBytesOption = "1",
    compute: ComputeOption = "keep",
    slow: SlowOption = None,
    jitter: JitterOption = "0",
    beside: BesideOption = None,
    fail: FailOption = None,
    loss: LossOption = None,
    switch_slots: SwitchSlotsOption = SWITCH_SLOTS,
    slots: SlotsOption = None,
    elements: ElementsOption = DEFAULT_ELEMENTS,
    ranks: RanksFileOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the plan to this file; `replay` runs it."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Decide every send, port number and path of a run; audit the routes and predict the time.

    No root, no network, and the same arguments always give the same plan. A plan.json is shown as it
    stands: options that it has decided are refused.
    """
    given = read_job(job, ranks)
    if isinstance(given, Plan):
        refuse_planned_options(context, job[0])
        made = given
    else:
        late, varied = parse_slow(slow), parse_percent(jitter)
        made = plan_of(
            Cell(parse_fabric(fabric), algorithm, placement, routes),
            Job(
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
            ),
        )
    if output is not None:
        plans.save(made, output)
    if as_json:
        print(json.dumps(summary(made), indent=1))
        return
    to = console()
    print_summary(to, made)
    if output is not None:
        to.print(f"\nplan written to {output}", soft_wrap=True)
