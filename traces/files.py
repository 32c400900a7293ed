"""Reads files within a bound; writes result files, completely or not at all.  An edge module."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

DEVICES = Path("/dev")
# Never a file that is there already, nor what a link points to: root may write into somebody else's folder.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_at_most(path: Path, most_nbytes: int) -> bytes:
    """The content of a file; one byte more than `most_nbytes` of a larger one, and of what never ends."""
    with path.open("rb") as file:
        return file.read(most_nbytes + 1)


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A text file beside `path` that takes its place when the block ends without an error.

    An error leaves no half a file, and an older one as it was; an OSError names `path`.  Until then the file
    has a name that nobody can guess: no link can wait there, and two writers do not share it.
    """
    with _replacing(path) as descriptor, os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
        yield file


@contextmanager
def _replacing(path: Path) -> Iterator[int]:
    """A descriptor of the new file, to be closed in the block.

    The folder is opened once and everything is done in it by its descriptor: whoever renames it meanwhile,
    and puts a link in its place, moves the result along and leads it nowhere else.  A device, as /dev/stdout,
    is written to: root would replace it for everybody.
    """
    partial = f"gradwire-{secrets.token_hex(8)}.partial"
    if path.absolute().parent in (DEVICES, DEVICES / "fd"):
        yield os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        return
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            descriptor = os.open(partial, _NEW, 0o666, dir_fd=folder)
            try:
                yield descriptor
                os.replace(partial, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                with suppress(OSError):
                    os.unlink(partial, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def appended(path: Path) -> TextIO:
    """A text file to add lines to, made if it is not there; each line is in the file at once.

    Root may write into somebody else's folder: a link there is not followed (OSError, ELOOP), what is not a
    file of its own, such as a FIFO or a second name of another file, is refused (OSError, EPERM).
    """
    try:
        descriptor = os.open(path, _APPEND, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(error.errno, "it is a symbolic link, which is not followed", str(path)) from error
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        os.close(descriptor)
        raise OSError(errno.EPERM, "it is not a regular file, or has other hard links", str(path))
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "a", buffering=1, encoding="utf-8")


def write_whole(path: Path, text: str) -> None:
    """Write all of `text` or nothing."""
    with whole_file(path) as file:
        file.write(text)


def write_whole_bytes(path: Path, octets: bytes) -> None:
    """Write all of `octets` or nothing; an OSError names `path`."""
    with _replacing(path) as descriptor, os.fdopen(descriptor, "wb") as file:
        file.write(octets)


def memory_nbytes() -> int:
    """How much memory the machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
