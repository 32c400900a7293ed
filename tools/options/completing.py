"""What a shell offers for the values of options and arguments.  Typer asks for it when Tab is pressed."""

import re
from collections.abc import Callable, Iterable, Mapping

Completion = Callable[[str], list[tuple[str, str]]]
_OPEN_END = re.compile(r"[A-Z]+$")  # of `ps:LAYOUT`


def completing(
    names: Iterable[str] | Callable[[], Iterable[str]], meanings: Mapping[str, str] | None = None
) -> Completion:
    """Offers these names with their meanings; of `ps:LAYOUT` what comes before the value."""

    def complete(incomplete: str) -> list[tuple[str, str]]:
        known = names() if callable(names) else names
        return [
            (_OPEN_END.sub("", name), (meanings or {}).get(name, ""))
            for name in known
            if name.startswith(incomplete)
        ]

    return complete
