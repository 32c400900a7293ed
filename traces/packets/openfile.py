"""Opens files to read: plain files, pipes, gzip and zstd; and limits the memory that reading may take.

That is the least of what the machine has (MemAvailable), what limits on the process leave (ulimit -v and -d),
and what its control group and those above leave, by either version of cgroups (cgroup-v2.rst and
cgroup-v1/memory.rst in Linux's Documentation/admin-guide).
"""

import re
import resource
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from gradwire.traces.packets.columns import Octets

_CODECS = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}
_STEP_NBYTES = 4096  # as much is lost, of what could be unpacked, where a compressed file is cut off
UNKNOWN_NBYTES = 4 << 30  # taken where the system says nothing
_CGROUPS = Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 60  # version 1 writes the largest number that it can hold
# By version: the folder below _CGROUPS, the limit, what is taken, and what of that could be given back.
_FILES = {
    "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    "": ("", "memory.max", "memory.current", "inactive_file"),
}


class Opened:
    """The bytes of a file, unpacked.  `fault` is why the unpacking ended early, "" if it did not.

    Raises OSError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fault = ""
        self._file = path.open("rb")
        self._codec = _CODECS.get(self._file.peek(2)[:2])
        self._source: Any = _unpacking(self._file, self._codec) if self._codec else None
        self._left = memoryview(b"")
        self.is_plain = path.is_file() and not self._codec

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._file.close()

    def mapped(self) -> Octets:
        """All of a plain file, as memory that the system fills and takes back as it needs."""
        return np.asarray(np.memmap(self.path, np.uint8, "r"))

    def read(self, nbytes: int) -> Octets:
        """The next bytes: fewer only at the end."""
        place = np.empty(nbytes, np.uint8)
        view, filled = place.data, 0
        while filled < nbytes:
            came = self._unpacked(view[filled:]) if self._codec else self._file.readinto(view[filled:])
            if not came:
                break
            filled += came
        place.flags.writeable = False
        return place[:filled]

    def _unpacked(self, view: memoryview) -> int:
        """Always in steps of one size, so that what is lost at a fault depends on the file alone."""
        if not self._left and not self.fault:
            try:
                self._left = memoryview(self._source.read(_STEP_NBYTES))
            except (OSError, ValueError):  # pyarrow's errors are of these two kinds
                self.fault = f"what {self._codec} compressed is broken or cut off"
        nbytes = min(len(view), len(self._left))
        view[:nbytes] = self._left[:nbytes]
        self._left = self._left[nbytes:]
        return nbytes


def _unpacking(file: object, codec: str) -> Any:
    import pyarrow as pa  # a fifth of a second, for which plain files need not wait

    return pa.CompressedInputStream(pa.PythonFile(file, "r"), codec)


def free_nbytes() -> int:
    """What this process could take without swapping or being refused."""
    status = _text(Path("/proc/self/status"))
    known = [
        *_numbers(r"^MemAvailable: *(\d+) kB$", _text(Path("/proc/meminfo"))),
        *limited_nbytes(resource.getrlimit(resource.RLIMIT_AS)[0], status, "VmSize"),
        *limited_nbytes(resource.getrlimit(resource.RLIMIT_DATA)[0], status, "VmData"),
        *group_free_nbytes(_CGROUPS, _text(Path("/proc/self/cgroup"))),
    ]
    return max(0, min(known, default=UNKNOWN_NBYTES))


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
