"""Any fabric can be written as a document, and the document gives the same fabric again."""

import json
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.planning.fabrics.fabric import Fabric, Link, Wire
from gradwire.planning.fabrics.fabricdocument import fabric_of
from gradwire.planning.fabrics.fabricfile import fabric_of_yaml
from gradwire.planning.fabrics.fabricwriter import document_of, yaml_of
from gradwire.planning.fabrics.spec import fabric_from_json, fabric_to_json, parse_fabric

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SPECS = [
    "fat-tree:k=4",
    "fat-tree:k=8,uplink_rate=30M,queue=90KB",
    "fat-tree:k=4,levels=2,rate=12345678,delay=1500ns",
    "bigraph:n=6,m=3,rate=50M",
    "leaf-spine:leaves=5,spines=3,hosts=1",
    "star:hosts=9",
    "star:hosts=9,queue=9014B,mtu=9000",
    "torus:x=3,y=4,rate=50M",
    "mesh:x=2,y=3,host_rate=100M",
]


@pytest.mark.parametrize("spec", SPECS)
def test_a_written_fabric_has_the_nodes_links_and_ports_of_the_original(spec: str) -> None:
    fabric = parse_fabric(spec)
    again = fabric_of_yaml(yaml_of(fabric).encode(), "x")
    assert (again.hosts, again.switches, again.links) == (fabric.hosts, fabric.switches, fabric.links)
    assert again.mtu_nbytes == fabric.mtu_nbytes


def test_regular_cables_are_few_lines() -> None:
    assert len(yaml_of(parse_fabric("leaf-spine:leaves=16,spines=8,hosts=8")).splitlines()) == 5 + 16 + 1


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_fabric_from_a_file_is_whole_in_a_plan(path: Path) -> None:
    fabric = parse_fabric(str(path))
    read_back = json.loads(json.dumps(fabric_to_json(fabric)))
    assert fabric_from_json(read_back) == fabric
    assert hash(fabric_from_json(read_back)) == hash(fabric)


def test_a_plan_names_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is the name of a file; give the file's contents instead"):
        fabric_from_json(str(tmp_path / "lab.yaml"))


WIRE = st.builds(
    Wire,
    rate_bps=st.integers(10**6, 10**11),
    queue_nbytes=st.none() | st.integers(1514, 1 << 30),
    delay_ns=st.integers(0, 10**9),
)


@given(st.data())
def test_ports_and_wires_of_any_kind_are_kept(data: st.DataObject) -> None:
    known = parse_fabric("leaf-spine:leaves=3,spines=2,hosts=2")
    wires = data.draw(st.lists(WIRE, min_size=1, max_size=3))
    links = [
        Link(link.a, link.a_port, link.b, link.b_port, wire.rate_bps, wire.queue_nbytes, wire.delay_ns)
        for link, wire in zip(data.draw(st.permutations(known.links)), cycle(wires), strict=False)
    ]
    if data.draw(st.booleans()):
        links = [
            replace(link, a_port=link.a_port * 3, b_port=link.b_port + 7) if link.a_port else link
            for link in links
        ]
    longest = min([9000, *(wire.queue_nbytes - 14 for wire in wires if wire.queue_nbytes is not None)])
    mtu = data.draw(st.just(1500) | st.integers(1500, longest))
    fabric = Fabric("any", "file", {}, known.hosts, known.switches, tuple(links), mtu)
    assert fabric_of(document_of(fabric)) == fabric
