"""A made-up capture of many short connections, as a busy server sees them within seconds."""

import struct
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gradwire.traces.packets.packets import ACK, ETHERNET, FIN, PSH, SYN

PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, ETHERNET)
REQUEST_NBYTES, ANSWER_NBYTES = 100, 400
PORTS = 30_000  # of a client, beginning at FIRST_PORT, before the next client takes over
FIRST_PORT, SERVER_PORT = 20_000, 9000
SERVER, FIRST_CLIENT = int(IPv4Address("10.0.0.1")), int(IPv4Address("10.0.1.1"))
BEGIN_NS, APART_NS, STEP_NS = 1_750_000_000 * 10**9, 200_000, 20_000
# Of each packet: whether the client sends it, its flags and payload, and how far both sides have got before.
PACKETS = (
    (True, SYN, 0, 0, 0),
    (False, SYN | ACK, 0, 0, 1),
    (True, ACK | PSH, REQUEST_NBYTES, 1, 1),
    (False, ACK | PSH, ANSWER_NBYTES, 1, 1 + REQUEST_NBYTES),
    (True, ACK | FIN, 0, 1 + REQUEST_NBYTES, 1 + ANSWER_NBYTES),
    (False, ACK | FIN, 0, 1 + ANSWER_NBYTES, 2 + REQUEST_NBYTES),
    (True, ACK, 0, 2 + REQUEST_NBYTES, 2 + ANSWER_NBYTES),
)


def write_connections(path: Path, n_connections: int) -> int:
    """A pcap file of this many connections to one server, seen there; how many packets it has.

    Each opens, asks REQUEST_NBYTES, is answered ANSWER_NBYTES, and closes; another begins every APART_NS.
    Checksums are 0, as where a network card fills them in.
    """
    number = np.arange(n_connections)
    records = [_records(number, place, *packet) for place, packet in enumerate(PACKETS)]
    times = np.concatenate([number * APART_NS + place * STEP_NS for place in range(len(PACKETS))])
    order = np.argsort(times, kind="stable")
    with path.open("wb") as file:
        file.write(PCAP_HEADER)
        for at in order.tolist():
            file.write(records[at // n_connections][at % n_connections])
    return len(order)


def _records(
    number: npt.NDArray[np.int64], place: int, is_client: bool, flags: int, nbytes: int, seq: int, ack: int
) -> list[bytes]:
    payload = bytes(nbytes)
    found = []
    for one, (seconds, ns) in zip(number.tolist(), _times(number, place), strict=True):
        client, port = FIRST_CLIENT + one // PORTS, FIRST_PORT + one % PORTS
        ends = (client, SERVER) if is_client else (SERVER, client)
        ports = (port, SERVER_PORT) if is_client else (SERVER_PORT, port)
        ip_nbytes = 40 + nbytes
        found.append(
            struct.pack("<IIII", seconds, ns, 14 + ip_nbytes, 14 + ip_nbytes)
            + struct.pack("!12xH", 0x0800)
            + struct.pack("!BBHHHBBHII", 0x45, 0, ip_nbytes, 0, 0x4000, 64, 6, 0, *ends)
            + struct.pack(
                "!HHIIBBHHH", *ports, 1000 + seq, 1000 + ack if flags & ACK else 0, 0x50, flags, 502, 0, 0
            )
            + payload
        )
    return found


def _times(number: npt.NDArray[np.int64], place: int) -> Iterator[tuple[int, int]]:
    """Seconds and nanoseconds of each connection's packet at `place`."""
    seconds, ns = np.divmod(BEGIN_NS + number * APART_NS + place * STEP_NS, 10**9)
    return zip(seconds.tolist(), ns.tolist(), strict=True)
