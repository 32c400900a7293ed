"""Results written to files, whole or not at all.  An edge module: it writes files."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A text file beside `path` that takes its place when the block ends without an error.

    An error leaves no half a file, and an older one as it was; an OSError names `path`.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("w", encoding="utf-8", newline="") as file:
            yield file
        partial.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write all of `text` or nothing."""
    with whole_file(path) as file:
        file.write(text)


def write_whole_bytes(path: Path, octets: bytes) -> None:
    """Write all of `octets` or nothing; an OSError names `path`."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_bytes(octets)
        partial.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
