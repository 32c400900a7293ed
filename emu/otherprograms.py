"""Which programs beside a run used the processors, and how much.

A run's own namespaces hide them: it reads the /proc of whoever started it, which it was handed open
(emu.kernel.isolate).  proc_pid_stat(5) has the fields.  A container's /proc hides those outside as well, but
/proc/stat counts what all of them used; what nobody here used is theirs.
"""

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple

from gradwire.emu import sampler
from gradwire.emu.kernel.isolate import HOST_PROC

LEAST_SHARE = 0.03  # of all processors; who used less is not named
OUTSIDE = "programs outside this container"
MOST_LETTERS = 40  # of a name
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of linux/sched.h
_STAT_NBYTES = 1024
_OURS = "interpreter.py"  # emu/interpreter.py, which runs a module
_INTERPRETERS = ("node", "python", "java", "perl", "ruby", "bash", "sh")


@dataclass(frozen=True, slots=True)
class Use:
    """What a program had of all processors, 0 to 1; several processes of one name are one."""

    program: str
    share: float


Process = tuple[int, int]  # its number, and when it began


class Ticks(NamedTuple):
    """What a process has used; and with children that it has waited for, in user mode alone and in all."""

    ticks: int
    user_ticks: int
    with_children: int


NO_TICKS = Ticks(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Reading:
    """Ticks of all processors since the machine started, and those in user mode; those of each process, by
    its number and start.  `is_whole` where /proc shows the kernel's own threads, so every process there is.
    """

    total_ticks: int
    user_ticks: int
    ticks: Mapping[Process, Ticks]
    is_whole: bool = True


def host_proc() -> int | None:
    """The folder that this process was handed; None if it was handed none."""
    number = os.environ.get(HOST_PROC, "")
    return int(number) if number.isdecimal() else None


def reading(proc: int) -> Reading:
    """Of all processes but the kernel's own."""
    machine, processes = sampler.machine(), dict(_processes(proc))
    ours = {key: ticks for key, ticks in processes.items() if ticks is not None}
    return Reading(machine.total_ticks, machine.user_ticks, ours, len(ours) < len(processes))


def used(proc: int, before: Reading, after: Reading) -> tuple[Use, ...]:
    """By programs that are not in this process's own PID namespace, who used most first."""
    total = max(1, after.total_ticks - before.total_ticks)
    ours = os.readlink("/proc/self/ns/pid")
    by_name: Counter[str] = Counter()
    for process, ticks in after.ticks.items():
        mine = ticks.ticks - before.ticks.get(process, NO_TICKS).ticks
        if mine / total >= LEAST_SHARE / 10 and (name := _foreign_name(proc, process[0], ours)):
            by_name[name] += mine
    by_name[OUTSIDE] += hidden_ticks(before, after)
    return tuple(
        Use(name, ticks / total) for name, ticks in by_name.most_common() if ticks / total >= LEAST_SHARE
    )


def hidden_ticks(before: Reading, after: Reading) -> int:
    """The least that processes used which /proc does not show.

    Time in user mode alone is compared: the rest is also the kernel's own threads', which a container does
    not show either.
    """
    if after.is_whole:
        return 0
    seen = sum(
        ticks.user_ticks - before.ticks.get(process, NO_TICKS).user_ticks
        for process, ticks in after.ticks.items()
    )
    return max(0, after.user_ticks - before.user_ticks - seen)


def read_with_beside(proc: int) -> tuple[Reading, frozenset[Process]]:
    """And which processes are not in this process's own PID namespace."""
    ours = os.readlink("/proc/self/ns/pid")
    found = reading(proc)
    return found, frozenset(process for process in found.ticks if _is_foreign(proc, process[0], ours))


def share_beside(
    before: tuple[Reading, frozenset[Process]], after: tuple[Reading, frozenset[Process]]
) -> float:
    """What all programs beside this namespace had, 0 to 1: also those that ended meanwhile, by the time of
    whoever waited for them, and what a container hides.
    """
    (first, beside_first), (last, beside_last) = before, after
    own_ticks = ended_ticks = 0
    for process in beside_last:
        had, has = first.ticks.get(process, NO_TICKS), last.ticks[process]
        own_ticks += has.ticks - had.ticks
        ended_ticks += (has.with_children - has.ticks) - (had.with_children - had.ticks)
    # Whoever waits for a process gets all its time, of which some was before.
    gone_ticks = sum(first.ticks[process].with_children for process in beside_first - beside_last)
    found = own_ticks + max(0, ended_ticks - gone_ticks) + hidden_ticks(first, last)
    return found / max(1, last.total_ticks - first.total_ticks)


def _processes(proc: int) -> Iterator[tuple[Process, Ticks | None]]:
    for name in os.listdir(proc):
        if not name.isdecimal():
            continue
        with suppress(OSError):  # it has ended meanwhile
            start, ticks = parse_stat(_read(proc, f"{name}/stat", _STAT_NBYTES))
            yield (int(name), start), ticks


def parse_stat(stat: bytes) -> tuple[int, Ticks | None]:
    """When a process began, and what it has used; None for the kernel's own.

    Its name, in brackets, may have any character.
    """
    fields = stat[stat.rindex(b")") + 2 :].split()
    user, system, childrens_user, childrens_system = (int(field) for field in fields[11:15])
    if int(fields[6]) & _KERNEL_THREAD:
        return int(fields[19]), None
    with_children = user + system + childrens_user + childrens_system
    return int(fields[19]), Ticks(user + system, user + childrens_user, with_children)


def _is_foreign(proc: int, pid: int, ours: str) -> bool:
    with suppress(OSError):  # it has ended meanwhile
        return os.readlink(f"{pid}/ns/pid", dir_fd=proc) != ours
    return False


def _foreign_name(proc: int, pid: int, ours: str) -> str:
    """Empty for a process of this namespace, and for one that has ended."""
    with suppress(OSError):
        if os.readlink(f"{pid}/ns/pid", dir_fd=proc) != ours:
            words = _read(proc, f"{pid}/cmdline", _STAT_NBYTES).decode(errors="replace").split("\0")
            return program_name(
                _read(proc, f"{pid}/comm", _STAT_NBYTES).decode(errors="replace").strip(), words
            )
    return ""


def program_name(command: str, words: list[str]) -> str:
    """`python train.py`: of an interpreter also what it runs, of our own the module, but no code of a command
    line (-c, -e), which may hold a password.  One line, and a short one, whatever it calls itself.
    """
    name = command
    if command.startswith(_INTERPRETERS):
        for before, word in itertools.pairwise(words):
            if word in ("-c", "-e"):
                break
            path = PurePath(word)
            if before == "-m" or (word and not word.startswith("-") and path.name != _OURS):
                name = f"{command} {path.name}"
                break
    clean = "".join(letter if letter.isprintable() else "?" for letter in name)
    return clean if len(clean) <= MOST_LETTERS else f"{clean[: MOST_LETTERS - 1]}…"


def _read(proc: int, path: str, nbytes: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    try:
        return os.read(descriptor, nbytes)
    finally:
        os.close(descriptor)
