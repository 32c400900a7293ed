"""`gradwire extract`: write what a captured job communicated to a workload file."""

from gradwire.tools.options import CapturesArgument, JsonOption, RankMapOption, WorkloadOutOption
from gradwire.tools.outputs import check_file
from gradwire.tools.stdin import with_stdin
from gradwire.tools.written import print_written
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.recognise import recognise
from gradwire.traces.workload import save


def extract(
    captures: CapturesArgument,
    out: WorkloadOutOption,
    rank_map: RankMapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write what a captured job communicated to a workload file.

    The file lists collectives and messages in order, and how long each rank
    computed between them. `plan` and `replay` read it.
    """
    check_file("--out", out)
    workload = recognise(open_trace(with_stdin(captures), rank_map))
    save(workload, out)
    print_written(workload, out, as_json)
