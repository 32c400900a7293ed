"""What the system says where a limit is reached, and how the limit is raised: the end of an error's line."""

import re

NO_MEMORY = (
    "not enough memory: the machine has too little, or a limit on this process (ulimit -v or -d, or its "
    "container's) is reached: raise the limit, or choose a smaller job"
)
_MEMORY = "raise the memory limit (ulimit -v or -d, or the container's), or choose a smaller job"
_NO_ROOM_FOR_A_LIBRARY = "failed to map segment from shared object"  # glibc's dynamic linker
_WORDS = (  # strerror(3) of glibc, and others' own
    ("Too many open files in system", "raise the machine's limit on open files (sysctl fs.file-max)"),
    ("Too many open files", "raise the limit on open files (ulimit -n)"),
    ("File too large", "raise the limit on file size (ulimit -f)"),
    ("Cannot allocate memory", _MEMORY),
    ("Memory allocation still failed", _MEMORY),  # OpenBLAS
    ("MemoryError", _MEMORY),
    ("can't start new thread", "raise the limit on processes (ulimit -u) or on memory (ulimit -v)"),
)
_NUMBER = re.compile(r"\[Errno \d+\] ")  # Python's, before the system's own words


def advice(text: str) -> str:
    """How the limit is raised that an error's text is about; empty if it is about none, or says it itself."""
    how = next((how for words, how in _WORDS if words in text), "")
    return "" if how in text or "ulimit" in text else how


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether memory was refused, to Python itself or to a shared library that was to be loaded.

    A file system that is mounted noexec refuses the `unmapped_library` in the same words.
    """
    return isinstance(error, MemoryError) or unmapped_library(error) is not None


def unmapped_library(error: BaseException) -> str | None:
    """The shared library that this error says could not be mapped into memory; None if it says no such thing.

    numpy has some words of its own before the dynamic linker's.
    """
    before, words, _ = str(error).partition(f": {_NO_ROOM_FOR_A_LIBRARY}")
    if not isinstance(error, ImportError) or not words:
        return None
    return before.splitlines()[-1].rpartition(": ")[2]


def advised(text: str) -> str:
    """An error's text with `advice` at its end, and without Python's numbers of the system's errors."""
    text = _NUMBER.sub("", text)
    how = advice(text)
    return f"{text.rstrip('.')}: {how}" if how else text
