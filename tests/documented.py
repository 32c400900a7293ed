"""What docs/schemas.md lists: for the tests that compare it with what is written."""

import re
from collections import Counter
from pathlib import Path

SCHEMAS = (Path(__file__).parents[1] / "docs" / "schemas.md").read_text()


def documented_fields(heading: str) -> set[str]:
    """The names in the first column of a section's table; an address such as `a.b` counts as it is written.

    Raise AssertionError for a name that has two rows.
    """
    section = SCHEMAS.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    first_cells = re.findall(r"^\|([^|]*)\|", section, re.MULTILINE)
    names = [name for cell in first_cells for name in re.findall(r"`([\w.]+)`", cell)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    assert not twice, f"{heading}: {twice} have two rows"
    return set(names)
