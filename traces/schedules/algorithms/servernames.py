"""Reads `ps:LAYOUT`, the names of parameter servers' algorithms: `ps:servers=4,chunk=64KiB`."""

from functools import partial
from typing import Any

from gradwire.traces.schedules.algorithm import Algorithm
from gradwire.traces.schedules.algorithms.servers import Layout, closed_form, server_s, server_sends
from gradwire.traces.schedules.kinds import ELEMENT_NBYTES
from gradwire.traces.units import not_one_of, one_of, parse_count, parse_nbytes
from gradwire.traces.workload import MAX_NBYTES

MAX_SERVERS = 512
_LAYOUTS = ("central", "servers=K", "colocated", "hierarchical")
_KEYS = ("servers", "chunk", "keys", "assign", "overlap")
_WORDS: dict[str, dict[str, Any]] = {
    "assign": {"largest-first": "largest-first", "round-robin": "round-robin"},
    "overlap": {"on": True, "off": False},
}


def server_algorithm(values: str) -> Algorithm:
    """The algorithm `ps:VALUES`.  Raise ValueError for values that it cannot have."""
    name = f"ps:{values}"
    try:
        layout = parse_layout(values)
    except ValueError as error:
        raise ValueError(f"algorithm {name!r}: {error}") from None
    return Algorithm(
        name,
        partial(server_sends, layout),
        partial(server_s, layout),
        closed_form(layout),
        servers=layout.further,
        pace=None,
    )


def parse_layout(text: str) -> Layout:
    """Raise ValueError for a key that there is not, for one that is there twice, and for a wrong value."""
    first, *rest = text.split(",")
    chosen: dict[str, Any] = {}
    match first.partition("=")[0]:
        case "central" if first == "central":
            chosen |= {"kind": "servers", "n_servers": 1}
        case "servers":
            chosen["kind"], rest = "servers", [first, *rest]
        case "colocated" | "hierarchical" as kind if first == kind:
            chosen["kind"] = kind
        case _:
            raise ValueError(not_one_of("layout", first, _LAYOUTS))
    for item in rest:
        key, equals, value = item.partition("=")
        one_of("key", key, _KEYS)
        field, read = _read(key, value if equals else None)
        if field in chosen:
            raise ValueError(
                "central has one server: leave servers= out"
                if first == "central" and key == "servers"
                else f"{key} is given twice"
            )
        chosen[field] = read
    if chosen["kind"] == "hierarchical" and "n_servers" in chosen:
        raise ValueError("hierarchical has a server under each first switch: leave servers= out")
    if "assign" in chosen and not chosen.get("keys"):
        raise ValueError("assign says which server gets which key: add keys, or leave it out")
    return Layout(**chosen)


def _read(key: str, value: str | None) -> tuple[str, Any]:
    """The field of Layout that a key is for, and its value."""
    if key == "keys":
        if value is not None:
            raise ValueError("keys takes no value: name their sizes with --keys")
        return "keys", True
    if value is None:
        raise ValueError(f"{key} needs a value: {key}=...")
    if key == "servers":
        return "n_servers", parse_count("servers", value, 1, MAX_SERVERS)
    if key == "chunk":
        return "chunk_nbytes", None if value == "off" else _chunk_nbytes(value)
    return key, _WORDS[key][one_of(key, value, _WORDS[key])]


def _chunk_nbytes(text: str) -> int:
    nbytes = parse_nbytes(text)
    if not ELEMENT_NBYTES <= nbytes <= MAX_NBYTES:
        raise ValueError(
            f"chunk={text} must be from {ELEMENT_NBYTES} bytes to {MAX_NBYTES >> 30} GiB, or off"
        )
    return nbytes
