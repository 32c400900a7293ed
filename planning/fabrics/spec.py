"""Fabrics by name: `fat-tree:k=4`, `bigraph:n=8,m=2,rate=50M`, `torus:x=4,y=4`, or `lab.yaml`.

A package adds a family with an entry point in the group `gradwire.fabric`; it cannot replace a built-in.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from gradwire.planning.fabrics.bigraph import bigraph
from gradwire.planning.fabrics.fabric import DEFAULT_MTU_NBYTES, Fabric
from gradwire.planning.fabrics.fabricwriter import document_of
from gradwire.planning.fabrics.families import fat_tree, leaf_spine, star
from gradwire.planning.fabrics.family import DEFAULT_RATE_BPS, FROM_FILE, GRID_KEYS, Family, LinkSpec
from gradwire.planning.fabrics.grids import mesh, torus
from gradwire.planning.fabrics.ownrates import KEY
from gradwire.traces import plugins
from gradwire.traces.plugins import entry_points
from gradwire.traces.units import did_you_mean, not_one_of, parse_bps, parse_nbytes, parse_ns

MAX_SPEC_LENGTH = 200
GROUP = "gradwire.fabric"
SUFFIXES = (".yaml", ".yml")

FAMILIES = {
    "bigraph": Family(
        lambda size, links: bigraph(size["n"], size["m"], links), {"n": None, "m": None}, "bigraph:n=8,m=2"
    ),
    "fat-tree": Family(
        lambda size, links: fat_tree(size["k"], size["levels"], links),
        {"k": None, "levels": 3},
        "fat-tree:k=4",
    ),
    "leaf-spine": Family(
        lambda size, links: leaf_spine(size["leaves"], size["spines"], size["hosts"], links),
        {"leaves": None, "spines": None, "hosts": None},
        "leaf-spine:leaves=4,spines=2,hosts=2",
    ),
    "mesh": Family(
        lambda size, links: mesh(size["x"], size["y"], links),
        {"x": None, "y": None},
        "mesh:x=4,y=4",
        GRID_KEYS,
    ),
    "star": Family(lambda size, links: star(size["hosts"], links), {"hosts": None}, "star:hosts=8"),
    "torus": Family(
        lambda size, links: torus(size["x"], size["y"], links),
        {"x": None, "y": None},
        "torus:x=4,y=4",
        GRID_KEYS,
    ),
}


def family_names() -> tuple[str, ...]:
    """The names of all families: the built-in ones, then those of installed packages by name."""
    offered = {entry.name for entry in entry_points(group=GROUP)}
    return (*FAMILIES, *sorted(offered - set(FAMILIES)))


def _family(name: str) -> Family:
    """Raise ValueError if neither gradwire nor a package offers it, BadPlugin if what that offers is none."""
    if name in FAMILIES:
        return FAMILIES[name]
    for entry in entry_points(group=GROUP, name=name):
        loaded: Any = plugins.loaded(entry)
        if not isinstance(loaded, Family):
            raise plugins.BadPlugin(
                f"{plugins.plugin_name(entry)} is of type {type(loaded).__name__}, not a Family"
            )
        return replace(loaded, build=_checked(entry, loaded))
    raise ValueError(not_one_of("family", name, family_names()))


def _checked(entry: EntryPoint, family: Family) -> Callable[[Mapping[str, int], LinkSpec], Fabric]:
    """The fabrics of a package, held to what those of a file are held to."""
    from gradwire.planning.fabrics.fabricdocument import fabric_of  # see parse_fabric

    def build(sizes: Mapping[str, int], links: LinkSpec) -> Fabric:
        fabric: Any = family.build(sizes, links)
        whose = plugins.plugin_name(entry)
        if not isinstance(fabric, Fabric) or fabric.family != entry.name:
            raise plugins.BadPlugin(f"{whose} makes no Fabric of the family {entry.name}")
        try:
            same = fabric_of(document_of(fabric), name=FROM_FILE)
        except ValueError as error:
            raise plugins.BadPlugin(f"{whose} makes an impossible fabric: {error}") from error
        if (same.hosts, same.links) != (fabric.hosts, fabric.links):
            raise plugins.BadPlugin(f"{whose} numbers ports differently from `build`")
        made: Fabric = fabric
        return made

    return build


def is_file(spec: str) -> bool:
    """Whether a fabric's spec is the name of a file."""
    return spec.lower().endswith(SUFFIXES)


def parse_fabric(text: str) -> Fabric:
    """The fabric that a spec names, or that a YAML file describes (`planning.fabrics.fabricdocument`).

    Of a spec, `parse_fabric(fabric.spec) == fabric`.  Keys that every family takes: `rate=100M` (of the
    hosts' links; in a torus and a mesh of those between switches), `queue=auto` or a size, `delay=0` or a
    time, `mtu=1500` or more.  `uplink_rate=` (between switches; like `rate` unless given) is taken where
    `rate` is the hosts', `host_rate=` (four times `rate` unless given) where it is not.  `rate@h0=` is the
    rate of one host's cable, `rate@leaf0-spine1=` that of the cable between two nodes.  Raise ValueError for
    anything else, OSError for a file that cannot be read.
    """
    shown = text if len(text) <= MAX_SPEC_LENGTH else text[:40] + "…"
    try:
        if is_file(text):
            # Its pydantic models take 40 ms to import, and few fabrics are files.
            from gradwire.planning.fabrics.fabricfile import read_fabric

            return read_fabric(Path(text))
        family, sizes, links = _values(text)
        fabric = family.build(sizes, links)
        if len(fabric.spec) > MAX_SPEC_LENGTH:  # 2.5M is written 2500k: a plan could not be read back
            raise ValueError(
                f"a spec has at most {MAX_SPEC_LENGTH} characters; with its rates written as whole numbers "
                f"this one has {len(fabric.spec)}"
            )
        return fabric
    except ValueError as error:
        raise ValueError(f"fabric {shown!r}: {error}") from error


def fabric_to_json(fabric: Fabric) -> str | dict[str, Any]:
    """The spec that rebuilds it, or of a fabric from a file the whole document."""
    return document_of(fabric) if fabric.family == FROM_FILE else fabric.spec


def fabric_from_json(value: object) -> Fabric:
    """The inverse of `fabric_to_json`.  Raise ValueError (pydantic's ValidationError is one)."""
    if isinstance(value, dict):
        from gradwire.planning.fabrics.fabricdocument import fabric_of  # see parse_fabric

        return fabric_of(value, name=FROM_FILE)
    text = str(value)
    if is_file(text):
        raise ValueError(
            f"fabric {text[:MAX_SPEC_LENGTH]!r} is the name of a file; give the file's contents instead"
        )
    return parse_fabric(text)


def with_automatic_queue(fabric: Fabric) -> Fabric:
    """The same cables with queues that drop nothing."""
    if fabric.family == FROM_FILE:
        return replace(fabric, links=tuple(replace(link, queue_nbytes=None) for link in fabric.links))
    family, sizes, links = _values(fabric.spec)
    return family.build(sizes, replace(links, queue_nbytes=None))


def with_rates(fabric: Fabric, host_bps: int, inner_bps: int | None) -> Fabric:
    """One of a family with these rates of all hosts' cables and, if it has any, of all between switches."""
    family, sizes, links = _values(fabric.spec)
    if family.is_grid:
        rates = replace(links, rate_bps=inner_bps or 0, host_rate_bps=host_bps)
    else:
        rates = replace(links, rate_bps=host_bps, uplink_rate_bps=inner_bps)
    return family.build(sizes, replace(rates, own_rates_bps={}))


def _values(text: str) -> tuple[Family, dict[str, int], LinkSpec]:
    if len(text) > MAX_SPEC_LENGTH:
        raise ValueError(f"a spec has at most {MAX_SPEC_LENGTH} characters, this one has {len(text)}")
    name, _, pairs = text.partition(":")
    family = _family(name)
    values = _keys(name, family, pairs)
    for key in values:
        if key == "uplink_rate" and family.is_grid:
            raise ValueError(
                f"a {name} has no uplink_rate: give rate= for the cables between switches and host_rate= for "
                "the hosts"
            )
        if key not in family.sizes and key not in family.link_keys and not key.startswith(KEY):
            known = ", ".join((*family.sizes, *family.link_keys, f"{KEY}HOST"))
            meant = did_you_mean(key, (*family.sizes, *family.link_keys))
            raise ValueError(f"{name} has no key {key!r}{meant}; its keys are {known}")
    sizes = {}
    for key, default in family.sizes.items():
        if key not in values and default is None:
            raise ValueError(f"{name} needs {key}=, as in {family.example}")
        sizes[key] = _whole(key, values[key]) if key in values else int(default or 0)
    if name == "star" and "uplink_rate" in values:
        raise ValueError("a star has no links between switches, so it takes no uplink_rate")
    return family, sizes, _link_spec(values)


def _keys(name: str, family: Family, text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for part in text.split(",") if text else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or not value:
            raise ValueError(f"{part!r} is not written as key=value{_as_meant(name, family, text)}")
        if key in values:
            raise ValueError(f"{key} is given twice")
        values[key] = value
    return values


def _as_meant(name: str, family: Family, text: str) -> str:
    """`: write fat-tree:k=4`, where the sizes of a family came without their keys."""
    keys = [key for key, default in family.sizes.items() if default is None]
    values = text.split(",")
    if len(values) != len(keys) or not all(value.isascii() and value.isdigit() for value in values):
        return f", as in {family.example}"
    pairs = ",".join(f"{key}={value}" for key, value in zip(keys, values, strict=True))
    return f": write {name}:{pairs}"


def _whole(key: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or len(value) > 9:
        raise ValueError(f"{key} must be a whole number, got {value!r}")
    return int(value)


def _link_spec(values: Mapping[str, str]) -> LinkSpec:
    queue = values.get("queue", "auto")
    return LinkSpec(
        rate_bps=parse_bps(values["rate"]) if "rate" in values else DEFAULT_RATE_BPS,
        uplink_rate_bps=parse_bps(values["uplink_rate"]) if "uplink_rate" in values else None,
        host_rate_bps=parse_bps(values["host_rate"]) if "host_rate" in values else None,
        queue_nbytes=None if queue == "auto" else parse_nbytes(queue),
        delay_ns=parse_ns(values.get("delay", "0")),
        mtu_nbytes=_whole("mtu", values["mtu"]) if "mtu" in values else DEFAULT_MTU_NBYTES,
        own_rates_bps={
            key.removeprefix(KEY): parse_bps(value) for key, value in values.items() if key.startswith(KEY)
        },
    )
