"""Ports are numbered as documented; the refusals are tested through `planning.fabrics.fabricfile`."""

import pytest

from gradwire.planning.fabrics.cabling import BadCabling, Cable, cabled, check_nodes
from gradwire.planning.fabrics.fabric import Wire

WIRE = Wire(10**8)


def test_a_port_that_a_later_line_names_is_kept_for_it() -> None:
    cables = [
        Cable(0, "h0", None, "s0", None, WIRE),
        Cable(1, "s0", None, "s1", None, WIRE),
        Cable(2, "h1", None, "s1", None, WIRE),
        Cable(3, "s0", 2, "s1", 1, WIRE),
    ]
    links = cabled(["h0", "h1"], ["s0", "s1"], cables)
    assert [(link.a_port, link.b_port) for link in links] == [(0, 1), (3, 2), (0, 3), (2, 1)]


def test_an_error_knows_its_place() -> None:
    with pytest.raises(BadCabling) as caught:
        cabled(["h0", "h1"], ["s0"], [Cable(5, "h0", None, "s9", None, WIRE)])
    assert caught.value.place == ("links", 5)
    with pytest.raises(BadCabling) as caught:
        check_nodes(["h0", "h1"], ["s0", "s0"])
    assert caught.value.place == ("switches",)
