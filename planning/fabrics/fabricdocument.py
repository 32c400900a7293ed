"""A fabric written out as JSON or YAML: hosts, switches and every cable.

    name: pod
    defaults: {rate: 100M}
    mtu: 9000
    tiers:
      - {a: leaf*, b: spine*, rate: 40M, delay: 10us}
    hosts: h0..7
    switches: [leaf0..3, spine0..1]
    links:
      - {a: h0..1, b: leaf0}
      - {a: leaf0..3, b: spine0..1}

A line of `links` cables every `a` to every `b`.  Rate, queue and delay of a cable are what its own line
says, else the first tier that says it and whose names fit the two ends, either way round, else `defaults`.
The MTU is that of all cables.
"""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from gradwire.planning.fabrics.cabling import BadCabling, Cable, cabled, check_nodes
from gradwire.planning.fabrics.fabric import DEFAULT_MTU_NBYTES, Fabric, Wire
from gradwire.planning.fabrics.family import DEFAULT_RATE_BPS, FROM_FILE, check_mtu, check_size, check_wire
from gradwire.planning.fabrics.nodenames import names_of
from gradwire.traces.units import parse_bps, parse_nbytes, parse_ns

MAX_LINES = 65_536
MAX_TIERS = 20
MAX_PATTERNS = 8
MAX_PORT = 999_999


def _text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{str(value)[:40]!r} is neither a whole number nor text")
    return str(value)


def _several(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _queue(value: object) -> int | None:
    return None if value in (None, "auto") else parse_nbytes(_text(value))


def _mtu(value: int) -> int:
    check_mtu(value)
    return value


Names = Annotated[list[str], Field(min_length=1, max_length=MAX_LINES), BeforeValidator(_several)]
Patterns = Annotated[list[str], Field(min_length=1, max_length=MAX_PATTERNS), BeforeValidator(_several)]
Port = Annotated[int, Field(ge=0, le=MAX_PORT, strict=True)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class WireKeys(_Part):
    """What cables are like, as far as it is said: None, or not among `model_fields_set`."""

    rate: Annotated[int | None, BeforeValidator(lambda value: parse_bps(_text(value)))] = None
    queue: Annotated[int | None, BeforeValidator(_queue)] = None
    delay: Annotated[int | None, BeforeValidator(lambda value: parse_ns(_text(value)))] = None


class Tier(WireKeys):
    """What cables between nodes with such names are like."""

    a: Patterns
    b: Patterns


class LinksLine(WireKeys):
    """A line of `links`: a cable from every `a` to every `b`; ports can be named where that is one cable."""

    a: Names
    b: Names
    a_port: Port | None = None
    b_port: Port | None = None


class FabricDocument(_Part):
    """A fabric as a YAML file describes it: nodes, cables, and what cables have in common."""

    name: Annotated[str, Field(pattern=r"^[\w.-]+( [\w.-]+)*$", max_length=60)] = ""
    defaults: WireKeys = WireKeys()
    mtu: Annotated[int, Field(strict=True), AfterValidator(_mtu)] = DEFAULT_MTU_NBYTES
    tiers: Annotated[list[Tier], Field(max_length=MAX_TIERS)] = []
    hosts: Names
    switches: Names
    links: Annotated[list[LinksLine], Field(min_length=1, max_length=MAX_LINES)]


def fabric_of(value: Any, name: str = "") -> Fabric:
    """The fabric of a parsed document, called `name` if it has none of its own.

    Raise pydantic's ValidationError for what has another form, BadCabling for what cannot be a fabric.
    """
    document = FabricDocument.model_validate(value)
    hosts, switches = _named(document.hosts, "hosts"), _named(document.switches, "switches")
    check_size(len(hosts), 0)
    check_nodes(hosts, switches)
    cables = list(_cables(document, _tiers(document.tiers, (*hosts, *switches))))
    # Dictionaries: looked up as fast as sets, in the order of the document.
    links = cabled(dict.fromkeys(hosts), dict.fromkeys(switches), cables)
    return Fabric(document.name or name, FROM_FILE, {}, hosts, switches, links, document.mtu)


def _named(texts: Sequence[str], *place: str | int) -> tuple[str, ...]:
    try:
        return names_of(texts)
    except ValueError as error:
        raise BadCabling(str(error), *place) from error


NodeTier = tuple[frozenset[str], frozenset[str], WireKeys]


def _tiers(tiers: Sequence[Tier], nodes: Sequence[str]) -> list[NodeTier]:
    """The tiers with the nodes that their patterns name."""
    return [
        (_fitting(tier.a, nodes, line, "a"), _fitting(tier.b, nodes, line, "b"), tier)
        for line, tier in enumerate(tiers)
    ]


def _fitting(patterns: Sequence[str], nodes: Sequence[str], *place: str | int) -> frozenset[str]:
    matching: set[str] = set()
    for pattern in patterns:
        if {"*", "?"}.isdisjoint(pattern):
            fitting = set(nodes).intersection(_named([pattern], "tiers", *place))
        else:
            fitting = {node for node in nodes if fnmatchcase(node, pattern)}
        if not fitting:
            raise BadCabling(f"no node matches {pattern[:40]!r}", "tiers", *place)
        matching |= fitting
    return frozenset(matching)


def _cables(document: FabricDocument, tiers: Sequence[NodeTier]) -> Iterator[Cable]:
    """Every cable, its ports as far as they are named."""
    total = 0
    for line, cables in enumerate(document.links):
        a_names, b_names = _named(cables.a, "links", line, "a"), _named(cables.b, "links", line, "b")
        n_cables = len(a_names) * len(b_names)
        total += n_cables
        check_size(0, total)
        if n_cables > 1 and (cables.a_port, cables.b_port) != (None, None):
            raise BadCabling(
                "this line names a port but makes several cables: leave the port out, or make one cable",
                "links",
                line,
            )
        for a in a_names:
            for b in b_names:
                wire = _wire([cables, *_fitting_tiers(tiers, a, b), document.defaults])
                try:
                    check_wire(wire, document.mtu)
                except ValueError as error:
                    raise BadCabling(f"{a} to {b}: {error}", "links", line) from error
                yield Cable(line, a, cables.a_port, b, cables.b_port, wire)


def _fitting_tiers(tiers: Sequence[NodeTier], a: str, b: str) -> Iterator[WireKeys]:
    for ends, others, keys in tiers:
        if (a in ends and b in others) or (b in ends and a in others):
            yield keys


def _wire(said: Sequence[WireKeys]) -> Wire:
    """Rate, queue and delay, each as the first one says that says it."""
    known: dict[str, int | None] = {"rate": DEFAULT_RATE_BPS, "queue": None, "delay": 0}
    for part in reversed(said):
        known |= {key: getattr(part, key) for key in part.model_fields_set & known.keys()}
    return Wire(known["rate"] or 0, known["queue"], known["delay"] or 0)
