"""Results written to files, whole or not at all."""

from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write `text` beside `path` first: an error leaves no half a file, and an older one as it was."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
