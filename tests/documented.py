"""What docs/schemas.md lists: for the tests that compare it with what is written."""

import re
from pathlib import Path

SCHEMAS = (Path(__file__).parents[1] / "docs" / "schemas.md").read_text()


def documented_fields(heading: str) -> set[str]:
    """The names in the first column of a section's table; an address such as `a.b` counts as it stands."""
    section = SCHEMAS.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    first_cells = re.findall(r"^\|([^|]*)\|", section, re.MULTILINE)
    return {name for cell in first_cells for name in re.findall(r"`([\w.]+)`", cell)}
