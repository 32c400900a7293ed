"""Results written to files, whole or not at all.  An edge module: it writes files."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

# Never a file that is there already, nor what a link points to: root may write into somebody else's folder.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


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
    """A descriptor of the new file, to be closed in the block."""
    partial = path.with_name(f"gradwire-{secrets.token_hex(8)}.partial")
    try:
        descriptor = os.open(partial, _NEW, 0o666)
        try:
            yield descriptor
            partial.replace(path)
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_whole(path: Path, text: str) -> None:
    """Write all of `text` or nothing."""
    with whole_file(path) as file:
        file.write(text)


def write_whole_bytes(path: Path, octets: bytes) -> None:
    """Write all of `octets` or nothing; an OSError names `path`."""
    with _replacing(path) as descriptor, os.fdopen(descriptor, "wb") as file:
        file.write(octets)
