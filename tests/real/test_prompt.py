"""`gradwire up` at a terminal: what Ctrl-C reaches, and what it must not."""

import os
import pty
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from gradwire.emu.project import PROJECT

pytestmark = [pytest.mark.real, pytest.mark.untimed]

PROMPT = "mininet> "
CTRL_C = "\x03"


@dataclass
class Terminal:
    """A person at a terminal in which a command runs."""

    pid: int
    fd: int
    shown: str = ""

    def await_text(self, text: str, again: str = "", timeout_s: float = 30) -> str:
        """What was shown up to and with `text`; what comes later is for the next call.

        `again` is typed at once, and again in silence: readline misses a Ctrl-C just before it waits.
        """
        deadline_s = time.monotonic() + timeout_s
        self.type(again)
        while text not in self.shown:
            assert time.monotonic() < deadline_s, f"no {text!r} within {timeout_s} s, but {self.shown!r}"
            if not select.select([self.fd], [], [], 1.0)[0]:
                self.type(again)
                continue
            try:
                self.shown += os.read(self.fd, 1 << 16).decode()
            except OSError:  # the terminal's other end is closed
                pytest.fail(f"it ended without {text!r}, but with {self.shown!r}")
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def exit_code(self, timeout_s: float = 20) -> int:
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            if select.select([self.fd], [], [], 0.05)[0]:
                with suppress(OSError):
                    os.read(self.fd, 1 << 16)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        raise AssertionError(f"it did not end within {timeout_s} s")


@contextmanager
def terminal(*command: str) -> Iterator[Terminal]:
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(PROJECT)
        os.execv(command[0], command)
    try:
        yield Terminal(pid, fd)
    finally:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(fd)


@pytest.mark.parametrize("builds", [False, True], ids=["while-it-imports", "while-it-builds"])
def test_ctrl_c_before_the_prompt_is_up_takes_everything_down_and_is_no_fault(builds: bool) -> None:
    with terminal(str(PROJECT / "gradwire"), "up", "fat-tree:k=4") as person:
        first = await_child(await_child(person.pid, "unshare"))
        if builds:
            await_child(first)
        namespace = os.readlink(f"/proc/{first}/ns/net")
        person.type(CTRL_C)
        said = person.await_text("gradwire: interrupted", timeout_s=20)
        assert "Traceback" not in said
        assert PROMPT not in said
        assert person.exit_code() == 130
    assert namespace not in {network(int(each.name)) for each in Path("/proc").glob("[0-9]*")}


def await_child(pid: int, program: str = "", timeout_s: float = 30) -> int:
    """The first child of a process, once it has one, that runs `program` if that is given."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with suppress(OSError):
                if not program or Path(f"/proc/{child}/comm").read_text().strip() == program:
                    return int(child)
        time.sleep(0.001)
    raise AssertionError(f"process {pid} has started no {program or 'other'} within {timeout_s} s")


def network(pid: int) -> str:
    """The network namespace of a process; empty if it is gone."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


@pytest.mark.parametrize("switch", ["gradwire", "ovs"])
def test_ctrl_c_stops_what_runs_at_the_prompt_and_nothing_else(switch: str) -> None:
    with terminal(str(PROJECT / "gradwire"), "up", "star:hosts=2", "--switch", switch) as person:
        person.await_text(PROMPT)
        person.await_text(PROMPT, again=CTRL_C)  # at an idle prompt
        person.type("h0 ping h1\n")
        person.await_text("icmp_seq=2")
        person.await_text(PROMPT, again=CTRL_C)
        person.type("iperf h0 h1\n")
        person.await_text("testing TCP")
        person.await_text(PROMPT, again=CTRL_C)
        person.type("h0 echo ready $((1 + 1)); read line; echo got $line $((2 + 2))\n")
        person.await_text("ready 2")
        person.type("a pasted line\n")
        person.await_text("got a pasted line 4")
        person.await_text(PROMPT)
        person.type("py 1/0\n")
        assert "*** ZeroDivisionError: division by zero" in person.await_text(PROMPT)
        person.type("h0 ping -c1 -W2 h1\n")
        assert "1 received, 0% packet loss" in person.await_text(PROMPT)
        person.type("exit\n")
        assert person.exit_code() == 0
