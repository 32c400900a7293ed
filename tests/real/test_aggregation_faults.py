"""Ranks and switches that die, stop or begin again in mid-tensor: an error that says who, no wrong sum."""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire.emu.interpreter import python
from gradwire.emu.project import PROJECT
from gradwire.emu.replay.sums import Floats
from gradwire.traces.framing.aggregation import PacketKind
from tests.real.forged import BIG, ELEMENTS, SLOTS, N, data, header, two_level_plan
from tests.real.inside import inside
from tests.real.members import summing
from tests.real.test_faults import descendants, is_repeating, processes, wait_until
from tests.real.timely import PATIENCE_S, in_time

pytestmark = pytest.mark.real

UDP_SEGMENT = 103  # linux/udp.h
MOST_S = 5  # after which whoever waits for a rank knows of its death
RESTARTED_AFTER, KILLED_AFTER = (1, 3, 2 * SLOTS - 2, 50), (3, 50)
AT_ONCE = 3
UnderWay = dict[tuple[str, int], Future[list[Any]]]


def stopped(rank: int) -> list[Any]:
    """A member stops in mid-tensor: what the others complain of, and after how long."""
    with summing(two_level_plan()) as members:
        began = [0.0]

        def disturb(turn: int) -> None:
            if members.workers[rank].counts().received > 100 and not members.stopped:
                members.stopped = {rank}
                began[0] = time.monotonic()

        complaints = members.add_up(data(1), disturb)
        return [complaints, time.monotonic() - began[0]]


def test_who_stands_still_in_mid_tensor_is_named_at_both_levels_within_five_seconds() -> None:
    complaints, seconds = in_time(lambda: inside(stopped, 3), lambda seen: seen[1] < MOST_S)
    still = "a sum of aggregation job 1 has made no progress for 3.5 s: nothing comes from "
    some = f"{still}some of ranks 2, 3"
    assert complaints == {"0": some, "1": some, "2": f"{still}rank 3"}
    assert 3.5 <= seconds < MOST_S


def restarted(after: int) -> list[Any]:
    """A rank's process begins again, with the same numbers, after this many chunks: complaints, received."""
    with summing(two_level_plan()) as members:
        numbers_of = data(1)
        anew: list[Floats] = []

        def disturb(turn: int) -> None:
            if members.workers[3].counts().received >= after and not anew:
                members.begin_anew(3)
                anew.append(np.full(N, np.nan, np.float32))
                members.workers[3].begin(numbers_of[3], anew[0], N)
                members.into[3] = anew[0]

        complaints = members.add_up(numbers_of, disturb)
        return [complaints, bool(anew)]


@pytest.mark.untimed
@pytest.mark.parametrize("after", RESTARTED_AFTER)
def test_a_rank_that_begins_anew_gets_a_right_sum_or_ends_the_job_with_a_reason(
    after: int, under_way: UnderWay
) -> None:
    complaints, is_anew = under_way["restarted", after].result()
    assert is_anew
    assert not [text for text in complaints.values() if "wrong" in text or "hangs" in text], complaints


def agent_killed(after: int) -> list[Any]:
    """The switches' agent is killed in mid-tensor, and another one takes its place."""
    with summing(two_level_plan()) as members:
        killed: list[int] = []

        def disturb(turn: int) -> None:
            if members.workers[0].counts().received >= after and not killed:
                members.replace_agent()
                killed.append(turn)

        complaints = members.add_up(data(1), disturb)
        return [complaints, bool(killed)]


@pytest.fixture(scope="module")
def under_way() -> Iterator[UnderWay]:
    """What goes wrong in mid-tensor takes the patience of a worker, 3.5 s: several do so at once."""
    cases = [("restarted", restarted, after) for after in RESTARTED_AFTER]
    cases += [("killed", agent_killed, after) for after in KILLED_AFTER]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {(name, after): pool.submit(inside, function, after) for name, function, after in cases}


@pytest.mark.untimed
@pytest.mark.parametrize("after", KILLED_AFTER)
def test_switches_that_begin_anew_in_mid_tensor_end_the_job_with_a_reason_or_a_right_sum(
    after: int, under_way: UnderWay
) -> None:
    complaints, is_killed = under_way["killed", after].result()
    assert is_killed
    assert not [text for text in complaints.values() if "wrong" in text or "hangs" in text], complaints


def super_packets() -> dict[str, int]:
    """A member's packets that its cable carries as one: of four contributions, of the pieces of one."""
    with summing(two_level_plan()) as members:
        octets = header(PacketKind.CONTRIBUTION, 0, ELEMENTS) + BIG
        link = members.sockets[0]
        for nbytes, payload in ((len(octets), octets * 4), (len(octets) // 3 + 1, octets)):
            link.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, nbytes)
            for _ in range(10):
                link.send(payload)
        wait_until(lambda: members.counted()["leaf0"]["contributions"] >= 20, PATIENCE_S)
        counts = members.counted()["leaf0"]
        return {event: n for event, n in counts.items() if n}


@pytest.mark.untimed
def test_a_super_packet_is_refused_whole() -> None:
    assert inside(super_packets) == {"contributions": 20, "malformed": 20}


def n_sent_nbytes(pid: int) -> int:
    """By the interface of the process's host."""
    lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()
    return sum(int(line.split()[9]) for line in lines if "eth0" in line)


@pytest.mark.parametrize(
    ("number", "named"),
    [
        (signal.SIGKILL, r"the agent of rank 3 on h3 \(process \d+\) was killed \(SIGKILL\)$"),
        (signal.SIGSTOP, r"rank 2: a sum of .* has made no progress for 3\.5 s: nothing comes from rank 3$"),
    ],
)
def test_a_worker_that_dies_or_stops_in_a_run_ends_it_with_its_name_within_five_seconds(
    number: signal.Signals, named: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """On two levels: ranks 0 and 1 can only say that ranks 2 and 3 are not both there."""
    said, seconds = in_time(
        lambda: ended_by(number, tmp_path_factory.mktemp("runs")), lambda seen: seen[1] < MOST_S
    )
    *_, line = [line for line in said.splitlines() if line.startswith("gradwire:")]  # after its progress
    assert re.search(named, line), line
    assert seconds < MOST_S


def ended_by(number: signal.Signals, runs: Path) -> tuple[str, float]:
    """What a command says whose rank 3 gets a signal in mid-tensor, and how long after that it has ended."""
    command = python("gradwire.tools", "bench", "allreduce", "-b", "64MiB", "--repeat", "5")
    command += ["--fabric", "leaf-spine:leaves=2,spines=1,hosts=2,rate=50M"]
    command += ["--algorithm", "ina", "--out", str(runs)]
    process = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: is_repeating(runs), 60)
        below = descendants(process.pid)
        agents = sorted(
            pid for pid, name in below.items() if "gradwire.emu.session" in name and "unshare" not in name
        )
        wait_until(lambda: n_sent_nbytes(agents[-1]) > 1 << 20, 60)
        began = time.monotonic()
        os.kill(agents[-1], number)
        _, said = process.communicate(timeout=30)
        seconds = time.monotonic() - began
    finally:
        process.kill()
        process.communicate()
    wait_until(lambda: not set(below) & set(processes()), PATIENCE_S)
    return said, seconds
