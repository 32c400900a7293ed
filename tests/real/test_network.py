"""The emulated network as `ip`, `tc` and Mininet see it, and that nothing of it is left."""

import contextlib
import json
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from gradwire.emu.kernel import offload
from gradwire.emu.kernel.namespaces import enter
from gradwire.emu.kernel.namespaces import inside as inside_namespace
from gradwire.emu.kernel.queues import Queues, parse_queues, read_queues
from gradwire.emu.kernel.rtnetlink import address, carry_out, link_up, netlink_socket
from gradwire.emu.network import cables
from gradwire.emu.network.net import NetworkFailed, emulated, host_route, host_sysctls
from gradwire.emu.replay.wiring import tree_socket
from gradwire.planning.fabrics.fabric import Fabric, interface
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.transport import fabric_transport
from gradwire.traces.framing.aggregation import FIRST_PORT
from tests.made_tree_plans import star_tree
from tests.real import lab
from tests.real.inside import inside
from tests.real.timely import PATIENCE_S

pytestmark = [pytest.mark.real, pytest.mark.untimed]

SPEC = "fat-tree:k=4,rate=50M"


def asked(*command: str, pid: int | None = None) -> Any:
    """The JSON that a command prints, here or in the network namespace of `pid`."""
    prefix = [] if pid is None else enter(pid)
    return json.loads(subprocess.check_output([*prefix, *command], text=True))


def commands() -> list[str]:
    """Of every process in this pid namespace."""
    files = [folder / "cmdline" for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    return [file.read_bytes().replace(b"\0", b" ").decode() for file in files]


def network(spec: str = SPEC) -> tuple[Fabric, Any]:
    fabric = parse_fabric(spec)
    return fabric, emulated(fabric, fabric_transport(fabric), ())


def host_h2() -> dict[str, Any]:
    fabric, made = network()
    with made as net:
        pid = net.get("h2").pid
        in_there = [
            *enter(pid),
            "cat",
            *(f"/proc/sys/{key}" for key in host_sysctls(fabric_transport(fabric), fabric.mtu_nbytes)),
        ]
        return {
            "addresses": asked("ip", "-j", "addr", pid=pid),
            "routes": asked("ip", "-j", "-d", "route", pid=pid),
            "neighbours": asked("ip", "-j", "neigh", pid=pid),
            "macs": {
                **{fabric.ip(host): fabric.mac(host) for host in fabric.hosts if host != "h2"},
                "10.0.255.254": "02:00:0a:00:ff:fe",  # who adds up; nobody has that address
            },
            "sysctls": subprocess.check_output(in_there, text=True).splitlines(),
            "kinds": sorted(row["kind"] for row in asked("tc", "-j", "qdisc", pid=pid)),
        }


def test_a_host_has_its_address_everybodys_mac_its_settings_and_a_shaped_port() -> None:
    seen = inside(host_h2)
    loopback, port = seen["addresses"]
    assert "UP" in loopback["flags"]
    assert port["address"] == "02:00:0a:00:00:03"
    assert [(a["local"], a["prefixlen"]) for a in port["addr_info"]] == [("10.0.0.3", 16)]
    assert {"UP", "LOWER_UP"} <= set(port["flags"])
    assert {row["dst"]: row["lladdr"] for row in seen["neighbours"]} == seen["macs"]
    assert all(row["state"] == ["PERMANENT"] for row in seen["neighbours"])
    assert [(row["dst"], row["metrics"]) for row in seen["routes"]] == [
        ("10.0.0.0/16", [{"initcwnd": 1456, "quickack": 1, "congestion": "cubic"}])
    ]
    fabric = parse_fabric(SPEC)
    in_manifests = host_route(fabric, fabric_transport(fabric))
    assert seen["routes"][0]["metrics"] == [in_manifests]
    wanted = host_sysctls(fabric_transport(fabric), 1500)
    assert [line.split() for line in seen["sysctls"]] == [value.split() for value in wanted.values()]
    assert "4096 262144 262144" in wanted.values()  # twice the 128 KiB of a replay at 50 Mb/s
    assert seen["kinds"] == ["bfifo", "bfifo", "htb", "noqueue"]


def with_and_without_a_shell() -> dict[str, Any]:
    _, made = network("star:hosts=3,rate=50M")
    with made as net:
        before = [line for line in commands() if "mininet:" in line]
        host, switch = net.get("h1"), net.switches[0]
        said = {
            "address": host.cmd("ip -br addr show h1-eth0").split()[2],
            "sys": host.cmd("ls /sys/class/net").split(),
            "popen": host.popen("ip -br addr show h1-eth0").communicate()[0].decode().split()[2],
            "of_mininet": (host.IP(), host.MAC()),
            "switch": len(switch.cmd("ls /sys/class/net").split()),
            "links": [str(link) for link in net.links],
        }
        shells = [line.split()[-1] for line in commands() if "mininet:" in line]
        net.configLinkStatus("h2", switch.name, "down")
        (cut,) = asked("ip", "-j", "link", "show", "h2-eth0", pid=net.get("h2").pid)
    return {**said, "before": before, "shells": sorted(shells), "cut": cut["flags"], "after": commands()}


def test_mininets_shells_come_when_they_are_asked_for_and_go_with_the_network() -> None:
    seen = inside(with_and_without_a_shell)
    assert seen["before"] == []
    assert seen["address"] == seen["popen"] == "10.0.0.2/16"
    assert set(seen["sys"]) == {"h1-eth0", "lo"}
    assert seen["of_mininet"] == ["10.0.0.2", "02:00:0a:00:00:02"]
    assert seen["switch"] >= 3
    assert len(seen["links"]) == 3
    assert "mininet:h1" in seen["shells"]
    assert "mininet:h0" not in seen["shells"]
    assert "UP" not in seen["cut"]
    assert not [line for line in seen["after"] if "mininet:" in line or "read end" in line]


def twice() -> list[list[str]]:
    left = []
    for _ in range(2):
        _, made = network("star:hosts=3,rate=50M")
        with made:
            pass
        left.append([row["ifname"] for row in asked("ip", "-j", "link")])
    return [*left, commands()]


def test_a_network_leaves_nothing_and_can_be_built_again() -> None:
    first, second, processes = inside(twice)
    assert first == second == ["lo"]
    assert len(processes) == 1


def refused() -> list[str]:
    """With a cable of that name in the way."""
    subprocess.run(
        ["ip", "link", "add", "h1-eth0", "type", "veth", "peer", "name", "switch0-eth2"], check=True
    )
    _, made = network("star:hosts=3,rate=50M")
    try:
        with made:
            return []
    except NetworkFailed as error:
        return [str(error), *commands()]


def test_what_cannot_be_built_is_told_in_one_line_and_the_hosts_are_gone() -> None:
    complaint, *processes = inside(refused)
    assert "exists" in complaint
    assert "\n" not in complaint
    assert len(processes) == 1


FLOOD = """
import socket
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(50):
    sender.sendto(bytes(1400), ("10.0.0.2", 9))
"""


def drops_by_us_and_by_tc() -> list[dict[str, int]]:
    fabric, made = network("star:hosts=2,rate=1M,queue=20KB")
    with made as net:
        pids = {host.name: host.pid for host in net.hosts}
        queues = Queues(pids.values())
        subprocess.run([*enter(pids["h0"]), "python3", "-c", FLOOD], check=True)
        rows = asked("tc", "-s", "-j", "qdisc")
        for pid in pids.values():
            rows += asked("tc", "-s", "-j", "qdisc", pid=pid)
        by_tc = {row["dev"]: row["drops"] for row in rows if row["kind"] == "htb"}
        assert set(by_tc) == {interface(end.node, end.port) for end in fabric.peers}
        return [queues.dropped(), by_tc]


def test_drops_are_those_that_tc_tells_at_every_port() -> None:
    by_us, by_tc = inside(drops_by_us_and_by_tc)
    assert by_us == by_tc
    assert by_us["h0-eth0"] > 10
    assert sum(by_us.values()) == by_us["h0-eth0"]


def queues_by_us_and_by_tc() -> list[list[list[Any]]]:
    _, made = network("star:hosts=2,rate=1M,queue=100KB")
    with made as net:
        pid = next(host.pid for host in net.hosts if host.name == "h0")
        with inside_namespace(pid):
            netlink, names = netlink_socket(), dict(socket.if_nameindex())
        with netlink:
            subprocess.run([*enter(pid), "python3", "-c", FLOOD.replace("50", "100")], check=True)
            read = list(parse_queues(read_queues(netlink)))
        by_us = [[names[index], queue.queued_nbytes, queue.dropped] for index, queue in read]
        rows = asked("tc", "-s", "-j", "qdisc", pid=pid)
        return [by_us, [[row["dev"], row["backlog"], row["drops"]] for row in rows if row["kind"] == "htb"]]


def test_what_waits_at_all_ports_is_read_at_once_as_tc_tells_it() -> None:
    """100 frames of 1,442 bytes into 100 KB: 30 are dropped, and 0.8 s later the last has left."""
    ((port, waiting, dropped),), ((port_by_tc, waiting_by_tc, dropped_by_tc),) = inside(
        queues_by_us_and_by_tc
    )
    assert (port, dropped) == (port_by_tc, dropped_by_tc)
    assert dropped > 10
    assert 100_000 >= waiting >= waiting_by_tc
    assert waiting > 20_000


def refused_request() -> str:
    subprocess.run(["ip", "link", "add", "x", "type", "veth", "peer", "name", "y"], check=True)
    index = asked("ip", "-j", "link", "show", "x")[0]["ifindex"]
    mine = address(index, "10.0.0.1", 16)
    try:
        carry_out([link_up(index), mine, mine, link_up(index)])
    except OSError as error:
        return str(error)
    return "nothing was refused"


def test_the_request_that_the_kernel_refuses_is_named() -> None:
    assert "request 3 of 4 failed: File exists" in inside(refused_request)


def sent_at_once() -> str:
    """What comes of a frame that an end sends as soon as its carrier is there; the other end is late."""
    lab.run("ip", "link", "add", "early", "type", "veth", "peer", "name", "late")
    lab.run("ip", "link", "set", "early", "up")
    sender, receiver = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) for _ in range(2))
    sender.bind(("early", 0))
    receiver.settimeout(PATIENCE_S)
    set_up = threading.Timer(0.2, lab.run, ["ip", "link", "set", "late", "up"])
    set_up.start()
    cables.await_carriers([socket.if_nametoindex("early")])
    receiver.bind(("late", 0x88B5))
    sender.send(bytes(12) + bytes.fromhex("88b5") + bytes(46))
    set_up.join()
    return receiver.recv(100)[12:14].hex()


def test_an_end_that_has_its_carrier_can_send_at_once() -> None:
    assert inside(sent_at_once) == "88b5"


def other_end_down() -> str:
    cables._CARRIER_S = 0.1
    lab.run("ip", "link", "add", "early", "type", "veth", "peer", "name", "never")
    lab.run("ip", "link", "set", "early", "up")
    try:
        cables.await_carriers([socket.if_nametoindex("early")])
    except OSError as error:
        return str(error)
    return "it has a carrier"


def test_an_end_without_a_carrier_is_not_waited_for_for_ever() -> None:
    assert inside(other_end_down) == "a cable still has no carrier 0.1 s after it was set up"


def heard_by_a_tree() -> dict[str, Any]:
    """What the socket of h0's tree takes of frames that come to h0, and what leaves h0 when it sends."""
    tree = star_tree((0, 1))
    _, made = network("star:hosts=2,rate=50M")
    with made as net:
        at_switch = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        at_switch.bind(("switch0-eth1", 0))
        at_switch.settimeout(PATIENCE_S)
        with inside_namespace(net.get("h0").pid):
            sock = tree_socket(tree)
            offload.switch_off("h0-eth0", offload.UDP_SEGMENTATION)
            features = subprocess.check_output(["ethtool", "-k", "h0-eth0"], text=True)
        sock.setsockopt(socket.IPPROTO_UDP, 103, 100)  # UDP_SEGMENT
        sock.send(bytes(250))
        left = [Ether(at_switch.recv(2000)) for _ in range(3)]
        everybody, nobody, port = "10.0.255.255", "10.0.255.254", tree.udp_port
        for number, (source, destination, sport, checksum) in enumerate(
            [
                (nobody, everybody, port, 0),
                ("10.0.0.2", everybody, port, 0),
                (nobody, "10.0.0.1", port, 0),
                (nobody, everybody, port + 1, 0),
                (nobody, everybody, port, None),
            ]
        ):
            frame = Ether(dst="ff:ff:ff:ff:ff:ff" if destination == everybody else "02:00:0a:00:00:01")
            frame /= IP(src=source, dst=destination) / UDP(sport=sport, dport=port, chksum=checksum)
            at_switch.send(bytes(frame / bytes([number])))
        sock.settimeout(PATIENCE_S)
        heard = [sock.recv(100)[0] for _ in range(2)]
        sock.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            heard.append(sock.recv(100)[0])
    return {
        "heard": heard,
        "left": [[each.dst, each[IP].src, each[IP].dst, each[UDP].sport, each[UDP].len] for each in left],
        "segmentation": [line.split()[1] for line in features.splitlines() if "tx-udp-seg" in line],
        "tcp": [line.split()[1] for line in features.splitlines() if line.startswith("tcp-seg")],
    }


def test_a_trees_socket_hears_what_is_sent_to_all_from_nobodys_address_and_sends_packet_by_packet() -> None:
    seen = inside(heard_by_a_tree)
    assert seen["heard"] == [0, 4]
    assert seen["left"] == [
        ["02:00:0a:00:ff:fe", "10.0.0.1", "10.0.255.254", FIRST_PORT, 8 + n] for n in (100, 100, 50)
    ]
    assert (seen["segmentation"], seen["tcp"]) == (["off"], ["on"])
