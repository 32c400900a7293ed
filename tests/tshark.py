"""What tshark says of every packet of a file, and the same fields of ours, to be compared."""

import subprocess
from pathlib import Path

from gradwire.traces.packets.packets import NO_SHIFT, TCP, UDP, Packets

FRAME = ("frame.time_epoch", "frame.len", "frame.cap_len", "frame.protocols")
IP = ("ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "ip.id")
TCP_FIELDS = (
    "tcp.srcport",
    "tcp.dstport",
    "tcp.len",
    "tcp.flags",
    "tcp.seq",
    "tcp.ack",
    "tcp.window_size_value",
    "tcp.options.wscale.shift",
)
UDP_FIELDS = ("udp.srcport", "udp.dstport", "udp.length")
LAST = ("tcp.urgent_pointer", "udp.checksum")  # of each header: absent if the capture cut it off
OPTIONS = (
    "tcp.relative_sequence_numbers:false",
    "tcp.desegment_tcp_streams:false",
    "tcp.analyze_sequence_numbers:false",
    "ip.defragment:false",
    "ipv6.defragment:false",
)
Fields = dict[str, str]


def tshark_says(path: Path) -> list[Fields]:
    """A dictionary for each packet; only the fields that our reader has."""
    names = (*FRAME, *IP, *TCP_FIELDS, *UDP_FIELDS, *LAST)
    words = [word for option in OPTIONS for word in ("-o", option)]
    words += [word for name in names for word in ("-e", name)]
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", "-E", "occurrence=f", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return [_fields(dict(zip(names, line.split("\t"), strict=True))) for line in done.stdout.splitlines()]


def _fields(told: Fields) -> Fields:
    said = {name: told[name] for name in FRAME[:3]}
    layers = told["frame.protocols"].split(":")
    ip = next((i for i, layer in enumerate(layers) if layer in ("ip", "ipv6")), len(layers))
    above = [layer for layer in layers[ip + 1 :] if "." not in layer][:1]
    names = TCP_FIELDS if above == ["tcp"] else UDP_FIELDS if above == ["udp"] else ()
    if told[LAST[names == UDP_FIELDS]]:
        said |= {name: told[name] for name in (*names, *IP) if told[name]}
    return said


def ours(packets: Packets) -> list[Fields]:
    """In tshark's spelling."""
    return [_ours(packets, row) for row in range(len(packets))]


def _ours(packets: Packets, row: int) -> Fields:
    seconds, ns = divmod(int(packets.time_ns[row]), 10**9)
    said = {
        "frame.time_epoch": f"{seconds}.{ns:09d}",
        "frame.len": str(packets.wire_nbytes[row]),
        "frame.cap_len": str(packets.captured_nbytes[row]),
    }
    protocol = packets.protocol[row]
    ip = "ip" if packets.ip_version[row] == 4 else "ipv6"
    if protocol in (TCP, UDP):
        said[f"{ip}.src"] = packets.addresses[packets.src[row]]
        said[f"{ip}.dst"] = packets.addresses[packets.dst[row]]
        transport = "tcp" if protocol == TCP else "udp"
        said[f"{transport}.srcport"] = str(packets.sport[row])
        said[f"{transport}.dstport"] = str(packets.dport[row])
        if ip == "ip":
            said["ip.id"] = f"0x{packets.ip_id[row]:04x}"
    if protocol == UDP:
        said["udp.length"] = str(packets.payload_nbytes[row] + 8)
    if protocol == TCP:
        said["tcp.len"] = str(packets.payload_nbytes[row])
        said["tcp.flags"] = f"0x{packets.flags[row]:04x}"
        said["tcp.seq"] = str(packets.seq[row])
        said["tcp.ack"] = str(packets.ack[row])
        said["tcp.window_size_value"] = str(packets.window[row])
        if packets.window_shift[row] != NO_SHIFT:
            said["tcp.options.wscale.shift"] = str(packets.window_shift[row])
    return said
