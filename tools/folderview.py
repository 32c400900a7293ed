"""What `gradwire serve` shows of a folder: one path of an address to a file, or to what a folder holds.

A path is followed from the folder's own descriptor, name by name, and never through a symbolic link, so that
nothing outside the folder can be named, whatever others do to the folder meanwhile.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import quote, unquote

from gradwire.tools.console import plain

MOST_ENTRIES = 2_000  # of one folder
_FLAGS = (
    os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
)  # of a pipe nobody waits for the other end


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder in a listing."""

    name: str
    is_folder: bool
    nbytes: int

    @property
    def link(self) -> str:
        """Its address, seen from its folder's.  "./" keeps a colon in it from being taken for a scheme."""
        return f"./{quoted(self.name)}{'/' if self.is_folder else ''}"

    @property
    def shown(self) -> str:
        """Its name as text."""
        return plain(self.name)

    @property
    def is_page(self) -> bool:
        return not self.is_folder and self.name.lower().endswith((".html", ".htm"))


def names_of(address: str) -> tuple[str, ...] | None:
    """The names in the path of an address, of which the last is "" for a folder.

    None if it is not an address of ours, or has a hidden name in it, as "." and ".." are.
    """
    first, *words = address.partition("?")[0].split("/")
    names = tuple(unquote(word, errors="surrogateescape") for word in words)
    bad = any(name.startswith(".") or "/" in name or "\0" in name for name in names)
    return None if first or not names or bad or "" in names[:-1] else names


def quoted(name: str) -> str:
    """A name in an address, also one whose bytes are not UTF-8."""
    return quote(os.fsencode(name), safe="")


@contextmanager
def opened(root: int, names: tuple[str, ...]) -> Iterator[int]:
    """A descriptor of what these names lead to from a folder's.  Raise OSError."""
    fd = os.dup(root)
    try:
        for name in filter(None, names):
            inner = os.open(name, _FLAGS, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def entries(folder: int) -> list[Entry]:
    """Files and folders in it, folders first; without hidden ones, links and devices.  Raise OSError."""
    found: list[Entry] = []
    with os.scandir(folder) as listing:
        for each in listing:
            if len(found) == MOST_ENTRIES:
                break
            if each.name.startswith(".") or not (
                each.is_file(follow_symlinks=False) or each.is_dir(follow_symlinks=False)
            ):
                continue
            size = each.stat(follow_symlinks=False).st_size
            found.append(Entry(each.name, each.is_dir(follow_symlinks=False), size))
    return sorted(found, key=lambda each: (not each.is_folder, each.name))


def is_folder(fd: int) -> bool:
    return stat.S_ISDIR(os.fstat(fd).st_mode)


def file_of(fd: int) -> BinaryIO | None:
    """The regular file behind a descriptor, which stays open when this is closed; None of anything else."""
    return os.fdopen(os.dup(fd), "rb") if stat.S_ISREG(os.fstat(fd).st_mode) else None
