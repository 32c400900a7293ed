"""Seeds as people write them: numbers and ranges."""

import re
from collections.abc import Sequence

MAX_SEEDS = 1000
_SEEDS = re.compile(r"(\d{1,9})(?:\.\.(\d{1,9}))?")


def parse_seeds(texts: Sequence[str]) -> tuple[int, ...]:
    """The seeds that texts such as `3` and `0..9` name, in order, each once.  Raise ValueError."""
    seeds: dict[int, None] = {}
    for text in texts:
        match = _SEEDS.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a seed: write it like 3 or 0..9")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"{text!r} is empty: write the lower number first")
        if last - first >= MAX_SEEDS or len(seeds) + last - first >= MAX_SEEDS:
            raise ValueError(f"{text!r}: a study has at most {MAX_SEEDS:,} seeds")
        seeds.update(dict.fromkeys(range(first, last + 1)))
    return tuple(seeds)
