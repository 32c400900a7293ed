"""The log that a rank of a live job keeps of itself."""

import json
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from gradwire.emu.training.rank import EventLog

SPUN_S = 0.5


def logged(path: Path, cpu: int, seconds: float, spins: bool) -> None:
    """Log for so long what this process waits for on one processor."""
    os.sched_setaffinity(0, {cpu})
    log = EventLog()
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        if not spins:
            time.sleep(0.01)
    log.save(path, rank=0)


def waited(folder: Path, n_processes: int, *, spins: bool) -> list[float]:
    cpu = min(os.sched_getaffinity(0))
    paths = [folder / f"log.r{number}.json" for number in range(n_processes)]
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=logged, args=(path, cpu, SPUN_S, spins)) for path in paths]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [float(json.loads(path.read_text())["waited"]) for path in paths]


@pytest.mark.long
def test_of_processes_that_compute_on_one_processor_each_waits_for_the_others(tmp_path: Path) -> None:
    """Of three that begin at about the same time each waits for about two thirds of it, on a busy machine for
    more; one that sleeps waits for next to nothing.
    """
    assert min(waited(tmp_path, 3, spins=True)) > 0.4
    assert max(waited(tmp_path, 1, spins=False)) < 0.2
