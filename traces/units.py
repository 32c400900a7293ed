"""Sizes, rates, times, counts, shares and names: parses them as people write them, and prints them."""

import re
from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import TypeVar

Name = TypeVar("Name", bound=str)

MOST_LETTERS = 40  # of a word that is wrong

_SIZE = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}
_TIME_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9}
_SHARE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(?:(%)|/(\d{1,9}))?", re.ASCII)
_BINARY = re.compile(r"\s*(\d{1,12}(?:\.\d{1,9})?)\s*([kKmMgG])\s*")
_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z/]*)\s*")


def _parse(text: str, what: str, endings: tuple[str, ...], example: str) -> int:
    match = _NUMBER.fullmatch(text)
    unit = match[2].lower() if match else None
    for ending in endings:
        if unit is not None and ending and unit.endswith(ending):
            unit = unit.removesuffix(ending)
            break
    if match is None or unit not in _SIZE:
        raise ValueError(f"{text[:MOST_LETTERS]!r} is not a {what}: write it like {example}")
    return int(Fraction(match[1]) * _SIZE[unit])


def parse_nbytes(text: str) -> int:
    """Bytes from `16MiB`, `340k`, `1024`.

    `64K` and `16M` without a B are powers of ten like everywhere else in gradwire.
    """
    return _parse(text, "size", ("b",), "64K, 16MiB or 340008")


def parse_size(text: str) -> int:
    """Bytes from `64K`, `16M` or `1G`, powers of two as nccl-tests has them, and from all that is a size
    elsewhere: `64KiB`, `64kB` (64,000), `1024`.
    """
    match = _BINARY.fullmatch(text)
    if match is None:
        return parse_nbytes(text)
    return int(Fraction(match[1]) * _SIZE[f"{match[2].lower()}i"])


def parse_bps(text: str) -> int:
    """Bits per second from `100M`, `50Mbit/s`, `1G`."""
    return _parse(text, "rate", ("bit/s", "bps", "b/s", "bit"), "50M or 1Gbit/s")


def parse_ns(text: str) -> int:
    """Nanoseconds from `10us`, `0.5ms`, `1s`; only 0 needs no unit."""
    match = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,9})?)\s*(ns|us|µs|ms|s|)\s*", text, re.ASCII)
    if match is None or not (match[2] or Fraction(match[1]) == 0):
        raise ValueError(f"{text[:MOST_LETTERS]!r} is not a time: write it like 10us or 1ms")
    return int(Fraction(match[1]) * _TIME_NS.get(match[2], 1))


def parse_count(what: str, text: str, least: int, most: int) -> int:
    """A whole number from `least` to `most`; `what` begins the error if it is not one."""
    is_count = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    if not (is_count and least <= int(text) <= most):
        raise ValueError(f"{what}: {text[:20]!r} is not a whole number from {least:,} to {most:,}")
    return int(text)


def parse_share(text: str) -> Fraction:
    """A share from `10%`, `0.1` or `1/10`, 0 or more."""
    match = _SHARE.fullmatch(text.strip())
    if match is None or not int(match[3] or 1):
        raise ValueError(f"{text[:MOST_LETTERS]!r} is not a share: write it like 10%, 0.1 or 1/10")
    return Fraction(match[1]) / (100 if match[2] else int(match[3] or 1))


def one_of(what: str, text: str, names: Collection[Name]) -> Name:
    """The one of `names` that `text` is.  Raise ValueError with all of them if it is none."""
    for name in names:
        if name == text:
            return name
    raise ValueError(not_one_of(what, text, names))


def not_one_of(what: str, text: str, names: Collection[str]) -> str:
    """`there is no placement 'lnear' (did you mean linear?); choose from linear, random`."""
    meant = did_you_mean(text, names)
    return f"there is no {what} {text[:MOST_LETTERS]!r}{meant}; choose from {', '.join(names)}"


def no_key(key: str, names: Collection[str]) -> str:
    """`there is no key 'rtae' (did you mean rate?); the keys are rate, queue`."""
    meant = did_you_mean(key, names)
    return f"there is no key {key[:MOST_LETTERS]!r}{meant}; the keys are {', '.join(names)}"


def did_you_mean(text: str, names: Collection[str]) -> str:
    """` (did you mean linear?)`, with the name that is most like `text`; empty if none is like it."""
    from difflib import get_close_matches  # only needed when something is wrong

    nearest = get_close_matches(text[:MOST_LETTERS].lower(), names, n=1)
    return f" (did you mean {nearest[0]}?)" if nearest else ""


def show_ns(time_ns: int) -> str:
    """Nanoseconds in the largest unit that divides them: `10us`, `1500ns`, `0`; `parse_ns` reads it back."""
    for unit in ("s", "ms", "us", "ns"):
        if time_ns and time_ns % _TIME_NS[unit] == 0:
            return f"{time_ns // _TIME_NS[unit]}{unit}"
    return "0"


def show_count(count: int, one: str, many: str = "") -> str:
    """`1 flow`, `1,024 flows`; `many` where an s does not make the plural."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def show_first(some: Sequence[object], most: int, between: str = ", ") -> str:
    """`a, b and 3 more`: the first `most` of them, and how many are left."""
    first = between.join(map(str, some[:most]))
    return f"{first} and {len(some) - most} more" if len(some) > most else first


def show_nbytes(nbytes: float) -> str:
    """Bytes for a person, powers of ten: `28.4 MB`."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.3g} {unit}" if nbytes < 999.5 * size else f"{nbytes / size:.0f} {unit}"
    return f"{nbytes:.0f} B"


def show_bps(rate_bps: float) -> str:
    """Bits per second for a person: `50 Mb/s`."""
    for unit, size in (("Tb/s", 10**12), ("Gb/s", 10**9), ("Mb/s", 10**6), ("kb/s", 10**3)):
        if abs(rate_bps) >= size:
            return f"{rate_bps / size:.4g} {unit}"
    return f"{rate_bps:.0f} b/s"


def show_long(time_ns: int) -> str:
    """Nanoseconds for a person, also if they are days or years: `84.1 ms`, `1.5 hours`, `12.3 years`."""
    seconds = time_ns / 1e9
    for unit, size in (("year", 365.25 * 86400), ("day", 86400), ("hour", 3600)):
        if seconds >= size:
            count = f"{seconds / size:.3g}"
            return f"{count} {unit}{'s' * (count != '1')}"
    return show_s(seconds)


def show_s(seconds: float) -> str:
    """Seconds for a person, three digits: `1.23 s`, `-84.1 ms`."""
    if abs(seconds) >= 1:
        return f"{seconds:.3g} s" if abs(seconds) < 100 else f"{seconds:.0f} s"
    if abs(seconds) >= 1e-3:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} µs"
