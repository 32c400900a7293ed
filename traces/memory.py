"""How much memory this process may take.  An edge module: it reads files of the system.

That is the least of what the machine has (MemAvailable), what limits on the process leave (ulimit -v and -d),
and what its control group and those above leave, by either version of cgroups (cgroup-v2.rst and
cgroup-v1/memory.rst in Linux's Documentation/admin-guide).
"""

import re
import resource
from collections.abc import Iterator
from pathlib import Path

UNKNOWN_NBYTES = 4 << 30  # taken where the system says nothing
_CGROUPS = Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 60  # version 1 writes the largest number that it can hold
# By version: the folder below _CGROUPS, the limit, what is taken, and what of that could be given back.
_FILES = {
    "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    "": ("", "memory.max", "memory.current", "inactive_file"),
}


def free_nbytes() -> int:
    """What this process could take without swapping or being refused."""
    known = [
        *_numbers(r"^MemAvailable: *(\d+) kB$", _text(Path("/proc/meminfo"))),
        *_own_limits(),
        *group_free_nbytes(_CGROUPS, _text(Path("/proc/self/cgroup"))),
    ]
    return max(0, min(known, default=UNKNOWN_NBYTES))


def left_by_limits_nbytes() -> int | None:
    """How many bytes the limits on this process (ulimit -v, -d) leave; None if it has no limit."""
    return min(_own_limits(), default=None)


def _own_limits() -> Iterator[int]:
    status = _text(Path("/proc/self/status"))
    yield from limited_nbytes(resource.getrlimit(resource.RLIMIT_AS)[0], status, "VmSize")
    yield from limited_nbytes(resource.getrlimit(resource.RLIMIT_DATA)[0], status, "VmData")


def limited_nbytes(limit: int, status: str, taken: str) -> Iterator[int]:
    """What a limit of the process leaves; nothing if there is none.  `status` is /proc/self/status."""
    if limit != resource.RLIM_INFINITY:
        yield limit - next(_numbers(rf"^{taken}:\s+(\d+) kB$", status), 0)


def group_free_nbytes(root: Path, membership: str) -> Iterator[int]:
    """What the control groups leave, each with a limit; `membership` is /proc/self/cgroup."""
    for line in membership.splitlines():
        _, _, entry = line.partition(":")
        controllers, _, path = entry.partition(":")
        version = "memory" if "memory" in controllers.split(",") else controllers
        if version not in _FILES:
            continue
        below, limit, usage, inactive = _FILES[version]
        top = root / below
        group = top / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder != top and top not in folder.parents:
                break
            yield from _left_nbytes(folder, limit, usage, inactive)


def _left_nbytes(folder: Path, limit: str, usage: str, inactive: str) -> Iterator[int]:
    allowed, taken = _text(folder / limit).strip(), _text(folder / usage).strip()
    if allowed.isdigit() and taken.isdigit() and int(allowed) < _NO_LIMIT:
        given_back = re.search(rf"^{inactive} (\d+)$", _text(folder / "memory.stat"), re.MULTILINE)
        yield int(allowed) - int(taken) + (int(given_back[1]) if given_back else 0)


def _numbers(pattern: str, text: str) -> Iterator[int]:
    """Bytes, from what is written in kB."""
    yield from (int(kib) * 1024 for kib in re.findall(pattern, text, re.MULTILINE))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
