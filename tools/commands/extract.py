"""`gradwire extract`: write what a captured job communicated to a workload file."""

from gradwire.tools.options.common import CapturesArgument, JsonOption, RankMapOption, WorkloadOutOption


def extract(
    captures: CapturesArgument,
    out: WorkloadOutOption,
    rank_map: RankMapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write what a captured job communicated to a workload file.

    The file lists collectives and messages in order, and how long each rank
    computed between them. `plan` and `replay` read it.

    gradwire extract traces/samples/ddp_gloo_8 -o job.workload.json
    """
    from gradwire.tools.work.extract import write_captured_job

    write_captured_job(captures, out, rank_map, as_json=as_json)
