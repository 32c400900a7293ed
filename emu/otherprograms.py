"""Which programs beside a run used the processors, and how much.

A run's own namespaces hide them: it reads the /proc of whoever started it, which it was handed open
(emu.network.isolate).  proc_pid_stat(5) has the fields.
"""

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath

from gradwire.emu import sampler

HOST_PROC = "GRADWIRE_HOST_PROC"  # in the environment: the number of the open folder
LEAST_SHARE = 0.03  # of all processors; who used less is not named
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of linux/sched.h
_STAT_NBYTES = 1024
_INTERPRETERS = ("node", "python", "java", "perl", "ruby", "bash", "sh")


@dataclass(frozen=True, slots=True)
class Use:
    """What a program had of all processors, 0 to 1; several processes of one name are one."""

    program: str
    share: float


@dataclass(frozen=True, slots=True)
class Reading:
    """Ticks of all processors since the machine started; those of each process, by its number and start."""

    total_ticks: int
    ticks: Mapping[tuple[int, int], int]


def host_proc() -> int | None:
    """The folder that this process was handed; None if it was handed none."""
    number = os.environ.get(HOST_PROC, "")
    return int(number) if number.isdecimal() else None


def reading(proc: int) -> Reading:
    """Of all processes but the kernel's own."""
    return Reading(sampler.machine().total_ticks, dict(_processes(proc)))


def used(proc: int, before: Reading, after: Reading) -> tuple[Use, ...]:
    """By programs that are not in this process's own PID namespace, who used most first."""
    total = max(1, after.total_ticks - before.total_ticks)
    ours = os.readlink("/proc/self/ns/pid")
    by_name: Counter[str] = Counter()
    for process, ticks in after.ticks.items():
        mine = ticks - before.ticks.get(process, 0)
        if mine / total >= LEAST_SHARE / 10 and (name := _foreign_name(proc, process[0], ours)):
            by_name[name] += mine
    return tuple(
        Use(name, ticks / total) for name, ticks in by_name.most_common() if ticks / total >= LEAST_SHARE
    )


def ticks_beside(proc: int) -> int:
    """Ticks of all programs that are not in this process's own PID namespace, since they began: also of what
    they started that has ended, which counts for who waited for it.
    """
    ours = os.readlink("/proc/self/ns/pid")
    ticks = 0
    for pid, (_, own_ticks, ended_ticks) in _stats(proc):
        with suppress(OSError):
            if os.readlink(f"{pid}/ns/pid", dir_fd=proc) != ours:
                ticks += own_ticks + ended_ticks
    return ticks


def _processes(proc: int) -> Iterator[tuple[tuple[int, int], int]]:
    return (((pid, began), ticks) for pid, (began, ticks, _) in _stats(proc))


def _stats(proc: int) -> Iterator[tuple[int, tuple[int, int, int]]]:
    for name in os.listdir(proc):
        if not name.isdecimal():
            continue
        with suppress(OSError):  # it has ended meanwhile
            fields = parse_stat(_read(proc, f"{name}/stat", _STAT_NBYTES))
            if fields is not None:
                yield int(name), fields


def parse_stat(stat: bytes) -> tuple[int, int, int] | None:
    """When a process began, the ticks that it has used, and those of its children that have ended; None for
    the kernel's own.

    Its name, in brackets, may have any character.
    """
    fields = stat[stat.rindex(b")") + 2 :].split()
    if int(fields[6]) & _KERNEL_THREAD:
        return None
    return int(fields[19]), int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])


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
    """`python train.py`: of an interpreter also what it runs."""
    if not command.startswith(_INTERPRETERS):
        return command
    for before, word in itertools.pairwise(words):
        if before == "-m" or (word and not word.startswith("-")):
            return f"{command} {PurePath(word).name}"
    return command


def _read(proc: int, path: str, nbytes: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    try:
        return os.read(descriptor, nbytes)
    finally:
        os.close(descriptor)
