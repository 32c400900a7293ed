"""`gradwire plan`: decide everything of a run beforehand."""

import json
from pathlib import Path
from typing import Annotated

import typer

from controller.resolve import resolve
from emu import plan as plans
from emu.plan import Plan
from emu.spec import parse_fabric
from emu.transport import fabric_transport
from tools.console import console
from tools.inputs import read_job, source_of
from tools.options import (
    AlgorithmOption,
    ComputeOption,
    FabricOption,
    IterationsOption,
    JobArgument,
    JsonOption,
    PlacementOption,
    RanksFileOption,
    RoutesOption,
    ScaleBytesOption,
    SeedOption,
    parse_compute,
    parse_factor,
    parse_iterations,
    refuse_planned_options,
)
from tools.plansummary import print_summary, summary
from traces.expand import AS_CAPTURED, expand


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
    ranks: RanksFileOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the plan; `replay` runs it.")
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
        chosen = parse_fabric(fabric)
        schedule = expand(
            given,
            algorithm,
            iterations=parse_iterations(iteration),
            scale=parse_factor(scale_bytes),
            compute=parse_compute(compute),
        )
        made = resolve(
            chosen,
            schedule,
            algorithm=algorithm,
            placement=placement,
            routes=routes,
            seed=seed,
            transport=fabric_transport(chosen),
            source=source_of(job),
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
