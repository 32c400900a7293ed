"""Fabrics by name: `fat-tree:k=4`, `bigraph:n=8,m=2,rate=50M`, `star:hosts=8`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from emu.bigraph import bigraph
from emu.fabric import Fabric
from emu.family import LinkSpec
from emu.fattree import fat_tree
from emu.leafspine import leaf_spine
from emu.star import star
from traces.units import parse_bps, parse_nbytes

MAX_SPEC_LENGTH = 200
MIN_RATE_BPS = 1_000_000  # below, the shaper's burst and one segment weigh more than what is measured
_LINK_KEYS = ("rate", "uplink_rate", "queue", "delay")


@dataclass(frozen=True, slots=True)
class _Family:
    """`sizes` are the whole numbers it takes, by key, and their defaults (None: must be given)."""

    build: Callable[[Mapping[str, int], LinkSpec], Fabric]
    sizes: Mapping[str, int | None]
    example: str


FAMILIES = {
    "bigraph": _Family(
        lambda size, links: bigraph(size["n"], size["m"], links), {"n": None, "m": None}, "bigraph:n=8,m=2"
    ),
    "fat-tree": _Family(
        lambda size, links: fat_tree(size["k"], size["levels"], links),
        {"k": None, "levels": 3},
        "fat-tree:k=4",
    ),
    "leaf-spine": _Family(
        lambda size, links: leaf_spine(size["leaves"], size["spines"], size["hosts"], links),
        {"leaves": None, "spines": None, "hosts": None},
        "leaf-spine:leaves=4,spines=2,hosts=2",
    ),
    "star": _Family(lambda size, links: star(size["hosts"], links), {"hosts": None}, "star:hosts=8"),
}


def parse_fabric(text: str) -> Fabric:
    """The fabric that a spec names; `parse_fabric(fabric.spec) == fabric`.

    Keys that every family takes: `rate=100M` (of the hosts' links), `uplink_rate=` (between switches;
    like `rate` unless given), `queue=auto` or a size, `delay=0`.  Raise ValueError for anything else.
    """
    shown = text if len(text) <= MAX_SPEC_LENGTH else text[:40] + "…"
    try:
        return _parsed(text)
    except ValueError as error:
        raise ValueError(f"fabric {shown!r}: {error}") from error


def with_automatic_queue(fabric: Fabric) -> Fabric:
    """The same cables with queues that drop nothing."""
    family, _, rest = fabric.spec.partition(":")
    return parse_fabric(
        f"{family}:{','.join(part for part in rest.split(',') if not part.startswith('queue='))}"
    )


def _parsed(text: str) -> Fabric:
    if len(text) > MAX_SPEC_LENGTH:
        raise ValueError(f"a spec has at most {MAX_SPEC_LENGTH} characters, this one {len(text)}")
    if text.lower().endswith((".yaml", ".yml")):
        raise ValueError("a fabric from a YAML file is not supported yet; write a spec like fat-tree:k=4")
    name, _, rest = text.partition(":")
    family = FAMILIES.get(name)
    if family is None:
        raise ValueError(f"no family {name!r}; there are {', '.join(FAMILIES)}")
    values = _keys(rest)
    for key in values:
        if key not in family.sizes and key not in _LINK_KEYS:
            known = ", ".join((*family.sizes, *_LINK_KEYS))
            raise ValueError(f"{name} takes no {key!r}; it takes {known}")
    sizes = {}
    for key, default in family.sizes.items():
        if key not in values and default is None:
            raise ValueError(f"{name} needs {key}=, as in {family.example}")
        sizes[key] = _whole(key, values[key]) if key in values else int(default or 0)
    if name == "star" and "uplink_rate" in values:
        raise ValueError("a star has no links between switches; uplink_rate means nothing")
    return family.build(sizes, _link_spec(values))


def _keys(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for part in text.split(",") if text else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or not value:
            raise ValueError(f"{part!r} is not key=value")
        if key in values:
            raise ValueError(f"{key} is given twice")
        values[key] = value
    return values


def _whole(key: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or len(value) > 9:
        raise ValueError(f"{key} is a whole number, got {value!r}")
    return int(value)


def _link_spec(values: Mapping[str, str]) -> LinkSpec:
    if "delay" in values and values["delay"] not in ("0", "0s", "0ms"):
        raise ValueError(
            f"delay={values['delay']}: links add no delay of their own yet; leave it out or say delay=0"
        )
    queue = values.get("queue", "auto")
    links = LinkSpec(queue_nbytes=None if queue == "auto" else parse_nbytes(queue))
    if "rate" in values:
        links = LinkSpec(parse_bps(values["rate"]), None, links.queue_nbytes)
    if "uplink_rate" in values:
        links = LinkSpec(links.rate_bps, parse_bps(values["uplink_rate"]), links.queue_nbytes)
    for rate_bps in (links.rate_bps, links.uplink_rate_bps):
        if rate_bps is not None and 0 < rate_bps < MIN_RATE_BPS:
            raise ValueError(f"a link's rate is 1M at least, got {rate_bps} bit/s")
    return links
