"""The library that draws the charts of pages: dygraphs, as Debian's package libjs-dygraphs installs it."""

import re
from dataclasses import dataclass
from pathlib import Path

from gradwire import COMMAND

SCRIPT = Path("/usr/share/javascript/dygraphs/dygraph.min.js")
STYLE = Path("/usr/share/javascript/dygraphs/dygraph.min.css")
LICENCE = Path("/usr/share/doc/libjs-dygraphs/copyright")
# Where a browser's developer tools would look for the library's source: beside the page it is not.
SOURCE_MAP = re.compile(r"^(//|/\*)# sourceMappingURL=.*\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Library:
    """What a page must carry: the code, and the notice that its licence (MIT) wants in every copy."""

    script: str
    style: str
    licence: str


def need_library() -> None:
    """Raise FileNotFoundError with what to do about it."""
    for path in (SCRIPT, STYLE, LICENCE):
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} is missing: the page's charts need the Debian package libjs-dygraphs: "
                f"run sudo {COMMAND} setup"
            )


def load_library() -> Library:
    """Raise FileNotFoundError if it is not installed."""
    need_library()
    script, style, licence = (path.read_text(encoding="utf-8") for path in (SCRIPT, STYLE, LICENCE))
    return Library(SOURCE_MAP.sub("", script), SOURCE_MAP.sub("", style), licence)
