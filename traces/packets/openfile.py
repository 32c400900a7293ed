"""Opens files to read: plain files, pipes, gzip and zstd."""

from pathlib import Path
from select import POLLIN, poll
from types import TracebackType
from typing import Any, Self

import numpy as np

from gradwire.traces.packets.columns import Octets

_CODECS = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}
_ONCE_MS = 1000  # between two looks for an interrupt
_STEP_NBYTES = 4096  # as much is lost, of what could be unpacked, where a compressed file is cut off


def is_compressed(path: Path) -> bool:
    """By its first bytes.  Raises OSError."""
    with path.open("rb") as file:
        return file.read(2) in _CODECS


class Opened:
    """The bytes of a file, unpacked.  `fault` is why the unpacking ended early, "" if it did not.

    Raises OSError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fault = ""
        self._file = path.open("rb")
        try:
            self._await()
            self._codec = _CODECS.get(self._file.peek(2)[:2])
        except BaseException:
            self._file.close()
            raise
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
            if not self.is_plain:
                self._await()
            came = self._unpacked(view[filled:]) if self._codec else self._file.readinto(view[filled:])
            if not came:
                break
            filled += came
        place.flags.writeable = False
        return place[:filled]

    def _await(self) -> None:
        """Until a pipe has bytes or has ended: an interrupt just before a read does not break it off."""
        waiting = poll()
        waiting.register(self._file, POLLIN)
        while not waiting.poll(_ONCE_MS):
            pass

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
