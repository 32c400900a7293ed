"""Keys: the tensors that a gradient buffer consists of, as parameter servers share them out.

An edge module: it reads files.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from gradwire.traces.units import parse_count

RESNET50 = "resnet50"
MAX_KEYS, MAX_LINE = 100_000, 1000
MAX_LINES = 2 * MAX_KEYS  # empty ones as well
MAX_ELEMENTS = 1 << 38  # of all together: a buffer has at most 2^40 bytes
_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # width and number of the bottlenecks of each
_EXPANSION = 4


class Key(NamedTuple):
    """A tensor, by its name and the number of its elements."""

    name: str
    n_elements: int


def keys_named(text: str) -> tuple[Key, ...]:
    """Those of `resnet50`, or of a file of this name.  Raise ValueError, or OSError for a file, if wrong."""
    return tuple(_resnet50()) if text == RESNET50 else load_keys(Path(text))


def load_keys(path: Path) -> tuple[Key, ...]:
    """The keys of a file with a name and a number of elements in each line.

    Raise ValueError for another file, which names the line, OSError for one that cannot be read.
    """
    keys: list[Key] = []
    n_elements = 0
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), ""), start=1):
            if number > MAX_LINES:
                raise ValueError(f"{path}: a file of keys has at most {MAX_LINES:,} lines")
            words = line.split()
            if not words:
                continue
            if len(words) != 2:
                raise ValueError(f"{path}: line {number} must be a name and a number of elements")
            keys.append(Key(words[0], parse_count(f"{path}: line {number}", words[1], 1, MAX_ELEMENTS)))
            n_elements += keys[-1].n_elements
            if len(keys) > MAX_KEYS or n_elements > MAX_ELEMENTS:
                raise ValueError(
                    f"{path}: line {number}: a file has at most {MAX_KEYS:,} keys, of "
                    f"{MAX_ELEMENTS:,} elements together"
                )
    if not keys:
        raise ValueError(f"{path} has no keys: write a name and a number of elements in each line")
    return tuple(keys)


def scaled(n_elements: Sequence[int], scale: Fraction) -> tuple[int, ...]:
    """The sizes of keys in a buffer of `scale` times the size: their ends are moved, to whole elements."""
    ends, total = [0], 0
    for n in n_elements:
        total += n
        ends.append(max(1, round(total * scale)))
    return tuple(end - start for start, end in pairwise(ends))


def _resnet50() -> Iterator[Key]:
    """161 tensors with 25,557,032 elements (He et al., CVPR 2016, table 1), named as in torchvision."""
    yield Key("conv1.weight", 64 * 3 * 7 * 7)
    yield from _batch_norm("bn1", 64)
    n_in = 64
    for stage, (width, n_blocks) in enumerate(_STAGES, start=1):
        for block in range(n_blocks):
            yield from _bottleneck(f"layer{stage}.{block}", n_in, width, is_first=block == 0)
            n_in = width * _EXPANSION
    yield Key("fc.weight", 1000 * n_in)
    yield Key("fc.bias", 1000)


def _bottleneck(name: str, n_in: int, width: int, *, is_first: bool) -> Iterator[Key]:
    """Convolutions of 1 x 1, 3 x 3 and 1 x 1; the first of a stage has one of 1 x 1 beside them."""
    n_out = width * _EXPANSION
    for number, (size, out) in enumerate(
        ((n_in * width, width), (width * width * 9, width), (width * n_out, n_out)), start=1
    ):
        yield Key(f"{name}.conv{number}.weight", size)
        yield from _batch_norm(f"{name}.bn{number}", out)
    if is_first:
        yield Key(f"{name}.downsample.0.weight", n_in * n_out)
        yield from _batch_norm(f"{name}.downsample.1", n_out)


def _batch_norm(name: str, n_channels: int) -> Iterator[Key]:
    yield Key(f"{name}.weight", n_channels)
    yield Key(f"{name}.bias", n_channels)
