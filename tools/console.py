"""The console that commands print their tables to, and text made safe for a terminal.

Control characters of files, wires and file names do not reach a terminal: an escape sequence in a file's name
would set its title, wipe it, or write elsewhere on it.
"""

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.segment import Segment

PIPE_COLUMNS = 100  # of a file or a pipe, whatever the terminal beside it
_UNKNOWN = "\ufffd"
_PICTURES = 0x2400  # Unicode's pictures of C0, in their order
_KEPT = "\n\t"
_TURNS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)  # the direction of writing

_TABLE = {
    **{code: chr(_PICTURES + code) for code in range(0x20) if chr(code) not in _KEPT},
    0x7F: "\u2421",
    **dict.fromkeys(range(0x80, 0xA0), _UNKNOWN),  # C1
    **dict.fromkeys(_TURNS, _UNKNOWN),
    0x2028: _UNKNOWN,  # line and paragraph separators
    0x2029: _UNKNOWN,
    **dict.fromkeys(range(0xD800, 0xE000), _UNKNOWN),  # bytes of a name that are not UTF-8
}


def console(stderr: bool = False) -> Console:
    """As wide as the terminal; a file or a pipe gets PIPE_COLUMNS.

    Texts are printed as they are, but for control characters: names from captures and files are not markup.
    """
    to = Console(stderr=stderr, highlight=False, markup=False)
    if not to.is_terminal:
        to.width = PIPE_COLUMNS
    to.push_render_hook(_PlainText())
    return to


class _PlainText(RenderHook):
    """Whatever is printed, its own text goes through `plain`; Rich's colours do not."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """See RenderHook."""
        return [_Plain(renderable) for renderable in renderables]


class _Plain:
    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Its segments; those with `control` are Rich's own, such as a moved cursor."""
        for segment in console.render(self._renderable, options):
            yield segment if segment.control else Segment(plain(segment.text), segment.style)


def plain(text: str) -> str:
    """The text with a visible character in place of each that would control the terminal.

    Line breaks and tabs stay.
    """
    return text.translate(_TABLE)
