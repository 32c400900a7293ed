"""What a lab expects of its cells, in a small grammar.

    ratio <= 1.1
    bounded_by == leaf0->spine1
    time of {algorithm: ring} / time of {algorithm: halving-doubling} >= 3

A side is numbers and quantities (`results.quantities`) with `*` or `/` between them.  A quantity without `of`
is that of each cell in turn; with `of {…}` that of the one cell that has these choices.
"""

import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradwire.results.quantities import QUANTITIES, Quantity, Unit, parse_value, plain_link
from gradwire.traces.units import not_one_of, parse_size

MAX_LENGTH = 500
SELECTORS = ("fabric", "algorithm", "placement", "routes", "size", "job")
COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_COMPARISON = re.compile("<=|>=|==|!=|<|(?<!-)>")  # not the arrow of leaf0->spine1
_TERM = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:%|[a-zA-Zµ]+(?:/s)?)?)|(?P<name>[a-z_]+)(?:\s+of\s*\{(?P<of>[^}]*)\})?)\s*"
)
_NEXT_KEY = re.compile(rf",\s*(?=(?:{'|'.join(SELECTORS)})\s*[:=])")  # a fabric's spec has commas of its own

Selection = Mapping[str, tuple[str, ...]]
"""By choice the texts of which one must fit; `*` in them matches anything."""


@dataclass(frozen=True, slots=True)
class Term:
    """A number, or the quantity `name` of a cell; it divides with `divides`."""

    divides: bool
    number: float = 1.0
    unit: Unit = ""
    name: str = ""
    of: Selection | None = None

    @property
    def quantity(self) -> Quantity:
        return QUANTITIES[self.name]


@dataclass(frozen=True, slots=True)
class Expectation:
    """`left` compared with `right`, or a name with the pattern `named`; of the cells that fit `where`."""

    text: str
    left: tuple[Term, ...]
    comparison: str
    right: tuple[Term, ...] = ()
    named: str = ""
    where: Selection = field(default_factory=dict)

    @property
    def shown(self) -> str:
        return f"{self.text}, where {show_selection(self.where)}" if self.where else self.text

    @property
    def terms(self) -> tuple[Term, ...]:
        """Those with a quantity."""
        return tuple(term for term in (*self.left, *self.right) if term.name)

    @property
    def is_of_each(self) -> bool:
        """Whether it is about each cell in turn, and not only about those that its terms select."""
        return any(term.of is None for term in self.terms)

    @property
    def unit(self) -> str:
        """Of the left side: `s`, `B/s`, empty for a number, a name or a product of units."""
        units = _units(self.left) if not self.named else Counter[str]()
        return next(iter(units)) if list(units.values()) == [1] else ""


def parse_expectation(text: str, where: Selection | None = None) -> Expectation:
    """Raise ValueError for what is not one, with what to write instead."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"an expectation has at most {MAX_LENGTH} characters, this one has {len(text)}")
    text, where = " ".join(text.split()), where or {}
    sign = _COMPARISON.search(text)
    if sign is None:
        raise ValueError(f"{text!r} compares nothing: write it like ratio <= 1.1")
    left = tuple(_terms(text[: sign.start()]))
    rest = text[sign.end() :].strip()
    if any(term.name and term.quantity.unit == "name" for term in left):
        return _of_name(text, left, sign[0], rest, where)
    made = Expectation(text, left, sign[0], tuple(_terms(rest)), where=where)
    _check_units(made)
    return made


def _of_name(text: str, left: tuple[Term, ...], sign: str, named: str, where: Selection) -> Expectation:
    if len(left) != 1 or sign not in ("==", "!=") or not named:
        name = next(term.name for term in left if term.name and term.quantity.unit == "name")
        raise ValueError(f"{text!r}: write {name} == NAME")
    return Expectation(text, left, sign, named=plain_link(named), where=where)


def _terms(side: str) -> Iterator[Term]:
    """The factors of one side."""
    place, divides = 0, False
    while True:
        match = _TERM.match(side, place)
        if match is None:
            raise ValueError(
                f"{side[place:].strip()!r} is neither a number nor a quantity: write it like ratio <= 1.1 or "
                "time of {algorithm: ring} <= 3s"
            )
        yield _term(match, divides)
        place = match.end()
        if place == len(side):
            return
        if side[place] not in "*/":
            raise ValueError(f"{side[place:]!r} after {match[0].strip()!r}: only * and / can be there")
        divides = side[place] == "/"
        place += 1


def _term(match: re.Match[str], divides: bool) -> Term:
    if match["number"]:
        return Term(divides, *parse_value(match["number"]))
    name, of = match["name"], match["of"]
    if name not in QUANTITIES:
        raise ValueError(not_one_of("quantity", name, QUANTITIES))
    return Term(divides, name=name, of=None if of is None else _selection(of))


def _selection(text: str) -> Selection:
    """Of a text such as `algorithm: ring, fabric: fat-tree:k=4,rate=50M`."""
    pairs = (re.split("[:=]", part, maxsplit=1) for part in _NEXT_KEY.split(text))
    return selection_of({pair[0].strip(): [pair[-1].strip()] for pair in pairs})


def selection_of(given: Mapping[str, Sequence[str]]) -> Selection:
    """Raise ValueError for what selects nothing that a cell has."""
    for key, texts in given.items():
        if key not in SELECTORS:
            raise ValueError(not_one_of("choice", key, SELECTORS))
        if not texts or not all(texts):
            raise ValueError(f"{key} has no value; leave it out, or write one")
        for text in texts if key == "size" else ():
            parse_size(text)
    return {key: tuple(texts) for key, texts in given.items()}


def show_selection(selection: Selection) -> str:
    return ", ".join(f"{key}: {' or '.join(texts)}" for key, texts in selection.items())


def _check_units(made: Expectation) -> None:
    """Raise ValueError where nothing can be equal, or where a time is compared with a rate."""
    left, right = _units(made.left), _units(made.right)
    if not made.terms:
        raise ValueError(f"{made.text!r} names no quantity; there are {', '.join(QUANTITIES)}")
    if left != right:
        raise ValueError(
            f"{made.text!r} compares {_show_units(left)} with {_show_units(right)}: write time <= 300ms, "
            "busbw >= 5MB/s or ratio <= 1.1"
        )
    if made.comparison in ("==", "!=") and not all(term.quantity.is_count for term in made.terms):
        raise ValueError(f"{made.text!r}: a measured figure is never exactly equal; use <= or >=")


def _units(terms: Sequence[Term]) -> Counter[str]:
    """How often each unit is in a product."""
    found: Counter[str] = Counter()
    for term in terms:
        unit = term.quantity.unit if term.name else term.unit
        if unit == "name":
            raise ValueError(f"{term.name} is a name: write {term.name} == NAME")
        if unit:
            found[unit] += -1 if term.divides else 1
    return Counter({unit: count for unit, count in found.items() if count})


def _show_units(units: Counter[str]) -> str:
    kinds = {(): "a number", (("s", 1),): "a time", (("B/s", 1),): "a rate"}
    return kinds.get(tuple(units.items()), "a product of units")
