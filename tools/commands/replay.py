"""`gradwire replay`: send a job's traffic again as real packets."""

import typer

from gradwire.tools.options.choices import MatrixChoices, NetworkChoices, RunChoices, TrafficChoices
from gradwire.tools.options.common import JobArgument
from gradwire.tools.options.fields import takes_choices


@takes_choices
def replay(
    context: typer.Context,
    job: JobArgument,
    matrix: MatrixChoices = MatrixChoices(),  # noqa: B008 - nobody changes it
    network: NetworkChoices = NetworkChoices(),  # noqa: B008
    traffic: TrafficChoices = TrafficChoices(),  # noqa: B008
    run: RunChoices = RunChoices(),  # noqa: B008
) -> None:
    """Send a job's traffic again, as real packets over real TCP, on an emulated fabric.

    A send does not leave at its recorded time, but when the data that it needs
    has arrived and its rank has computed as long as in the capture. Repeat
    --fabric, --algorithm, --placement or --routes to compare: each combination
    is one row of the result.

    Each fabric is calibrated first. Each row has a verdict that says whether the
    machine was fast enough to believe its time.

    Exit code 3: a row is not valid.

    sudo gradwire replay traces/samples/ddp_gloo_8 --fabric fat-tree:k=4 --fabric bigraph:n=4,m=2
    sudo gradwire replay traces/samples/ddp_gloo_8 --iteration 2 --watch
    """
    from gradwire.tools.work.replay import replay_job

    replay_job(context, job, matrix, network, traffic, run)
