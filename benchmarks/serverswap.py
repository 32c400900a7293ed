"""Does a replay know what a job would take with servers, or without them?

Both are trained live, and both captures are replayed as the other job.

    sudo .venv/bin/python -m benchmarks.serverswap [--fabric star:hosts=6,rate=20M] [--model mlp]
        [--workers 4] [--servers 2] [--iterations 12] [--repeat 3] [--out DIR]

A data-parallel job, and one with synchronous parameter servers, of as many workers each. The servers' capture
as `ring` is compared with the data-parallel job's iteration by its ranks' logs, the other capture as
`ps:servers=K,chunk=off` (PyTorch's servers get a message from each worker, and answer when all are in) with
the servers' job. Needs `./gradwire setup --live`. What has been trained in DIR already is not trained again.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.slowrank import trained
from gradwire.emu.options import RunOptions
from gradwire.emu.run import run
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.results.laboratory import Laboratory
from gradwire.tools.options.livejob import LiveJob, need_for_live
from gradwire.traces.iterationtimes import IterationTime
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.recognise import find_job, workload_of
from gradwire.traces.units import show_s

MOST = 0.05  # from the job that was trained that way


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fabric", default="star:hosts=6,rate=20M")
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("runs/serverswap"))
    arguments = parser.parse_args()
    out: Path = arguments.out.absolute()
    ddp, servers = _jobs(arguments)
    need_for_live("serverswap", servers.request(arguments.fabric))
    live = {name: trained(job, arguments.fabric, out / name) for name, job in (("ddp", ddp), ("ps", servers))}
    bench = Laboratory(
        out / "runs", RunOptions(arguments.repeat), lambda text: print(text, file=sys.stderr), run
    )
    swaps = (("ps", "ring", "ddp"), ("ddp", f"ps:servers={arguments.servers},chunk=off", "ps"))
    good = [
        compared(bench, out / captured, algorithm, arguments.fabric, live[other].time)
        for captured, algorithm, other in swaps
    ]
    sys.exit(0 if all(good) else 3)


def _jobs(arguments: argparse.Namespace) -> tuple[LiveJob, LiveJob]:
    """Data-parallel workers, and as many with servers."""
    ddp = LiveJob(
        words=("ddp",),
        ranks=arguments.workers,
        model=arguments.model,
        iterations=arguments.iterations,
        batch=16,
        seed=0,
        bucket_mib=None,
        servers=arguments.servers,
        workers=arguments.workers,
        asynchronous=False,
        once=False,
        limit_s=600,
    )
    return ddp, replace(ddp, words=("ps",))


def compared(bench: Laboratory, captures: Path, algorithm: str, spec: str, live: IterationTime) -> bool:
    """Replay captures by an algorithm, and print its iteration beside that of the live job done that way."""
    workload = workload_of(find_job(open_trace([captures])))
    cell = Cell(parse_fabric(spec), algorithm, "linear", "ecmp")
    row = bench.row(plan_of(cell, Experiment(workload, str(captures))))
    assert row.iteration_s is not None
    error = row.iteration_s.median / live.median - 1
    print(
        f"{captures.name} as {algorithm}: {show_s(row.iteration_s.median)}, trained that way "
        f"{show_s(live.median)} ±{live.spread:.0%}: {error:+.1%}, wrong {row.wrong}, {row.verdict}",
        flush=True,
    )
    return abs(error) <= MOST and not row.wrong and row.valid


if __name__ == "__main__":
    main()
