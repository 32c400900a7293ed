"""The batches that make a fabric: every cable once, every port shaped at its rate."""

import re
from collections import Counter

from emu import shaping
from emu.fabric import interface
from emu.spec import parse_fabric
from emu.transport import fabric_transport

FABRIC = parse_fabric("fat-tree:k=4,rate=50M,uplink_rate=20M")
TRANSPORT = fabric_transport(FABRIC)


def test_every_cable_is_one_veth_pair_with_names_that_linux_takes() -> None:
    made = [re.findall(r"name (\S+)", line) for line in shaping.links_batch(FABRIC.links, TRANSPORT)]
    names = Counter(name for pair in made for name in pair)
    assert names == Counter(interface(end.node, end.port) for end in FABRIC.peers)
    assert max(map(len, names)) <= 15


def test_host_ends_move_to_their_hosts_and_switch_ends_come_up() -> None:
    lines = list(shaping.move_batch(FABRIC, {host: 1000 + i for i, host in enumerate(FABRIC.hosts)}))
    assert "link set dev h3-eth0 netns 1003" in lines
    assert len([line for line in lines if line.endswith(" up")]) == len(FABRIC.peers) - len(FABRIC.hosts)


def test_a_host_knows_every_other_hosts_address_and_not_its_own() -> None:
    lines = list(shaping.host_batch(FABRIC, "h2"))
    known = {line.split()[2] for line in lines if line.startswith("neigh add")}
    assert known == {FABRIC.ip(host) for host in FABRIC.hosts} - {FABRIC.ip("h2")}
    assert f"addr add {FABRIC.ip('h2')}/16 dev h2-eth0" in lines


def test_the_classes_of_a_port_share_its_rate_and_no_more() -> None:
    lines = list(shaping.port_batch("edge0-eth3", 20_000_000, 100_000))
    (top,) = [line for line in lines if "parent 1: classid 1:10" in line]
    leaves = [line for line in lines if "parent 1:10" in line]
    assert "rate 20000000bit ceil 20000000bit" in top
    assert (
        sum(int(found[1]) for line in leaves if (found := re.search(r" rate (\d+)bit", line))) == 20_000_000
    )
    assert any("limit 100000" in line for line in lines)


def test_an_automatic_queue_holds_all_that_the_receivers_of_its_flows_allow() -> None:
    held = shaping.queue_nbytes(FABRIC, TRANSPORT, flows_at_port=9)
    assert held >= 9 * 2 * TRANSPORT.rcvbuf_nbytes
    assert shaping.queue_nbytes(parse_fabric("star:hosts=2,queue=20KB"), TRANSPORT, 9) == 20_000
