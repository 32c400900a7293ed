"""Cables with a rate of their own: `rate@h0=800M`, `rate@leaf0-spine1=40M`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from gradwire.planning.fabrics.fabric import Wire

KEY = "rate@"
SHOWN = 40  # letters of a name that does not exist

Cables = Sequence[tuple[str, str, Wire]]


def with_own_rates(hosts: Collection[str], cables: Cables, rates_bps: Mapping[str, int]) -> Cables:
    """The cables, those named in `rates_bps` with the rate given there.

    A cable's name is its host's, or those of both ends with a hyphen between them, in either order.  Raise
    ValueError for a name that no cable has, and for two of one cable.
    """
    number: dict[str, int] = {}
    for i, (a, b, _) in enumerate(cables):
        number |= {f"{a}-{b}": i, f"{b}-{a}": i}
        number |= {end: i for end in (a, b) if end in hosts}
    named: dict[int, str] = {}
    for name in rates_bps:
        if name not in number:
            raise ValueError(_unknown(name, hosts, cables))
        if number[name] in named:
            raise ValueError(f"{KEY}{named[number[name]]} and {KEY}{name} are one cable: give one of them")
        named[number[name]] = name
    return [
        (a, b, replace(wire, rate_bps=rates_bps[named[i]]) if i in named else wire)
        for i, (a, b, wire) in enumerate(cables)
    ]


def _unknown(name: str, hosts: Collection[str], cables: Cables) -> str:
    """One line that names the nearest: of what an end that exists is cabled to, else of all."""
    first, hyphen, _ = name.partition("-")
    at_first = _names(hosts, cables, first)
    if not hyphen and at_first:
        like = f"{KEY}{_nearest(name, at_first)}="
        return f"{name} is a switch: name both ends of one of its cables, as in {like}"
    if not hyphen:
        return f"there is no host {name[:SHOWN]!r}; the nearest is {_nearest(name, hosts)}"
    nearest = _nearest(name, at_first or _names(hosts, cables))
    return f"there is no cable {name[:SHOWN]!r}; the nearest is {nearest}"


def _names(hosts: Collection[str], cables: Cables, end: str | None = None) -> list[str]:
    """Those of all cables between switches, or of all at one end, that end first."""
    if end is None:
        return [f"{a}-{b}" for a, b, _ in cables if a not in hosts] or list(hosts)
    return [f"{end}-{b if end == a else a}" for a, b, _ in cables if end in (a, b)]


def _nearest(name: str, names: Collection[str]) -> str:
    return get_close_matches(name[:SHOWN], names, n=1, cutoff=0)[0]


def own_rates(hosts: Collection[str], usual: Cables, cables: Cables) -> dict[str, int]:
    """The rates that differ from the usual ones, by the names of their cables, in the cables' order."""
    return {
        (a if a in hosts else b if b in hosts else f"{a}-{b}"): wire.rate_bps
        for (a, b, wire), (_, _, other) in zip(cables, usual, strict=True)
        if wire.rate_bps != other.rate_bps
    }
