"""The console that commands print their tables to."""

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.segment import Segment

from tools.plaintext import plain

MAX_COLUMNS = 100


def console(stderr: bool = False) -> Console:
    """As wide as the terminal but no wider than a report; a pipe gets the full width.

    Texts are printed as they are, but for control characters: names from captures and files are no markup.
    """
    made = Console(stderr=stderr, highlight=False, markup=False)
    made.width = min(made.width, MAX_COLUMNS) if made.is_terminal else MAX_COLUMNS
    made.push_render_hook(_PlainText())
    return made


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
