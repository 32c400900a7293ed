"""`gradwire make`: write the workload of a job that nobody captured."""

from typing import Annotated

import typer

from gradwire.tools.options.common import JsonOption, WorkloadOutOption, either
from gradwire.tools.options.completing import completing
from gradwire.tools.options.fields import takes_choices
from gradwire.tools.options.given import refuse_foreign
from gradwire.tools.options.make import KINDS, JobChoices, SizeChoices, belongs
from gradwire.tools.written import print_written
from gradwire.traces.units import one_of
from gradwire.traces.workload import save


@takes_choices
def make(
    context: typer.Context,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help=f"{either([*KINDS])}.",
            show_default=False,
            autocompletion=completing(KINDS),
        ),
    ],
    out: WorkloadOutOption,
    size: SizeChoices = SizeChoices(),  # noqa: B008 - nobody changes it
    of_kind: dict[str, JobChoices] = KINDS,
    as_json: JsonOption = False,
) -> None:
    """Write the workload of a job that nobody captured, for `plan` and `replay`.

    gradwire make collective --nbytes 64MiB --workers 128 -o allreduce.workload.json
    gradwire make easgd --variant sync3 -o sync3.workload.json
    gradwire make gossip --pattern pull --workers 16 -o pull.workload.json
    gradwire make dlrm --tables 8,2,2,2 --batch 256 -o dlrm.workload.json
    gradwire make ps --servers 4 --staleness 1 -o ps.workload.json

    docs/making.md says what each kind sends, which paper it is from, and how
    long an iteration should take. This needs no root and no network.
    """
    one_of("kind of job", kind, KINDS)
    refuse_foreign(context, kind, belongs())
    workload = of_kind[kind].workload(size)
    save(workload, out)
    print_written(workload, out, as_json)
