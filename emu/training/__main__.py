"""Runs all ranks of a built-in job: imports PyTorch once, then forks a process for each rank.

`python -m gradwire.emu.training FOLDER` prints `ready`. A line of JSON then says where the ranks are
(`ranks`: process id of the host, interface; `address` of the first) and what to do (`options`), and the
program forks them into their hosts' network namespaces. Prints `iteration N` when rank 0's or, with
servers, the first worker's begins. Ranks write `log.rN.json` and `out.rN.txt` into the folder. Exit code 1
and a line on stderr when one fails.

Importing PyTorch costs ten seconds of processor time; N interpreters would pay that N times.
"""

import contextlib
import datetime as dt
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # imported by DDP at its first use, so by every rank on its own
import torch.distributed as dist
import torch.optim

from gradwire.emu.kernel.namespaces import join
from gradwire.emu.training import ddp, ps
from gradwire.emu.training.options import TrainingOptions
from gradwire.traces.framing.setups import STORE_PORT

_TIMEOUT = dt.timedelta(minutes=5)


def main(folder: Path) -> int:
    print("ready", flush=True)
    settings = json.loads(sys.stdin.readline())
    ranks = {_forked(folder, settings, number): number for number in range(len(settings["ranks"]))}
    while ranks:
        pid, status = os.wait()
        rank = ranks.pop(pid)
        if code := os.waitstatus_to_exitcode(status):
            for other in ranks:  # they would wait for it until gloo's own time limit
                with contextlib.suppress(ProcessLookupError):
                    os.kill(other, 9)
            print(f"rank {rank} ended with exit code {code}: {_last_line(folder, rank)}", file=sys.stderr)
            return 1
    return 0


def _forked(folder: Path, settings: dict[str, Any], rank: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        _be_rank(folder, settings, rank)
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, it must not return into the parent's code
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _be_rank(folder: Path, settings: dict[str, Any], rank: int) -> None:
    output = os.open(folder / f"out.r{rank}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    heard = os.dup(1)
    os.dup2(output, 1)
    os.dup2(output, 2)
    home = settings["ranks"][rank]
    join(home["pid"])
    os.environ["GLOO_SOCKET_IFNAME"] = home["interface"]
    options = TrainingOptions.from_json(settings["options"])
    torch.set_num_threads(1)
    store = f"tcp://{settings['address']}:{STORE_PORT}"
    dist.init_process_group("gloo", store, _TIMEOUT, rank=rank, world_size=len(settings["ranks"]))

    def began(iteration: int) -> None:
        if rank == options.servers:
            os.write(heard, f"iteration {iteration}\n".encode())

    trainer = ps if options.servers else ddp
    trainer.train(options, rank, folder / f"log.r{rank}.json", began)
    dist.destroy_process_group()


def _last_line(folder: Path, rank: int) -> str:
    path = folder / f"out.r{rank}.txt"
    lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
    return lines[-1] if lines else "printed no error"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
