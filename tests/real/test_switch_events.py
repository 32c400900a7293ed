"""What our switch says unasked, and what a controller sends through it, on real cables."""

import struct
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from scapy.contrib import openflow3 as of3
from scapy.layers.inet import IP, UDP

from gradwire.planning.fabrics.fabric import interface
from gradwire.planning.fabrics.spec import parse_fabric
from tests.openflow_talk import dst, flow_mod, group_mod, read, to_port
from tests.real import lab
from tests.real.inside import inside
from tests.real.test_switch import PlainController, pings, scratch

pytestmark = pytest.mark.real

TO_TABLE, FLOOD, CONTROLLER, ANY = 0xFFFFFFF9, 0xFFFFFFFB, 0xFFFFFFFD, 0xFFFFFFFF
PACKET_IN, FLOW_REMOVED, PORT_STATUS, PACKET_OUT, BARRIER_REPLY = 10, 11, 12, 13, 21
FABRIC = parse_fabric("star:hosts=3,rate=100M")


class Listener(PlainController):
    """Keeps the messages that come unasked, with the instant."""

    def __init__(self) -> None:
        super().__init__()
        self.unasked: list[tuple[int, Any]] = []

    def wait(self, kind: int, timeout_s: float = 5) -> tuple[int, Any]:
        """The next message of this kind: (ns, message)."""
        self._link.settimeout(timeout_s)
        while True:
            found, body = self._receive()
            if found == kind:
                return time.monotonic_ns(), whole(found, body)

    def send_packet(self, frame: bytes, in_port: int, action: bytes) -> None:
        body = struct.pack("!IIH6x", ANY, in_port, len(action)) + action + frame
        self._link.sendall(struct.pack("!BBHI", 4, PACKET_OUT, 8 + len(body), 0) + body)

    def counts(self, priority: int) -> list[int]:
        """Packets of the flow entries of this priority, in order of the tables' telling."""
        self._link.sendall(bytes(of3.OFPMPRequestFlow()))
        _, reply = self.wait(19)
        return sorted(flow.packet_count for flow in reply.body if flow.priority == priority)


def whole(kind: int, body: bytes) -> Any:
    return read(struct.pack("!BBHI", 4, kind, 8 + len(body), 0) + body)


def output(port: int) -> bytes:
    return struct.pack("!HHIH6x", 0, 16, port, 0xFFFF)


def to_group(number: int) -> bytes:
    return struct.pack("!HHI", 22, 8, number)


def routes(*actions: Any) -> list[Any]:
    """h0 to h1 by these actions, and back."""
    there, back = dst(FABRIC.ip("h1")), dst(FABRIC.ip("h0"))
    return [flow_mod(there, actions, priority=10), flow_mod(back, [to_port(1)], priority=10)]


def packets_through_a_controller() -> dict[str, Any]:
    found: dict[str, Any] = {}
    with scratch() as folder:
        lab.cable_up(FABRIC)
        controller = Listener()
        with lab.agent_started(FABRIC, folder):
            controller.accept()
            controller.ask(flow_mod(actions=[to_port(CONTROLLER)], priority=0, cookie=77))
            ping = threading.Thread(target=lambda: found.update(flooded=pings(FABRIC)))
            ping.start()
            requests = []
            for _ in range(2):
                _, packet = controller.wait(PACKET_IN)
                requests.append(packet)
                controller.send_packet(packet.data, packet.match["in_port"], output(FLOOD))
            ping.join()
            found["unasked"] = [
                [p.reason, p.cookie, p.match["in_port"], p.total_len, len(p.data), p.buffer_id]
                for p in requests
            ]
            echo = requests[0].data
            controller.ask(*routes(to_port(2)), group_mod(5, [2], kind="OFPGT_INDIRECT"))
            for action in (output(TO_TABLE), to_group(5), output(2)):
                controller.send_packet(echo, 1, action)
                time.sleep(0.2)
                found.setdefault("counted", []).append(controller.counts(10))
            # By its number nothing leaves through the port it came from; by IN_PORT it does.
            controller.send_packet(echo, 2, output(2))
            time.sleep(0.2)
            found["not back"] = controller.counts(10)
            controller.send_packet(echo, 2, output(0xFFFFFFF8))
            time.sleep(0.2)
            found["back by name"] = controller.counts(10)
    return found


def test_packets_go_to_a_controller_and_from_there_through_ports_groups_and_the_table() -> None:
    found = inside(packets_through_a_controller)
    assert found["flooded"]
    n = 14 + 20 + 64  # ping's 56 bytes, ICMP's header
    assert found["unasked"] == [[0, 77, 1, n, n, ANY], [0, 77, 2, n, n, ANY]]
    # The echo passes the rule there only by the table; the answer passes that back each time.
    assert found["counted"] == [[1, 1], [1, 2], [1, 3]]
    assert found["not back"] == [1, 3]
    assert found["back by name"] == [1, 4]


RECEIVE_ONE = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
    receiver.bind((sys.argv[1], 7))
    receiver.settimeout(3)
    print("bound", flush=True)
    print(len(receiver.recv(2000)), flush=True)
"""
SEND_ONE = """
import socket, sys
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(bytes(100), (sys.argv[1], 7))
"""
CHECKSUM_AT = 14 + 20 + 6  # of UDP


def datagram_through_a_controller() -> dict[str, Any]:
    with scratch() as folder:
        lab.cable_up(FABRIC)
        controller = Listener()
        with lab.agent_started(FABRIC, folder):
            controller.accept()
            controller.ask(flow_mod(actions=[to_port(CONTROLLER)], priority=0))
            receiver = lab.on("h1", sys.executable, "-c", RECEIVE_ONE, FABRIC.ip("h1"))
            with subprocess.Popen(receiver, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout
                process.stdout.readline()
                lab.run(*lab.on("h0", sys.executable, "-c", SEND_ONE, FABRIC.ip("h1")))
                _, packet = controller.wait(PACKET_IN)
                controller.send_packet(packet.data, 1, output(2))
                came = process.stdout.readline().strip()
            computed = IP(packet.data[14:])
            del computed[UDP].chksum
            return {
                "checksum": packet.data[CHECKSUM_AT : CHECKSUM_AT + 2].hex(),
                "right": bytes(computed)[CHECKSUM_AT - 14 : CHECKSUM_AT - 12].hex(),
                "came": came,
            }


def test_a_checksum_that_a_host_left_to_its_card_is_right_at_the_controller_and_behind_it() -> None:
    found = inside(datagram_through_a_controller)
    assert found["checksum"] == found["right"]
    assert found["came"] == "100"


def failing_cable(which_end: str) -> dict[str, Any]:
    name = interface("switch0", 2)
    command = ["ip", "link", "set", name]
    if which_end == "host":
        command = lab.on("h1", "ip", "link", "set", interface("h1", 0))
    found: dict[str, Any] = {"states": [], "delays_ms": [], "buckets": []}
    with scratch() as folder:
        lab.cable_up(FABRIC)
        controller = Listener()
        with lab.agent_started(FABRIC, folder):
            controller.accept()
            failover = group_mod(5, [2, 3], kind="OFPGT_FF", watched=[2, 3])
            controller.ask(failover, *routes(of3.OFPATGroup(group_id=5)))
            found["before"] = pings(FABRIC)
            for state, expected in (("down", 1), ("up", 4)):  # LINK_DOWN, LIVE
                start_ns = time.monotonic_ns()
                subprocess.run([*command, state], check=True)
                heard_ns, status = controller.wait(PORT_STATUS)
                while status.desc.state != expected:  # it reports being enabled before the cable is up
                    heard_ns, status = controller.wait(PORT_STATUS)
                found["delays_ms"].append((heard_ns - start_ns) // 10**6)
                found["states"].append([status.desc.port_no, status.reason, status.desc.state])
                pings(FABRIC, wait_s=1)
                controller._link.sendall(bytes(of3.OFPMPRequestGroup(group_id=5)))
                _, reply = controller.wait(19)
                found["buckets"].append([bucket.packet_count for bucket in reply.body[0].bucket_stats])
    return found


@pytest.mark.parametrize("which_end", ["switch", "host"])
def test_a_cable_that_goes_down_is_told_at_once_and_its_bucket_left(which_end: str) -> None:
    found = inside(failing_cable, which_end)
    assert found["before"]
    assert found["states"] == [[2, 2, 1], [2, 2, 4]]  # of port 2, MODIFY
    assert max(found["delays_ms"]) < 500  # a busy machine's; it takes a few
    assert found["buckets"][0] == [1, 1]  # the second ping took the other port
    assert found["buckets"][1][1] == 1  # and with the cable up none does


def timed_entry() -> list[Any]:
    with scratch() as folder:
        lab.cable_up(FABRIC)
        controller = Listener()
        with lab.agent_started(FABRIC, folder):
            controller.accept()
            controller.ask(flow_mod(dst(FABRIC.ip("h1")), [to_port(2)], hard_timeout=1, flags=1, cookie=9))
            _, gone = controller.wait(FLOW_REMOVED)
            return [gone.reason, gone.cookie, gone.duration_sec]


def test_an_entry_ends_when_its_time_is_over() -> None:
    assert inside(timed_entry) == [1, 9, 1]  # OFPRR_HARD_TIMEOUT
