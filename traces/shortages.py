"""What the system says where a limit is reached, and how the limit is raised: the end of an error's line."""

import re

NO_MEMORY = (
    "not enough memory in the machine, or within this process's limit (ulimit -v, a container's limit): "
    "give it more memory, or less to do"
)
_MEMORY = "give it more memory, or less to do (ulimit -v, a container's limit)"
_WORDS = (  # strerror(3) of glibc, and others' own
    ("Too many open files in system", "raise the machine's limit of open files (sysctl fs.file-max)"),
    ("Too many open files", "raise the limit of open files (ulimit -n)"),
    ("File too large", "raise the limit of a file's size (ulimit -f)"),
    ("Cannot allocate memory", _MEMORY),
    ("Memory allocation still failed", _MEMORY),  # OpenBLAS
    ("MemoryError", _MEMORY),
    ("can't start new thread", "raise the limit of processes (ulimit -u) or of memory (ulimit -v)"),
)
_NUMBER = re.compile(r"\[Errno \d+\] ")  # Python's, before the system's own words


def advice(text: str) -> str:
    """How the limit is raised that an error's text is about; empty if it is about none, or says it itself."""
    if "ulimit" in text:
        return ""
    return next((how for words, how in _WORDS if words in text), "")


def advised(text: str) -> str:
    """An error's text with `advice` at its end, and without Python's numbers of the system's errors."""
    text = _NUMBER.sub("", text)
    how = advice(text)
    return f"{text.rstrip('.')}: {how}" if how else text
