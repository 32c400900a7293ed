"""A spec names exactly one fabric, and the fabric names its spec."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gradwire.planning.fabrics.fabric import Egress, Fabric, interface
from gradwire.planning.fabrics.spec import (
    FAMILIES,
    fabric_from_json,
    fabric_to_json,
    parse_fabric,
    with_automatic_queue,
    with_rates,
)

SPECS = [
    "fat-tree:k=2",
    "fat-tree:k=4",
    "fat-tree:k=8",
    "fat-tree:k=4,levels=2",
    "fat-tree:k=6,levels=2,rate=50M",
    "bigraph:n=2,m=1",
    "bigraph:n=4,m=2",
    "bigraph:n=8,m=2,rate=1G,queue=100kB",
    "bigraph:n=6,m=5,uplink_rate=2500k",
    "leaf-spine:leaves=4,spines=2,hosts=2",
    "leaf-spine:leaves=3,spines=1,hosts=7,rate=12345678,uplink_rate=40M",
    "star:hosts=8",
    "star:hosts=1000,queue=1514B",
    "star:hosts=8,delay=10us",
    "fat-tree:k=4,uplink_rate=40M,delay=1500ns",
    "fat-tree:k=4,levels=2,mtu=9000",
    "bigraph:n=4,m=2,rate=50M,queue=9014B,delay=10us,mtu=9000",
    "leaf-spine:leaves=2,spines=2,hosts=2,mtu=1501",
    "star:hosts=8,mtu=4200",
    "torus:x=4,y=4",
    "torus:x=1,y=2",
    "torus:x=2,y=3,rate=50M",
    "torus:x=32,y=32,rate=50M,host_rate=50M,mtu=9000",
    "mesh:x=4,y=3,rate=40G,host_rate=100G,queue=100kB,delay=10us",
    "star:hosts=8,rate@h0=800M",
    "bigraph:n=4,m=2,rate=50M,mtu=9000,rate@h1=2500k,rate@h6=1G,rate@upper0-lower1=30M",
    "fat-tree:k=4,rate@agg3-core2=40M",
    "torus:x=3,y=3,rate=50M,rate@h4=1G,rate@node0-node6=20M",
]


@pytest.mark.parametrize("spec", SPECS)
def test_a_fabric_carries_the_spec_that_rebuilds_it(spec: str) -> None:
    fabric = parse_fabric(spec)
    assert parse_fabric(fabric.spec) == fabric
    assert fabric.spec == spec  # these are written in canonical form


@pytest.mark.parametrize(
    ("loose", "canonical"),
    [
        ("fat-tree:levels=3,k=4,rate=100M", "fat-tree:k=4"),
        ("bigraph:m=2,n=4,uplink_rate=100Mbit/s,queue=auto,delay=0", "bigraph:n=4,m=2"),
        ("star:hosts=8,rate=0.5G,queue=0.1MB", "star:hosts=8,rate=500M,queue=100kB"),
        ("star:hosts=8,delay=0.01ms", "star:hosts=8,delay=10us"),
        ("star:hosts=8,delay=0ms", "star:hosts=8"),
        ("star:mtu=1500,hosts=8", "star:hosts=8"),
        ("star:mtu=09000,hosts=8,delay=10us", "star:hosts=8,delay=10us,mtu=9000"),
        ("fat-tree: k = 4 , levels = 2", "fat-tree:k=4,levels=2"),
        ("torus:y=3,x=4,host_rate=0.4G", "torus:x=4,y=3"),
        ("mesh:x=4,y=3,host_rate=200M,rate=50M", "mesh:x=4,y=3,rate=50M"),
        ("star:rate@h3=1G, rate@h1 = 0.8G ,hosts=8", "star:hosts=8,rate@h1=800M,rate@h3=1G"),
        ("star:hosts=8,rate@h0=100M", "star:hosts=8"),
        ("star:hosts=8,rate@switch0-h0=5M", "star:hosts=8,rate@h0=5M"),
        ("bigraph:n=4,m=1,rate@lower1-upper0=5M", "bigraph:n=4,m=1,rate@upper0-lower1=5M"),
    ],
)
def test_the_same_fabric_has_one_canonical_spec(loose: str, canonical: str) -> None:
    assert parse_fabric(loose).spec == canonical
    assert parse_fabric(loose) == parse_fabric(canonical)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if not spec.startswith(("torus", "mesh"))])
def test_every_switch_has_its_hosts_on_its_first_ports_in_slot_order(spec: str) -> None:
    fabric = parse_fabric(spec)
    hosts = set(fabric.hosts)
    for switch in fabric.switches:
        peers = [fabric.peers[Egress(switch, port)].node for port in fabric.ports[switch]]
        assert fabric.ports[switch] == tuple(range(1, len(peers) + 1))
        mine = [peer for peer in peers if peer in hosts]
        assert peers[: len(mine)] == mine
        assert mine == sorted(mine, key=fabric.hosts.index)
        uplinks = peers[len(mine) :]
        assert uplinks == sorted(uplinks, key=lambda peer: (_tier(peer), fabric.switches.index(peer)))


def _tier(switch: str) -> int:
    """An aggregation switch has its edges first, then its cores; others have one kind of peer."""
    return 1 if switch.startswith("core") else 0


@pytest.mark.parametrize("k", [2, 4, 6, 8])
def test_a_fat_tree_has_the_numbers_of_al_fares(k: int) -> None:
    fabric = parse_fabric(f"fat-tree:k={k}")
    kinds = Counter(switch.rstrip("0123456789") for switch in fabric.switches)
    assert len(fabric.hosts) == k**3 // 4
    assert kinds == {"edge": k * k // 2, "agg": k * k // 2, "core": k * k // 4}
    assert {len(fabric.ports[switch]) for switch in fabric.switches} == {k}


def test_core_c_reaches_aggregation_switch_c_div_half_k_of_every_pod() -> None:
    fabric = parse_fabric("fat-tree:k=6")
    for core in (switch for switch in fabric.switches if switch.startswith("core")):
        aggs = [int(fabric.peers[Egress(core, p)].node.removeprefix("agg")) for p in fabric.ports[core]]
        assert aggs == [3 * pod + int(core.removeprefix("core")) // 3 for pod in range(6)]


def test_a_two_level_fat_tree_of_k_4_is_the_papers_leaf_spine_2_4_2() -> None:
    tree, clos = parse_fabric("fat-tree:k=4,levels=2"), parse_fabric("leaf-spine:leaves=4,spines=2,hosts=2")
    assert (tree.hosts, tree.switches, tree.links) == (clos.hosts, clos.switches, clos.links)
    assert tree.switches == ("leaf0", "leaf1", "leaf2", "leaf3", "spine0", "spine1")


def test_a_bigraphs_port_m_plus_1_plus_j_leads_to_switch_j_of_the_other_side() -> None:
    fabric = parse_fabric("bigraph:n=6,m=2")
    for side, other in (("upper", "lower"), ("lower", "upper")):
        for i in range(3):
            peers = [fabric.peers[Egress(f"{side}{i}", 3 + j)] for j in range(3)]
            assert peers == [Egress(f"{other}{j}", 3 + i) for j in range(3)]


def test_an_automatic_queue_replaces_a_size_and_nothing_else() -> None:
    spec = "fat-tree:k=4,uplink_rate=40M,queue=20kB,delay=10us,mtu=9000"
    assert with_automatic_queue(parse_fabric(spec)) == parse_fabric(spec.replace("queue=20kB,", ""))
    pod = parse_fabric(str(Path(__file__).parents[2] / "docs" / "examples" / "pod.yaml"))
    assert {link.queue_nbytes for link in pod.links} == {None, 500_000}
    assert {link.queue_nbytes for link in with_automatic_queue(pod).links} == {None}


@pytest.mark.parametrize(
    ("spec", "faster"),
    [
        ("star:hosts=4,rate=50M,mtu=9000", "star:hosts=4,rate=200M,mtu=9000"),
        ("bigraph:n=4,m=2,queue=20kB", "bigraph:n=4,m=2,rate=200M,uplink_rate=30M,queue=20kB"),
        ("torus:x=3,y=2,delay=10us", "torus:x=3,y=2,rate=30M,host_rate=200M,delay=10us"),
    ],
)
def test_rates_of_all_cables_replace_the_rates_and_nothing_else(spec: str, faster: str) -> None:
    made = with_rates(parse_fabric(spec), 200_000_000, None if spec.startswith("star") else 30_000_000)
    assert made == parse_fabric(faster)


@pytest.mark.parametrize("sizes", ["fat-tree:k=4", "bigraph:n=4,m=2", "star:hosts=4"])
def test_fabrics_that_differ_in_their_mtu_are_two_fabrics(sizes: str) -> None:
    plain, jumbo = parse_fabric(sizes), parse_fabric(f"{sizes},mtu=9000")
    assert (plain.mtu_nbytes, jumbo.mtu_nbytes) == (1500, 9000)
    assert plain.links == jumbo.links
    assert plain != jumbo


def test_a_single_cable_has_the_rate_that_is_given_for_it_and_all_others_the_usual() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=2,hosts=2,rate@h3=800M,rate@spine1-leaf0=40M")
    others = {(link.a, link.b): link.rate_bps for link in fabric.links if link.rate_bps != 100_000_000}
    assert others == {("h3", "leaf1"): 800_000_000, ("leaf0", "spine1"): 40_000_000}
    usual = parse_fabric("leaf-spine:leaves=2,spines=2,hosts=2")
    assert [replace(link, rate_bps=100_000_000) for link in fabric.links] == list(usual.links)


def test_an_automatic_queue_keeps_the_rates_of_single_cables() -> None:
    made = with_automatic_queue(parse_fabric("star:hosts=4,queue=20kB,rate@h0=800M"))
    assert made.spec == "star:hosts=4,rate@h0=800M"


def test_rates_of_all_cables_take_the_place_of_those_of_single_ones() -> None:
    fabric = parse_fabric("star:hosts=2,rate@h0=50M,rate@h1=50M")
    assert with_rates(fabric, 70_000_000, None).spec == "star:hosts=2,rate=70M"


def test_a_plan_keeps_the_rates_of_single_cables() -> None:
    fabric = parse_fabric("bigraph:n=4,m=2,rate@h1=800M,rate@upper0-lower1=30M")
    assert fabric_from_json(json.loads(json.dumps(fabric_to_json(fabric)))) == fabric


EXAMPLES = [
    "star:hosts=5",
    "bigraph:n=4,m=2",
    "leaf-spine:leaves=3,spines=2,hosts=2",
    "torus:x=3,y=2",
    "mesh:x=2,y=2",
]
RATES = st.integers(10**6, 10**11)


@given(st.data())
def test_whatever_the_rates_of_single_cables_the_spec_gives_the_same_fabric_again(
    data: st.DataObject,
) -> None:
    usual = parse_fabric(data.draw(st.sampled_from(EXAMPLES)))
    links = data.draw(st.lists(st.sampled_from(usual.links), max_size=4, unique=True))
    keys = []
    for link in links:
        ends = data.draw(st.permutations([link.a, link.b]))
        name = link.a if link in usual.host_links and data.draw(st.booleans()) else "-".join(ends)
        keys.append((link, name, data.draw(RATES)))
    spec = ",".join([usual.spec, *(f"rate@{name}={rate}" for _, name, rate in keys)])
    fabric = parse_fabric(spec)
    asked = {(link.a, link.b): rate for link, _, rate in keys}
    for link, was in zip(fabric.links, usual.links, strict=True):
        assert link == replace(was, rate_bps=asked.get((link.a, link.b), was.rate_bps))
    assert parse_fabric(fabric.spec) == fabric


PIECES = st.sampled_from(
    [
        *"hstar:=,@-0189 ",
        *FAMILIES,
        "rate",
        "rate@",
        "h0",
        "leaf0-spine1",
        "hosts=4",
        "x=2",
        "y=3",
        "n=4",
        "m=2",
        "1G",
        "k=4",
        "\n",
        "é",
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=60))
def test_whatever_the_text_it_is_a_fabric_or_an_error_of_one_line(text: str) -> None:
    assume(not text.lower().endswith((".yaml", ".yml")))
    try:
        fabric = parse_fabric(text)
    except ValueError as error:
        told = str(error)
    else:
        told = ""
        assert parse_fabric(fabric.spec) == fabric
    assert len(told) < 400
    assert len(told.splitlines()) <= 1


def test_a_spec_that_would_be_too_long_to_be_read_back_is_refused() -> None:
    spec = ",".join(["star:hosts=30", *(f"rate@h{i}=2.5M" for i in range(10, 23))])
    assert len(spec) == 195
    with pytest.raises(
        ValueError, match="at most 200 characters; with its rates written as whole numbers this one has 208"
    ):
        parse_fabric(spec)


def test_hosts_and_uplinks_have_their_own_rates() -> None:
    fabric = parse_fabric("fat-tree:k=4,rate=100M,uplink_rate=40M")
    rates = {(link.a[0] == "h", link.rate_bps) for link in fabric.links}
    assert rates == {(True, 100_000_000), (False, 40_000_000)}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("", "there is no family ''; choose from bigraph, fat-tree, leaf-spine, mesh, star, torus"),
        (
            "fat-tre:k=4",
            "there is no family 'fat-tre' (did you mean fat-tree?); choose from bigraph, fat-tree",
        ),
        ("fat-tree", "fat-tree needs k=, as in fat-tree:k=4"),
        ("fat-tree:k=5", "even k of at least 2, got 5"),
        ("fat-tree:k=0", "even k of at least 2, got 0"),
        ("fat-tree:k=-4", "k must be a whole number, got '-4'"),
        ("fat-tree:k=4.0", "k must be a whole number, got '4.0'"),
        ("fat-tree:k=٤", "k must be a whole number"),
        ("fat-tree:k=4,levels=4", "levels=2 or levels=3, got 4"),
        ("fat-tree:k=4,pods=2", "fat-tree has no key 'pods'; its keys are k, levels, rate"),
        ("fat-tree:k=4,k=6", "k is given twice"),
        ("fat-tree:k=4,", "'' is not written as key=value, as in fat-tree:k=4"),
        ("fat-tree:k=", "'k=' is not written as key=value"),
        ("fat-tree:k=4,rate=0", "rate above 0"),
        ("fat-tree:k=4,uplink_rate=0", "rate above 0"),
        ("fat-tree:k=4,rate=200G", "up to 100G"),
        ("fat-tree:k=4,rate=fast", "'fast' is not a rate"),
        ("fat-tree:k=999999998", "gradwire plans at most 65,000"),
        ("bigraph:n=4", "bigraph needs m="),
        ("bigraph:n=3,m=2", "even n of at least 2 switches, got 3"),
        ("bigraph:n=4,m=0", "at least m=1 host"),
        ("bigraph:n=4096,m=1", "cables; gradwire plans at most"),
        ("leaf-spine:leaves=1,spines=2,hosts=2", "at least 2 leaves"),
        ("leaf-spine:leaves=900000,spines=900000,hosts=1", "gradwire plans at most"),
        ("star:hosts=1", "at least 2 hosts, got 1"),
        ("star:hosts=65001", "at most 65,000"),
        ("star:hosts=4,uplink_rate=1G", "no links between switches"),
        ("star:hosts=4,queue=0", "room for a frame of 1514 bytes"),
        ("star:hosts=4,mtu=9000,queue=9013B", "room for a frame of 9014 bytes"),
        ("star:hosts=4,mtu=1499", "an MTU must be 1500 to 9000 bytes, got 1499"),
        ("star:hosts=4,mtu=9001,queue=2kB", "an MTU must be 1500 to 9000 bytes, got 9001"),
        ("star:hosts=4,mtu=9k", "mtu must be a whole number, got '9k'"),
        ("star:hosts=4,delay=1", "'1' is not a time: write it like 10us or 1ms"),
        ("star:hosts=4,delay=1.5s", "a link's delay can be at most 1s, got 1500ms"),
        ("star:hosts=" + "9" * 1000, "at most 200 characters"),
        ("star:hosts=4,rate@h4=1G", "there is no host 'h4'; the nearest is h"),
        ("star:hosts=4,rate@host2=1G", "there is no host 'host2'; the nearest is h2"),
        ("star:hosts=4,rate@=1G", "there is no host ''; the nearest is h"),
        ("star:hosts=16,rate@" + "9" * 100 + "=1G", "there is no host '9999"),
        (
            "bigraph:n=4,m=1,rate@upper1=1G",
            "upper1 is a switch: name both ends of one of its cables, as in rate@upper1-",
        ),
        (
            "bigraph:n=4,m=1,rate@upper0-lower2=1G",
            "there is no cable 'upper0-lower2'; the nearest is upper0-lower",
        ),
        (
            "bigraph:n=4,m=1,rate@uper1-lower0=1G",
            "there is no cable 'uper1-lower0'; the nearest is upper1-lower0",
        ),
        ("bigraph:n=4,m=1,rate@h0-lower0=1G", "there is no cable 'h0-lower0'; the nearest is h0-upper0"),
        ("star:hosts=4,rate@a-b=1G", "there is no cable 'a-b'; the nearest is h"),
        ("star:hosts=4,rate@h0=1G,rate@h0-switch0=2G", "rate@h0 and rate@h0-switch0 are one cable: give one"),
        ("star:hosts=4,rate@h0=1G,rate@h0=1G", "rate@h0 is given twice"),
        ("star:hosts=4,rate@h0=0", "rate@h0: a link needs a rate above 0"),
        ("star:hosts=4,rate@h0=200G", "rate@h0: a link needs a rate above 0 and up to 100G"),
        ("star:hosts=4,rate@h0=fast", "'fast' is not a rate"),
        (
            "star:hosts=4,queue@h0=1MB",
            "star has no key 'queue@h0' (did you mean queue?); its keys are hosts, rate, uplink_rate",
        ),
        (
            "star:hosts=4,host_rate=1G",
            "star has no key 'host_rate' (did you mean rate?); its keys are hosts, rate",
        ),
        ("torus:x=4", "torus needs y=, as in torus:x=4,y=4"),
        ("torus:x=1,y=1", "a torus needs at least 2 nodes, got x=1, y=1"),
        ("mesh:x=0,y=9", "a mesh needs at least 2 nodes, got x=0, y=9"),
        ("mesh:x=255,y=255", "gradwire plans at most 65,000"),
        ("torus:x=999999999,y=999999999", "gradwire plans at most 65,000"),
        (
            "torus:x=4,y=4,uplink_rate=1G",
            "a torus has no uplink_rate: give rate= for the cables between switches and host_rate=",
        ),
        ("torus:x=4,y=4,rate=40G", "4 times the rate of its other cables, and at most 100G: give host_rate="),
        ("torus:x=4,y=4,rate=0", "rate above 0"),
        ("mesh:x=4,y=4,host_rate=0", "rate above 0"),
        ("mesh:x=4,y=4,rate=900k", "a link's rate must be at least 1M, got 900000 bit/s"),
    ],
)
def test_a_wrong_spec_is_refused_with_its_reason_in_one_line(spec: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)) as caught:
        parse_fabric(spec)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_names_addresses_and_dpids_are_unique() -> None:
    fabric: Fabric = parse_fabric("fat-tree:k=16")
    assert len({fabric.ip(host) for host in fabric.hosts}) == 1024
    assert len({fabric.mac(host) for host in fabric.hosts}) == 1024
    assert sorted(fabric.dpid(switch) for switch in fabric.switches) == list(range(1, 321))


@pytest.mark.parametrize(
    "spec",
    [
        "star:hosts=1024",
        "fat-tree:k=16",
        "bigraph:n=274,m=1",
        "bigraph:n=2,m=512",
        "leaf-spine:leaves=2,spines=9488,hosts=512",
        "leaf-spine:leaves=1024,spines=18,hosts=1",
        "torus:x=32,y=32",
        "mesh:x=1024,y=1",
    ],
)
def test_the_largest_fabrics_have_interface_names_that_linux_allows(spec: str) -> None:
    fabric = parse_fabric(spec)
    assert max(len(interface(end.node, end.port)) for end in fabric.peers) <= 15
