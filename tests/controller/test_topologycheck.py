"""A topology that is not the controller's is recognised by its ports, whatever a script calls them."""

from types import SimpleNamespace

import pytest

from gradwire.controller.ryu_api import ofp
from gradwire.controller.topologycheck import TopologyCheck, misfit
from gradwire.planning.fabrics.fabric import Fabric, interface
from gradwire.planning.fabrics.spec import FAMILIES, parse_fabric

BIGRAPH = "bigraph:n=8,m=2"  # four switches of a side: a cable to each of them, and two hosts
LEAF_SPINE = "leaf-spine:leaves=4,spines=2,hosts=2"


def ports(fabric: Fabric, switch: str) -> dict[int, bytes]:
    return {number: interface(switch, number).encode() for number in fabric.ports[switch]}


@pytest.mark.parametrize(
    "spec", [BIGRAPH, LEAF_SPINE, "fat-tree:k=4", "fat-tree:k=4,levels=2", "star:hosts=3"]
)
def test_every_switch_of_the_fabric_itself_fits(spec: str) -> None:
    fabric = parse_fabric(spec)
    for switch in fabric.switches:
        here = ports(fabric, switch)
        assert misfit(fabric, switch, here) is None
        padded = {number: name.ljust(16, b"\0") for number, name in here.items()}
        assert misfit(fabric, switch, padded | {ofp.OFPP_LOCAL: b"br0"}) is None


def test_too_few_ports_are_reported_with_both_sides() -> None:
    started = parse_fabric(LEAF_SPINE)
    assert misfit(parse_fabric(BIGRAPH), "upper0", ports(started, "leaf0")) == (
        "dpid 1 has ports 1-4, but upper0 of bigraph:n=8,m=2 has ports 1-6: another topology was started"
    )


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        ((), "no ports"),
        ((2,), "port 2"),
        ((1, 2, 4), "ports 1-2, 4"),
        ((1, 2, 3, 4, 5, 6, 7), "ports 1-7"),
        ((0, 1, 2, 3, 4, 5, 6), "ports 0-6"),
    ],
)
def test_numbers_have_to_be_the_fabrics_to_the_last(numbers: tuple[int, ...], shown: str) -> None:
    wrong = misfit(parse_fabric(BIGRAPH), "upper0", dict.fromkeys(numbers, b""))
    assert wrong is not None
    assert wrong.startswith(f"dpid 1 has {shown}, but upper0 ")


def test_the_same_numbers_under_names_of_another_family_are_reported() -> None:
    """A leaf with two hosts and two spines has as many ports as a core switch of a fat-tree of four pods."""
    fat_tree, started = parse_fabric("fat-tree:k=4"), parse_fabric(LEAF_SPINE)
    first = fat_tree.switches[0]
    assert misfit(fat_tree, first, ports(started, "leaf0")) == (
        f"dpid 1 has the port leaf0-eth1, but is {first} of fat-tree:k=4: another topology was started"
    )


def test_the_names_of_somebodys_own_script_are_no_matter() -> None:
    fabric = parse_fabric(LEAF_SPINE)
    assert misfit(fabric, "leaf0", {n: f"s1-eth{n}".encode() for n in fabric.ports["leaf0"]}) is None
    assert misfit(fabric, "leaf0", dict.fromkeys(fabric.ports["leaf0"], b"\xff\xff")) is None


def test_a_fabric_of_a_file_has_names_of_its_own() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=1,hosts=1")
    named = parse_fabric("leaf-spine:leaves=2,spines=1,hosts=1")
    object.__setattr__(named, "family", "file")
    crossed = ports(fabric, "leaf1")
    assert misfit(fabric, "leaf0", crossed) is not None
    assert misfit(named, "leaf0", crossed) is None


def test_the_names_that_are_ours_are_those_of_the_families_but_the_stars() -> None:
    for family in FAMILIES.values():
        fabric = parse_fabric(family.example)
        for switch in fabric.switches:
            elsewhere = dict.fromkeys(fabric.ports[switch], f"{switch}-eth99".encode())
            assert (misfit(fabric, switch, elsewhere) is None) == (switch == "switch0")


def test_a_switch_is_reported_once_and_again_only_after_it_fitted() -> None:
    fabric, notes = parse_fabric(BIGRAPH), list[str]()
    fit = TopologyCheck(fabric, notes.append)
    wrong = {1: SimpleNamespace(name=b"leaf0-eth1")}
    right = {n: SimpleNamespace(name=name) for n, name in ports(fabric, "upper0").items()}
    assert not fit.admits("upper0", wrong)
    assert not fit.admits("upper0", wrong)
    assert len(notes) == 1
    assert not fit.admits("upper1", wrong)
    assert len(notes) == 2
    assert fit.admits("upper0", right)
    assert not fit.admits("upper0", wrong)
    assert len(notes) == 3
