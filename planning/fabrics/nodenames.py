"""Ranges of node names: `leaf0..3` is leaf0, leaf1, leaf2, leaf3."""

import re
from collections.abc import Sequence

from gradwire.traces.units import MOST_LETTERS

MAX_NAMES = 8192  # of one list
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_STEM, _NUMBER = r"([A-Za-z_](?:\w*[A-Za-z_])?)", r"(0|[1-9]\d{0,5})"
_RANGE = re.compile(rf"{_STEM}{_NUMBER}\.\.{_NUMBER}", re.ASCII)
_NUMBERED = re.compile(rf"{_STEM}{_NUMBER}", re.ASCII)


def names_of(texts: Sequence[str]) -> tuple[str, ...]:
    """The names in the order in which they are written.

    Raise ValueError for a text that is neither a name nor a range or is too long, and for more than
    MAX_NAMES.
    """
    names: list[str] = []
    for text in texts:
        if len(text) > MOST_LETTERS:
            raise ValueError(
                f"'{text[:MOST_LETTERS]}…' is not a node name: it has {len(text):,} characters, "
                f"{MOST_LETTERS} are allowed"
            )
        match = _RANGE.fullmatch(text)
        if match is not None:
            stem, first, last = match[1], int(match[2]), int(match[3])
            if not 0 <= last - first < MAX_NAMES:
                raise ValueError(f"{text!r} must name 1 to {MAX_NAMES} nodes: write the lower number first")
            names += [f"{stem}{number}" for number in range(first, last + 1)]
        elif _NAME.fullmatch(text):
            names.append(text)
        else:
            raise ValueError(
                f"{text[:40]!r} is not a node name: write one node like leaf0, several like leaf0..3"
            )
        if len(names) > MAX_NAMES:
            raise ValueError(f"one list has more than {MAX_NAMES} names")
    return tuple(names)


def ranges(names: Sequence[str]) -> list[str]:
    """The shortest list of names and ranges that `names_of` turns into these."""
    runs: list[tuple[str, int, int]] = []  # stem, first, last; a name without a number is its own stem
    for name in names:
        match = _NUMBERED.fullmatch(name)
        stem, number = (match[1], int(match[2])) if match else (name, -1)
        if number > 0 and runs and (runs[-1][0], runs[-1][2]) == (stem, number - 1):
            runs[-1] = (stem, runs[-1][1], number)
        else:
            runs.append((stem, number, number))
    return [_written(*run) for run in runs]


def _written(stem: str, first: int, last: int) -> str:
    if first < 0:
        return stem
    return f"{stem}{first}" if first == last else f"{stem}{first}..{last}"
