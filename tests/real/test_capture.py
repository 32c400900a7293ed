"""`gradwire capture` as a person calls it: own programs, built-in jobs, and every way to end early."""

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from gradwire.emu.project import PROJECT
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.packets import TCP
from gradwire.traces.reader import open_captures
from gradwire.traces.workload import Collective, load
from tests.real.timely import PATIENCE_S

pytestmark = [pytest.mark.real, pytest.mark.untimed]

SENT_NBYTES = 100_000
RING = f"""
import os, socket
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
names = os.environ["GRADWIRE_HOSTS"].split(",")
assert socket.gethostname() == os.environ["GRADWIRE_HOST"] == names[rank]
server = socket.create_server((names[rank], 5000))
while True:
    try:
        to = socket.create_connection((names[(rank + 1) % world], 5000))
        break
    except ConnectionRefusedError:
        pass
came, _ = server.accept()
to.sendall(bytes({SENT_NBYTES}))
to.shutdown(socket.SHUT_WR)
total = 0
while octets := came.recv(65536):
    total += len(octets)
print("received", total)
"""
NEEDS_TORCH = pytest.mark.skipif(
    find_spec("torch") is None, reason="needs PyTorch: sudo ./gradwire setup --live"
)


def started(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [str(PROJECT / "gradwire"), "capture", "--out", str(folder), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def captured(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """The exit code, stdout, stderr."""
    process = started(folder, *arguments)
    said, complained = process.communicate(timeout=240)
    return process.returncode, said, complained


def payload_nbytes(path: Path, address: str) -> int:
    """What the host at `address` sent by TCP, as its own capture has it; what TCP sent twice counts once."""
    packets = read_capture(path)
    mine = (packets.src == packets.addresses.index(address)) & (packets.protocol == TCP)
    columns = packets.dst, packets.sport, packets.dport, packets.seq, packets.payload_nbytes
    first: dict[tuple[int, ...], int] = {}
    sent: set[tuple[int, ...]] = set()  # what is sent again may be cut otherwise: every byte by itself
    for *stream, seq, nbytes in zip(*(column[mine].tolist() for column in columns), strict=True):
        if nbytes:
            start = (seq - first.setdefault(tuple(stream), seq)) % (1 << 32)
            sent.update((*stream, place % (1 << 32)) for place in range(start, start + nbytes))
    return len(sent)


def processes_about(folder: Path) -> list[int]:
    """Those whose command line names the folder."""
    about = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in path.read_bytes():
                about.append(int(path.parent.name))
        except OSError:  # it has just ended
            continue
    return about


@contextmanager
def endless(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """A capture of a job that has no end, once it runs."""
    process = started(folder, "--ranks", "2", "--", "sh", "-c", "echo begun; sleep 1000")
    work = folder.with_name(folder.name + ".incomplete")
    deadline = time.monotonic() + 60
    try:
        while not all((work / f"out.r{rank}.txt").exists() for rank in range(2)):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_program_of_ones_own_is_captured_at_every_host(tmp_path: Path) -> None:
    """Each of three sends 100,000 bytes to the next; nothing else is on the wire."""
    folder = tmp_path / "ring"
    code, said, complained = captured(folder, "--ranks", "3", "--json", "--", sys.executable, "-c", RING)
    assert code == 0, complained
    listed = json.loads(said)
    assert listed["cut_short"] is None
    assert listed["check"] == {
        "agrees": None,
        "n_compared": 0,
        "nbytes": 0,
        "differences": [],
        "why": "the job wrote no log.rN.json",
    }
    for host in listed["hosts"]:
        assert host["dropped"] == 0
        assert host["captured"] == host["received"] == len(read_capture(folder / host["file"]))
        assert payload_nbytes(folder / host["file"], host["address"]) == SENT_NBYTES
        assert (folder / f"out.r{host['rank']}.txt").read_text() == f"received {SENT_NBYTES}\n"
    longest = max(int(read_capture(path).captured_nbytes.max()) for path in folder.glob("*.pcap"))
    assert longest == 128
    assert not processes_about(folder)


THREE_AT_ONCE = """
import os, socket, time
rank, names = int(os.environ["RANK"]), os.environ["GRADWIRE_HOSTS"].split(",")
if rank == 0:
    to = []
    for name in names[1:]:
        while not to or to[-1].getpeername()[0] != socket.gethostbyname(name):
            try:
                to.append(socket.create_connection((name, 5000)))
            except ConnectionRefusedError:
                pass
    for one in to:
        print(time.time_ns(), flush=True)
        one.sendall(bytes(100_000))
    for one in to:
        one.shutdown(socket.SHUT_WR)
        one.recv(1)
else:
    came, _ = socket.create_server((names[rank], 5000)).accept()
    while came.recv(65536):
        pass
"""


def test_an_index_says_when_what_queued_was_written(tmp_path: Path) -> None:
    """100,000 bytes to each of three others at once, at 20 Mb/s: the second and the third wait for what is
    ahead, and the program's own clock says when they were written.
    """
    folder = tmp_path / "queued"
    star = "star:hosts=4,rate=20M"
    job = ("--", sys.executable, "-c", THREE_AT_ONCE)
    code, _, complained = captured(folder, "--ranks", "4", "--fabric", star, *job)
    assert code == 0, complained
    written_ns = [int(line) for line in (folder / "out.r0.txt").read_text().split()]
    (packets,) = (one for one in open_captures([folder]).captures if one.path.name == "h0.pcap")
    assert packets.queued_ns is not None
    queued_ms, late_ms = [], []
    for number, at_ns in enumerate(written_ns, 1):
        peer = packets.addresses.index(f"10.0.0.{number + 1}")
        (row, *_) = np.flatnonzero((packets.dst == peer) & (packets.payload_nbytes > 0))
        entered_ns = int(packets.time_ns[row] - packets.queued_ns[row])
        late_ms.append((entered_ns - at_ns) / 1e6)
        queued_ms.append(packets.queued_ns[row] / 1e6)
    first, second, third = queued_ms
    assert all(late >= 0 for late in late_ms)
    assert median(late_ms) < 1
    assert first < 1
    assert second > 3
    assert third == pytest.approx(2 * second, rel=0.3)
    assert not (folder / "whole").exists()


def test_jobs_beside_each_other_are_captured_each_in_its_own_right(tmp_path: Path) -> None:
    """Rings of three and of two on five hosts: each capture has its own job alone."""
    folder = tmp_path / "two"
    beside = shlex.join(["--ranks", "2", "--", sys.executable, "-c", RING])
    code, said, complained = captured(
        folder, "--ranks", "3", "--beside", beside, "--json", "--", sys.executable, "-c", RING
    )
    assert code == 0, complained
    first = json.loads(said)
    (second,) = first["captures_beside"]
    assert [host["host"] for host in first["hosts"]] == ["h0", "h1", "h2"]
    assert [host["host"] for host in second["hosts"]] == ["h3", "h4"]
    assert second["folder"] == str(folder / "beside-1")
    assert (first["ranks"], second["ranks"]) == (3, 2)
    assert len(first["beside"]) == len(second["beside"]) == 1
    assert second["beside"][0].endswith("3 ranks")
    for listed, place in ((first, folder), (second, folder / "beside-1")):
        assert json.loads((place / "manifest.json").read_text())["hosts"] == listed["hosts"]
        for host in listed["hosts"]:
            assert payload_nbytes(place / host["file"], host["address"]) == SENT_NBYTES
            assert (place / f"out.r{host['rank']}.txt").read_text() == f"received {SENT_NBYTES}\n"


def test_a_job_beside_that_fails_cuts_all_short_and_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "failing"
    beside = shlex.join(["--ranks", "2", "--", "sh", "-c", "exit 7"])
    code, _, complained = captured(folder, "--ranks", "2", "--beside", beside, "--", "sh", "-c", "sleep 1000")
    assert code == 1
    assert "beside-1: rank 0's command ended with exit code 7" in complained.splitlines()[-1]
    work = folder.with_name(folder.name + ".incomplete")
    assert all((place / "manifest.json").exists() for place in (work, work / "beside-1"))
    assert not processes_about(folder)


def test_a_launcher_on_the_first_host_reaches_the_others_by_the_rsh_that_it_is_given(tmp_path: Path) -> None:
    folder = tmp_path / "once"
    script = 'hostname; $GRADWIRE_RSH -x h2 "hostname; echo" '
    code, _, complained = captured(folder, "--ranks", "3", "--once", "--", "sh", "-c", script + "'two words'")
    assert code == 0, complained
    assert (folder / "out.txt").read_text().split("\n")[:3] == ["h0", "h2", "two words"]


def test_a_rank_that_fails_ends_the_job_and_its_last_words_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "failing"
    script = "if [ $RANK = 1 ]; then echo no data here >&2; exit 7; fi; sleep 1000"
    code, said, complained = captured(folder, "--ranks", "3", "--", "sh", "-c", script)
    assert code == 1
    assert complained.splitlines()[-1] == (
        "gradwire: the job was cut short: rank 1's command ended with exit code 7: no data here"
    )
    assert not folder.exists()
    manifest: dict[str, Any] = json.loads((tmp_path / "failing.incomplete" / "manifest.json").read_text())
    assert "exit code 7" in manifest["cut_short"]
    assert "failing.incomplete" in said


def test_a_log_that_the_packets_do_not_bear_out_fails_the_check_and_keeps_the_evidence(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "wrong"
    log = '{"rank": \'$RANK\', "events": [{"k": "bucket_ready", "it": 0, "t": 1, "n": 40}]}'
    script = f"echo '{log}' >$GRADWIRE_LOG; ping -c 1 -W 5 $MASTER_ADDR"
    code, said, complained = captured(folder, "--ranks", "2", "--", "sh", "-c", script)
    assert code == 3, complained
    assert "CHECK FAILED" in said
    assert (folder / "whole" / "h0.pcap").exists()
    assert json.loads((folder / "manifest.json").read_text())["check"]["agrees"] is False


def test_ctrl_c_keeps_what_was_captured_and_marks_it(tmp_path: Path) -> None:
    folder = tmp_path / "endless"
    with endless(folder) as process:
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 130
    work = tmp_path / "endless.incomplete"
    assert json.loads((work / "manifest.json").read_text())["cut_short"] == "interrupted"
    assert "cut short: interrupted" in said
    assert (work / "h1.pcap").exists()
    assert not processes_about(folder)


def test_sigkill_leaves_no_process_behind(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    with endless(folder) as process:
        process.kill()
        process.wait()
        deadline = time.monotonic() + PATIENCE_S
        while processes_about(folder):
            assert time.monotonic() < deadline, processes_about(folder)
            time.sleep(0.05)


def test_a_job_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    folder = tmp_path / "long"
    code, _, complained = captured(folder, "--limit", "2", "--ranks", "2", "--", "sleep", "1000")
    assert code == 1
    assert "had not ended after 2 s (--limit)" in complained


@NEEDS_TORCH
def test_ddp_from_capture_to_replay(tmp_path: Path) -> None:
    """85,002 float32 parameters: each iteration reduces one bucket of them, on the wire as in the hooks."""
    folder, job = tmp_path / "ddp", tmp_path / "job.workload.json"
    code, said, complained = captured(folder, "ddp", "--model", "mlp", "--ranks", "4", "--iterations", "3")
    assert code == 0, said + complained
    assert "equals the job's own logs (3 entries" in said

    def gradwire(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [str(PROJECT / "gradwire"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)

    assert "4 ranks" in gradwire("inspect", str(folder)).stdout
    assert gradwire("extract", str(folder), "-o", str(job)).returncode == 0
    reduced = [item for item in load(job).items if isinstance(item, Collective) and item.kind == "allreduce"]
    assert [(item.iteration, item.nbytes) for item in reduced] == [(i, 4 * 85_002) for i in range(3)]
    again = (
        "--fabric",
        "star:hosts=4,rate=50M",
        "--compute",
        "none",
        "--iteration",
        "1",
        "--repeat",
        "1",
        "--json",
    )
    done = gradwire("replay", str(job), *again, "--out", str(tmp_path / "runs"))
    assert done.returncode in {0, 3}, done.stderr  # 3: the machine was too busy for its times to be believed
    assert json.loads(done.stdout)[0]["wrong"] == 0


@NEEDS_TORCH
def test_servers_that_answer_at_once_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Two servers and two workers: pushes and pulls in opposite orders, which once waited in a circle."""
    options = ("ps", "--servers", "2", "--workers", "3", "--async", "--iterations", "8", "--limit", "60")
    code, said, complained = captured(tmp_path / "ps", *options)
    assert code == 0, said + complained
    assert "equals the job's own logs (48 entries" in said  # 8 iterations, 3 workers, a push and a pull
