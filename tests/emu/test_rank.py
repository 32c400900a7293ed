"""The log that a rank of a live job keeps of itself."""

import json
import multiprocessing
import os
import shutil
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from gradwire.emu.training import rank
from gradwire.emu.training.rank import EventLog
from gradwire.traces.groundtruth import RankLog

DURATION_S = 0.5
IMPORTS_S = 60.0


def write_log(path: Path, cpu: int, duration_s: float, spins: bool, begin: Barrier) -> None:
    """Keep a log for `duration_s` seconds on one processor, computing all the time or asleep, and save it.

    It begins when all processes are there, however long their imports took.
    """
    os.sched_setaffinity(0, {cpu})
    begin.wait(IMPORTS_S)
    log = EventLog()
    until_s = time.monotonic() + duration_s
    while time.monotonic() < until_s:
        if not spins:
            time.sleep(0.01)
    log.save(path, rank=0)


def waited(folder: Path, n_processes: int, *, spins: bool) -> list[float]:
    """The `waited` of the logs of several processes that share one processor."""
    cpu = min(os.sched_getaffinity(0))
    paths = [folder / f"log.r{number}.json" for number in range(n_processes)]
    context = multiprocessing.get_context("spawn")
    begin = context.Barrier(n_processes)
    processes = [
        context.Process(target=write_log, args=(path, cpu, DURATION_S, spins, begin)) for path in paths
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [float(json.loads(path.read_text())["waited"]) for path in paths]


@pytest.mark.long
def test_of_processes_that_compute_on_one_processor_each_waits_for_the_others(tmp_path: Path) -> None:
    """Of three that begin at the same time each waits for about two thirds of it, on a busy machine for
    more; one that sleeps waits for next to nothing.
    """
    assert min(waited(tmp_path, 3, spins=True)) > 0.4
    assert max(waited(tmp_path, 1, spins=False)) < 0.2


@pytest.fixture
def threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In place of /proc/self/task, a folder whose threads the test makes and ends; so far there are none."""
    folder = tmp_path / "task"
    folder.mkdir()
    monkeypatch.setattr(rank, "_THREADS", folder)
    return folder


def run_thread(threads: Path, number: int, delay_ns: int) -> None:
    (threads / str(number)).mkdir(exist_ok=True)
    (threads / str(number) / "schedstat").write_text(f"1000000 {delay_ns} 3\n")


def saved(log: EventLog, path: Path) -> RankLog:
    log.save(path, rank=0)
    return RankLog.model_validate_json(path.read_text())


def test_what_a_thread_had_waited_before_the_log_began_does_not_count(threads: Path, tmp_path: Path) -> None:
    hour_ns = 3600 * 10**9
    run_thread(threads, 1, hour_ns)
    log = EventLog()
    run_thread(threads, 1, hour_ns + 1)
    assert saved(log, tmp_path / "log.r0.json").waited == pytest.approx(0, abs=0.1)


def test_a_thread_that_ends_takes_nothing_from_what_the_others_waited(threads: Path, tmp_path: Path) -> None:
    run_thread(threads, 1, 0)
    run_thread(threads, 2, 10**18)
    log = EventLog()
    shutil.rmtree(threads / "2")
    run_thread(threads, 1, 3600 * 10**9)
    waited = saved(log, tmp_path / "log.r0.json").waited
    assert waited is not None
    assert waited > 1


def test_a_thread_that_gets_the_number_of_one_that_ended_has_not_waited_for_less_than_no_time(
    threads: Path, tmp_path: Path
) -> None:
    run_thread(threads, 1, 10**18)
    log = EventLog()
    run_thread(threads, 1, 0)
    assert saved(log, tmp_path / "log.r0.json").waited == 0


def test_a_thread_that_ends_while_the_log_is_saved_is_left_out(threads: Path, tmp_path: Path) -> None:
    """Its folder is listed still, and what is in it is gone."""
    run_thread(threads, 1, 0)
    log = EventLog()
    (threads / "2").mkdir()
    assert saved(log, tmp_path / "log.r0.json").waited == 0


@pytest.mark.parametrize("schedstat", [None, "0 0 0\n"])
def test_the_log_does_not_say_what_was_waited_where_the_kernel_does_not_measure_it(
    threads: Path, tmp_path: Path, schedstat: str | None
) -> None:
    """Without CONFIG_SCHED_INFO there is no such file; if it is off, three zeros (Linux's fs/proc/base.c)."""
    (threads / "1").mkdir()
    if schedstat is not None:
        (threads / "1" / "schedstat").write_text(schedstat)
    assert saved(EventLog(), tmp_path / "log.r0.json").waited is None
    assert "waited" not in json.loads((tmp_path / "log.r0.json").read_text())
