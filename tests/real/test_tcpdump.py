"""tcpdump's captures lack nothing that came before their end."""

import socket
import tempfile
from pathlib import Path

import pytest

from gradwire.emu.kernel.namespaces import inside
from gradwire.emu.network.net import emulated
from gradwire.emu.network.tcpdump import HEADERS, captures, dropped
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.transport import fabric_transport
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.packets import UDP
from tests.real import inside as isolated

ROUNDS, PACKETS, PORT = 3, 50, 9


def captured() -> list[tuple[int, dict[str, int]]]:
    """Of each round how many packets are in the file, and what tcpdump says that it lacks."""
    fabric = parse_fabric("star:hosts=2")
    found = []
    with emulated(fabric, fabric_transport(fabric), ()) as net:
        pids = {host.name: host.pid for host in net.hosts}
        with tempfile.TemporaryDirectory() as place:
            for number in range(ROUNDS):
                folder = Path(place) / str(number)
                with (
                    captures(["h0"], pids, folder, HEADERS),
                    inside(pids["h0"]),
                    socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
                ):
                    for _ in range(PACKETS):
                        sender.sendto(b"x", (fabric.ip("h1"), PORT))
                packets = read_capture(folder / "h0.pcap")
                ours = (packets.protocol == UDP) & (packets.dport == PORT)
                found.append((int(ours.sum()), dropped(["h0"], folder)))
    return found


@pytest.mark.real
def test_packets_sent_just_before_the_end_are_all_in_the_file() -> None:
    assert [tuple(row) for row in isolated.inside(captured)] == [(PACKETS, {})] * ROUNDS
