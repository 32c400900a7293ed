"""The processes that keep hosts' namespaces: one for each, alone in new network and mount namespaces.

A program of its own, started as `python -I -S emu/kernel/hostprocesses.py NAME...`: it imports next to
nothing, so that a copy of it is made in a fraction of the time that another program takes to be started.
Each copy writes `NUMBER PID` to stdout when its namespaces are there, its number being that of its name, or
`NUMBER - ` and what the kernel refused.  All end when stdin does.
"""

import ctypes
import os
import sys

_CLONE_NEWNS, _CLONE_NEWNET = 0x20000, 0x40000000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_PR_SET_NAME = 15
_libc = ctypes.CDLL(None, use_errno=True)


def main(names: list[str]) -> None:
    """Make the processes; return when all have ended."""
    for number, name in enumerate(names):
        if not os.fork():
            _keep(number, name)
    os.close(1)
    _await_end_of_stdin()
    for _ in names:
        os.wait()


def _keep(number: int, name: str) -> None:
    """The life of a host's process."""
    try:
        _libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)  # for whoever calls `ps`
        _called("unshare", _CLONE_NEWNET | _CLONE_NEWNS)
        # What is mounted here stays here; the new /sys shows the new network namespace.
        _called("mount", b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
        _called("mount", b"sysfs", b"/sys", b"sysfs", 0, None)
        os.write(1, f"{number} {os.getpid()}\n".encode())
    except OSError as error:
        os.write(1, f"{number} - {error.filename}: {error.strerror}\n".encode())
    os.close(1)
    _await_end_of_stdin()
    os._exit(0)


def _called(function: str, *arguments: object) -> None:
    if getattr(_libc, function)(*arguments):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), function)


def _await_end_of_stdin() -> None:
    while os.read(0, 1):
        pass


if __name__ == "__main__":
    main(sys.argv[1:])
