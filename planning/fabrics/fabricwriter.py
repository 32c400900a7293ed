"""Writes any fabric as a document that `planning.fabrics.fabricdocument` can read back."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from gradwire.planning.fabrics.fabric import DEFAULT_MTU_NBYTES, Fabric, Link, Wire, cable
from gradwire.planning.fabrics.family import FROM_FILE, exact
from gradwire.planning.fabrics.nodenames import ranges
from gradwire.traces.units import show_ns


def document_of(fabric: Fabric) -> dict[str, Any]:
    """`fabric_of(document_of(fabric))` has the same nodes, links, ports and MTU.

    Its name is the fabric's own, or made of its family and shape.
    """
    usual = Counter(_wire(link) for link in fabric.links).most_common(1)[0][0]
    return {
        "name": _name(fabric),
        "defaults": {"rate": exact(usual.rate_bps), **_differences(usual, Wire(usual.rate_bps))},
        **({} if fabric.mtu_nbytes == DEFAULT_MTU_NBYTES else {"mtu": fabric.mtu_nbytes}),
        "hosts": _short(fabric.hosts),
        "switches": _short(fabric.switches),
        "links": list(_lines(fabric, usual)),
    }


def yaml_of(fabric: Fabric) -> str:
    """The document as YAML, one line for each of its cables or bundles of cables."""
    import yaml  # slow, and fabrics are read more often than written

    text: str = yaml.safe_dump(document_of(fabric), sort_keys=False, default_flow_style=None, width=110)
    return text


def _name(fabric: Fabric) -> str:
    if fabric.family == FROM_FILE:
        return fabric.spec
    return "-".join([fabric.family, *(f"{key}{value}" for key, value in fabric.shape.items())])


def _short(names: Sequence[str]) -> str | list[str]:
    runs = ranges(names)
    return runs[0] if len(runs) == 1 else runs


def _wire(link: Link) -> Wire:
    return Wire(link.rate_bps, link.queue_nbytes, link.delay_ns)


def _differences(wire: Wire, usual: Wire) -> dict[str, str]:
    said = {}
    if wire.rate_bps != usual.rate_bps:
        said["rate"] = exact(wire.rate_bps)
    if wire.queue_nbytes != usual.queue_nbytes:
        said["queue"] = "auto" if wire.queue_nbytes is None else f"{exact(wire.queue_nbytes)}B"
    if wire.delay_ns != usual.delay_ns:
        said["delay"] = show_ns(wire.delay_ns)
    return said


def _lines(fabric: Fabric, usual: Wire) -> Iterator[dict[str, Any]]:
    """The lines of `links`: bundles of cables where the order alone gives the ports, else cable by cable."""
    if fabric.links == cable(fabric.host_set, [(link.a, link.b, _wire(link)) for link in fabric.links]):
        for ends, others, wire in _products(_fans(fabric.links)):
            yield {"a": _short(ends), "b": _short(others), **_differences(wire, usual)}
        return
    for link in fabric.links:
        ports = {"a_port": link.a_port, "b_port": link.b_port}
        yield {"a": link.a, "b": link.b, **ports, **_differences(_wire(link), usual)}


Bundle = tuple[tuple[str, ...], tuple[str, ...], Wire]
"""Cables from each of the first nodes to each of the second, all alike."""


def _fans(links: Sequence[Link]) -> Iterator[Bundle]:
    """Cables that follow each other and have one end in common."""
    ends: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    wire = None
    for link in links:
        if _wire(link) == wire and ends == (link.a,):
            others = (*others, link.b)
        elif _wire(link) == wire and others == (link.b,):
            ends = (*ends, link.a)
        else:
            if wire is not None:
                yield ends, others, wire
            ends, others, wire = (link.a,), (link.b,), _wire(link)
    if wire is not None:
        yield ends, others, wire


def _products(fans: Iterator[Bundle]) -> Iterator[Bundle]:
    """Fans that follow each other, from one node each to the same others, as one bundle."""
    held: Bundle | None = None
    for ends, others, wire in fans:
        if held is not None and held[1:] == (others, wire) and len(ends) == 1:
            held = ((*held[0], *ends), others, wire)
        else:
            if held is not None:
                yield held
            held = (ends, others, wire)
    if held is not None:
        yield held
