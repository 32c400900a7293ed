"""The batches that make a fabric: every cable once, every port shaped at its rate."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from gradwire.emu.network import shaping
from gradwire.planning.fabrics.fabric import Egress, Fabric, interface
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.transport import fabric_transport

FABRIC = parse_fabric("fat-tree:k=4,rate=50M,uplink_rate=20M")
TRANSPORT = fabric_transport(FABRIC)


def lines_of(fabric: Fabric, end: Egress, *flows_and_windows: int) -> Iterator[str]:
    shape = shaping.port_shape(fabric, TRANSPORT, end, *flows_and_windows)
    return shaping.port_batch(interface(end.node, end.port), shape)


PID_OF = {host: 1000 + i for i, host in enumerate(FABRIC.hosts)}


def test_every_cable_is_one_veth_pair_with_names_that_linux_takes() -> None:
    lines = [line for line in shaping.links_batch(FABRIC, TRANSPORT, PID_OF) if line.startswith("link add")]
    names = Counter(name for line in lines for name in re.findall(r"name (\S+)", line))
    assert names == Counter(interface(end.node, end.port) for end in FABRIC.peers)
    assert max(map(len, names)) <= 15


def test_both_ends_of_every_cable_have_the_fabrics_mtu_and_ports_let_two_full_frames_pass_at_once() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=1,hosts=1,mtu=9000")
    lines = list(shaping.links_batch(fabric, fabric_transport(fabric), PID_OF))
    assert [line.count(" mtu 9000 ") for line in lines if "add" in line] == [2] * len(fabric.links)
    ports = [line for end in fabric.peers for line in lines_of(fabric, end, 1)]
    bursts = Counter(re.findall(r" (c?burst|quantum) (\d+)", "\n".join(ports)))
    assert set(bursts) == {(name, str(2 * 9014)) for name in ("burst", "cburst", "quantum")}


def test_a_fast_port_may_save_what_its_timer_can_be_late() -> None:
    """100 us: 12,500 bytes at 1 Gb/s, where two frames last 24 us."""
    fabric = parse_fabric("star:hosts=2,rate=1G")
    ports = [line for end in fabric.peers for line in lines_of(fabric, end, 1)]
    bursts = Counter(re.findall(r" (c?burst|quantum) (\d+)", "\n".join(ports)))
    assert set(bursts) == {(name, "12500") for name in ("burst", "cburst", "quantum")}


def test_host_ends_are_made_in_their_hosts_and_switch_ends_come_up() -> None:
    lines = list(shaping.links_batch(FABRIC, TRANSPORT, PID_OF))
    (made,) = [line for line in lines if "h3-eth0" in line]
    assert made.startswith(f"link add name h3-eth0 netns 1003 address {FABRIC.mac('h3')} ")
    up = {line.split()[3] for line in lines if line.endswith(" up")}
    assert up == {interface(end.node, end.port) for end in FABRIC.peers if end.node in FABRIC.switches}


def test_the_classes_of_a_port_share_its_rate_and_no_more() -> None:
    fabric = parse_fabric("fat-tree:k=4,rate=50M,uplink_rate=20M,queue=100KB")
    lines = list(lines_of(fabric, Egress("edge0", 3), 1))
    (top,) = [line for line in lines if "parent 1: classid 1:10" in line]
    leaves = [line for line in lines if "parent 1:10" in line]
    assert "rate 20000000bit ceil 20000000bit" in top
    assert (
        sum(int(found[1]) for line in leaves if (found := re.search(r" rate (\d+)bit", line))) == 20_000_000
    )
    assert any("limit 100000" in line for line in lines)
    assert not any("netem" in line for line in lines)


def test_an_automatic_queue_holds_all_that_the_receivers_of_its_flows_allow() -> None:
    link = FABRIC.links[0]
    assert shaping.queue_nbytes(link, TRANSPORT, flows_at_port=9) >= 9 * 2 * TRANSPORT.rcvbuf_nbytes
    assert shaping.queue_nbytes(replace(link, queue_nbytes=20_000), TRANSPORT, 9) == 20_000


def test_an_automatic_queue_holds_the_windows_of_sums_besides_and_an_explicit_one_does_not_grow() -> None:
    link = FABRIC.links[0]
    alone = shaping.queue_nbytes(link, TRANSPORT, flows_at_port=9)
    assert shaping.queue_nbytes(link, TRANSPORT, 9, windows_nbytes=300_000) == alone + 300_000
    (data,) = [line for line in lines_of(FABRIC, Egress("edge0", 3), 9, 300_000) if "handle 12:" in line]
    assert data.endswith(f"bfifo limit {alone + 300_000}")
    assert shaping.queue_nbytes(replace(link, queue_nbytes=20_000), TRANSPORT, 9, 300_000) == 20_000


def test_there_and_back_a_packet_waits_for_twice_the_delay_of_every_cable_and_no_host_delays() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=1,hosts=1,delay=3ms")
    there = [Egress("h0", 0), Egress("leaf0", 2), Egress("spine0", 2), Egress("leaf1", 1)]
    back = [Egress("h1", 0), Egress("leaf1", 2), Egress("spine0", 1), Egress("leaf0", 1)]
    assert [fabric.peers[end].node for end in (there[-1], back[-1])] == ["h1", "h0"]
    assert sum(shaping.egress_delay_ns(fabric, end) for end in there + back) == 2 * 4 * 3_000_000
    for end, delays in ((there[0], []), (there[1], [3, 3]), (there[3], [6, 6])):
        lines = list(lines_of(fabric, end, 1))
        assert [int(ns) // 10**6 for ns in re.findall(r"netem delay (\d+)ns", "\n".join(lines))] == delays


def test_a_delay_stands_before_the_queue_of_data_and_before_that_of_acknowledgements() -> None:
    fabric = parse_fabric("star:hosts=2,delay=1ms,queue=30KB")
    lines = list(lines_of(fabric, Egress("switch0", 1), 1))
    parents = {m[2]: m[1] for line in lines if (m := re.search(r"parent (\S+) handle (\d+:)", line))}
    assert parents == {"21:": "1:1", "11:": "21:1", "22:": "1:2", "12:": "22:1"}
    (data,) = [line for line in lines if "handle 12:" in line]
    assert data.endswith("bfifo limit 30000")
    held = [int(limit) for limit in re.findall(r"netem delay \d+ns limit (\d+)", "\n".join(lines))]
    least_frames_on_the_way = 2 * 0.001 * 100e6 / 8 / 60
    assert min(held) > least_frames_on_the_way


def test_where_any_host_may_send_to_any_a_queue_has_room_for_a_window_of_each_pair() -> None:
    """Of 3 hosts at either leaf, 5 send to the sixth, and 3 through an uplink to each of 3."""
    fabric = parse_fabric("leaf-spine:leaves=2,spines=1,hosts=3")
    at_hosts = {shaping.most_flows(fabric, Egress(host, 0)) for host in fabric.hosts}
    inner = {shaping.most_flows(fabric, Egress(link.a, link.a_port)) for link in fabric.inner_links}
    assert (at_hosts, inner) == ({5}, {9})


def test_no_automatic_queue_is_longer_than_the_kernel_counts() -> None:
    """Of 128 hosts 4,096 pairs may meet at a core's port; each is allowed 2 MB at 100 Mb/s."""
    fabric = parse_fabric("fat-tree:k=8")
    transport = fabric_transport(fabric)
    queues = [
        shaping.queue_nbytes(link, transport, shaping.most_flows(fabric, Egress(link.a, link.a_port)))
        for link in fabric.links
    ]
    assert max(queues) < 1 << 32
    assert 2 * transport.rcvbuf_nbytes * 64 * 64 > 1 << 32
