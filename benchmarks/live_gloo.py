"""Our replay against the real thing: live PyTorch gloo on the same emulated fabric, side by side.

    sudo .venv/bin/python -m benchmarks.live_gloo [WORKLOAD_OR_CAPTURES] [--fabric star:hosts=8,rate=50M]

Runs the captured job's allreduces (one after the other, no compute) as our agents replay them, then the
same sizes by `torch.distributed.all_reduce` in one process per host, and prints both times and their ratio.
Needs PyTorch: sudo ./gradwire setup --live.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path

from gradwire.emu.emulation import in_force
from gradwire.emu.interpreter import python
from gradwire.emu.kernel.isolate import isolated, stop
from gradwire.emu.kernel.namespaces import enter
from gradwire.emu.network.net import emulated
from gradwire.emu.options import RunOptions, Software
from gradwire.emu.project import PROJECT
from gradwire.emu.run import run
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.fabric import interface
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.jobs import read_workload_only
from gradwire.planning.transport import fabric_transport
from gradwire.results.laboratory import Laboratory
from gradwire.traces.framing.setups import STORE_PORT
from gradwire.traces.schedules.selection import training_iterations
from gradwire.traces.workload import Collective, Workload

LIMIT_S = 300


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("job", type=Path, nargs="*", default=[PROJECT / "traces" / "samples" / "ddp_gloo_8"])
    parser.add_argument("--fabric", default="star:hosts=8,rate=50M")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank is not None:
        rank(arguments.rank, json.loads((arguments.inside / "settings.json").read_text()))
    elif arguments.inside:
        inside(arguments.inside)
    else:
        compare(read_workload_only(arguments.job), arguments.fabric, arguments.repeat)


def compare(workload: Workload, spec: str, repeats: int) -> None:
    fabric = parse_fabric(spec)
    chosen = training_iterations(workload)
    nbytes = [
        item.nbytes
        for item in workload.items
        if isinstance(item, Collective) and item.kind == "allreduce" and item.iteration in chosen
    ]
    with tempfile.TemporaryDirectory(prefix="gradwire-live-") as name:
        folder = Path(name)
        laboratory = Laboratory(folder / "runs", RunOptions(repeats), print_nothing, run)
        experiment = Experiment(workload, "live comparison", compute=Fraction(0))
        ours = laboratory.row(plan_of(Cell(fabric, "as-captured", "linear", "ecmp"), experiment))
        value = {"fabric": spec, "nbytes": nbytes, "repeats": repeats, "n_ranks": workload.n_ranks}
        (folder / "settings.json").write_text(json.dumps(value))
        arguments = ["--inside", str(folder)]
        process = isolated("benchmarks.live_gloo", arguments, stdout=subprocess.PIPE)
        try:
            said, _ = process.communicate(timeout=LIMIT_S)
        finally:
            stop(process)
    if process.returncode:
        sys.exit("the live run failed")
    live = json.loads(said)
    assert ours.time_s
    time_s = ours.time_s
    print(f"{len(nbytes)} allreduces, {sum(nbytes):,} bytes in all, {workload.n_ranks} ranks, {spec}")
    print(f"replay     {time_s.median:.4f} s  [{time_s.min:.4f} .. {time_s.max:.4f}]  {ours.verdict}")
    print(f"live gloo  {statistics.median(live):.4f} s  [{min(live):.4f} .. {max(live):.4f}]")
    print(f"bound      {ours.bound_s:.4f} s")
    print(f"replay / live gloo = {time_s.median / statistics.median(live):.3f}")


def print_nothing(text: str) -> None:
    """The progress of a benchmark is its result."""
    del text


def inside(folder: Path) -> None:
    """The live side: the fabric, its controller, and one PyTorch process per host."""
    settings = json.loads((folder / "settings.json").read_text())
    fabric = parse_fabric(settings["fabric"])
    network = emulated(fabric, fabric_transport(fabric), ())
    with in_force(network, fabric, Software(), folder) as emulation:
        processes = []
        for number, host in enumerate(emulation.net.hosts[: settings["n_ranks"]]):
            names = folder / f"hosts-{number}"
            names.write_text(f"127.0.0.1 localhost\n{fabric.ip(host.name)} {os.uname().nodename}\n")
            command = [*enter(host.pid), "unshare", "--mount", "sh", "-c"]
            command += [f'mount --bind {names} /etc/hosts && exec "$@"', "sh"]
            command += python("benchmarks.live_gloo", "--inside", str(folder), "--rank", str(number))
            environment = {
                "TORCH_CPP_LOG_LEVEL": "ERROR",
                "MASTER_ADDR": fabric.ip(fabric.hosts[0]),
                "MASTER_PORT": str(STORE_PORT),
                "GLOO_SOCKET_IFNAME": interface(host.name, 0),
                "OMP_NUM_THREADS": "1",
            }
            processes.append(
                subprocess.Popen(
                    command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
                )
            )
        outputs = [process.communicate(timeout=LIMIT_S)[0] for process in processes]
        times = [json.loads(output)["time_s"] for output in outputs]
        print(json.dumps([max(each) for each in zip(*times, strict=True)]))


def rank(number: int, settings: dict[str, object]) -> None:
    """One live rank: as many repeats of the job's allreduces, each begun together."""
    import time

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    n_ranks, repeats = settings["n_ranks"], settings["repeats"]
    counts = settings["nbytes"]
    assert isinstance(n_ranks, int)
    assert isinstance(repeats, int)
    assert isinstance(counts, list)
    dist.init_process_group("gloo", rank=number, world_size=n_ranks)
    buffers = [torch.full((nbytes // 4,), float(number)) for nbytes in counts]
    times = []
    for _ in range(repeats):
        for buffer in buffers:
            buffer.fill_(float(number))
        dist.barrier()
        start = time.monotonic()
        for buffer in buffers:
            dist.all_reduce(buffer)
        times.append(time.monotonic() - start)
        expected = n_ranks * (n_ranks - 1) / 2
        assert all(bool((buffer == expected).all()) for buffer in buffers), "a live sum is wrong"
    print(json.dumps({"time_s": times}))


if __name__ == "__main__":
    main()
