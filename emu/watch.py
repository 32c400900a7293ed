"""Watches processes that a run depends on: when one dies, the run learns at once which one."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOOK_S = 1.0  # between two looks at whether a process was stopped
_END_S = 2.0
_STOOD = os.WSTOPPED | os.WCONTINUED | os.WNOHANG


class RunFailed(Exception):
    """A run that cannot be finished; the text is one line: what, where, why."""


@dataclass(frozen=True, slots=True)
class _Watched:
    name: str
    pid: int
    log: Path | None


class Watch:
    """Pipes to listen to, and processes (by pidfd) that must not end meanwhile."""

    def __init__(self) -> None:
        self._watched: dict[int, _Watched] = {}  # by pidfd

    @contextmanager
    def over(self, name: str, pid: int, log: Path | None = None) -> Iterator[None]:
        """Watch a process while this is open; `log` holds what it wrote to stderr."""
        fd = os.pidfd_open(pid)
        self._watched[fd] = _Watched(name, pid, log)
        try:
            yield
        finally:
            del self._watched[fd]
            os.close(fd)

    @property
    def names(self) -> dict[int, str]:
        """The processes watched now, by pid."""
        return {each.pid: each.name for each in self._watched.values()}

    def wait(self, readers: list[Any], timeout_s: float) -> list[Any]:
        """Those of `readers` that can be read within the time.  Raises RunFailed when a process ended."""
        poll = select.poll()
        by_fd = {reader.fileno(): reader for reader in readers}
        for fd in (*by_fd, *self._watched):
            poll.register(fd, select.POLLIN)
        ready = [fd for fd, _ in poll.poll(max(0, int(timeout_s * 1000)))]
        dead = [self._watched[fd] for fd in ready if fd in self._watched]
        if dead:
            raise RunFailed("; ".join(map(_obituary, dead)))
        return [by_fd[fd] for fd in ready]


class SuspensionWatch:
    """Whether a signal has stopped one of some processes or a child of one; asked every `LOOK_S` seconds.

    Such a process would be waited for until somebody sends SIGCONT.  One that two looks in a row find stopped
    counts: a stop that is over at once does no harm, and a debugger's (state t) is meant to end.
    """

    def __init__(self, *pids: int) -> None:
        self._pids = pids
        self._before: set[int] = set()

    def stopped(self) -> int | None:
        """Look once: the number of a process that is stopped, and was at the look before."""
        family = {member for pid in self._pids for member in (pid, *_children(pid))}
        now = {pid for pid in family if _state(pid) == "T"}
        both, self._before = now & self._before, now
        return min(both, default=None)


def is_stopped(pid: int) -> bool:
    """Whether a signal or a debugger has stopped the process (proc(5): state T or t); False if it is gone."""
    return _state(pid) in ("T", "t")


def _state(pid: int) -> str | None:
    """A process's state by proc(5); None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[0]


def _children(pid: int) -> list[int]:
    """Its child processes; empty where the kernel does not list them."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def has_stood(pid: int) -> bool:
    """Whether a process is stopped or, if it is a child of ours, was stopped since this was last asked."""
    if is_stopped(pid):
        return True
    try:
        return os.waitid(os.P_PID, pid, os.WCONTINUED | os.WNOHANG) is not None
    except ChildProcessError:
        return False


def child_that_stood() -> int | None:
    """A child of ours that a signal has stopped, or that goes on after one and nobody has asked for that yet
    (`has_stood`): one call, however many there are.  A debugger's stop does not show here.
    """
    try:
        child = os.waitid(os.P_ALL, 0, _STOOD | os.WNOWAIT)
    except ChildProcessError:
        return None
    return child.si_pid if child else None


def forget_that_it_stood(pid: int) -> None:
    """So that `child_that_stood` shows this one no more, until a signal stops it again."""
    with suppress(ChildProcessError):
        os.waitid(os.P_PID, pid, _STOOD)


def _obituary(watched: _Watched) -> str:
    said = last_line(watched.log) if watched.log else ""
    return f"{watched.name} (process {watched.pid}) {_how_it_ended(watched.pid)}" + (
        f": {said}" if said else ""
    )


def last_line(log: Path) -> str:
    """What a process wrote to stderr last, usually why it ended; empty if it wrote nothing."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def how_it_ended(returncode: int) -> str:
    """In words, how a process ended of which subprocess has this `returncode`."""
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    return f"was killed ({signal.Signals(-returncode).name})"


def _how_it_ended(pid: int) -> str:
    """`how_it_ended`, without taking its exit status from whoever waits for it."""
    status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if status is None:
        return "ended"
    return how_it_ended(status.si_status if status.si_code == os.CLD_EXITED else -status.si_status)


@contextmanager
def running(name: str, command: list[str], log: Path, **popen: Any) -> Iterator["ChildProcess"]:
    """A child process with a text stdin and stdout, its stderr in `log`; ended by its own handle.

    In a session of its own: it does not hear a terminal's Ctrl-C.
    """
    stdin = stdout = subprocess.PIPE
    with log.open("w") as stderr:
        process = subprocess.Popen(
            command, stdin=stdin, stdout=stdout, stderr=stderr, text=True, start_new_session=True, **popen
        )
    child = ChildProcess(name, process, log)
    try:
        yield child
    finally:
        child.end()
        child.close()


@dataclass(frozen=True)
class ChildProcess:
    """A process that was started and talks in single lines."""

    name: str
    process: "subprocess.Popen[str]"
    log: Path

    def end(self) -> None:
        """Ask it to end, and do not ask for long; returns when it is gone."""
        self.process.terminate()
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        """Our ends of its stdin and stdout."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with suppress(BrokenPipeError):
                    pipe.close()

    def tell(self, line: str) -> None:
        assert self.process.stdin
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise RunFailed(self.complaint()) from error

    def await_line(self, word: str, timeout_s: float, watch: Watch) -> None:
        """Read its stdout until the line `word`.

        Raises RunFailed with its own complaint, or when it or a process that `watch` knows ends meanwhile or
        is stopped by a signal.
        """
        assert self.process.stdout
        names = {**watch.names, self.process.pid: self.name}
        suspensions = SuspensionWatch(*names)
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            if not watch.wait([self.process.stdout], min(left_s, LOOK_S)):
                if pid := suspensions.stopped():
                    who = f"{names.get(pid, 'a child of a process of the run')} (process {pid})"
                    raise RunFailed(f"{who} was stopped by a signal: run the command again")
                continue
            line = self.process.stdout.readline()
            if not line:
                raise RunFailed(self.complaint())
            if line.strip() == word:
                return
        raise RunFailed(f"{self.name} did not report {word!r} within {timeout_s:.0f} s")

    def complaint(self) -> str:
        """How it ended, with the last line it wrote to stderr."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_S)
        said = last_line(self.log)
        code = self.process.returncode
        how = "stopped talking" if code is None else how_it_ended(code)
        return f"{self.name} {how}" + (f": {said}" if said else "")
