"""Compares packets with what tshark (by pyshark) reads from them.  An edge module: it runs tshark.

pyshark takes 7 ms for a packet, so this is for the first few hundred.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.packets import TCP, UDP, BadCapture, Packets

_OPTIONS = (  # what is on the wire, not what several packets mean together
    "tcp.desegment_tcp_streams:false",
    "tcp.analyze_sequence_numbers:false",
    "ip.defragment:false",
    "ipv6.defragment:false",
)
_NUMBERS = {TCP: "tcp", UDP: "udp"}


def verify_files(paths: Sequence[Path], count: int) -> None:
    """Raise BadCapture if the first `count` packets of any file are not what tshark reads."""
    for path in paths:
        differences = verify(path, read_capture(path), count)
        if differences:
            others = f"; {len(differences) - 1} more differences" if len(differences) > 1 else ""
            raise BadCapture(f"{path}: {differences[0]}{others}: please report it, with the file")


def _have_loop() -> None:
    """pyshark takes the thread's event loop, and whoever used asyncio before has left none."""
    try:
        asyncio.get_event_loop_policy().get_event_loop()
    except RuntimeError:
        asyncio.set_event_loop(asyncio.new_event_loop())


def verify(path: Path, packets: Packets, count: int) -> list[str]:
    """What differs in the first `count` packets of a file, a line for each field; raise BadCapture."""
    _have_loop()
    import pyshark
    from pyshark.capture.capture import TSharkCrashException
    from pyshark.tshark.tshark import TSharkNotFoundException

    options = [word for option in _OPTIONS for word in ("-o", option)]
    differences: list[str] = []
    n_theirs = 0
    try:
        with pyshark.FileCapture(
            str(path), keep_packets=False, custom_parameters=["-n", "-c", str(count), *options]
        ) as capture:
            try:
                # It ends with an error on files that are cut off, after all whole packets.
                with suppress(TSharkCrashException), closing(iter(capture)) as read:
                    for row, theirs in enumerate(read):
                        n_theirs = row + 1
                        if row < len(packets):
                            differences += _differences(row, ours_of(packets, row), theirs_of(theirs))
            finally:
                # tshark has ended, and pyshark would raise the same again as it closes and collects the file.
                capture._running_processes.clear()  # noqa: SLF001 - it has no other way
    except TSharkNotFoundException as error:
        raise BadCapture(
            f"{path}: cannot compare it: tshark is not installed: run apt-get install tshark"
        ) from error
    if n_theirs != min(count, len(packets)):
        differences.append(f"packets: tshark reads {n_theirs:,}, gradwire {min(count, len(packets)):,}")
    return differences


def _differences(row: int, ours: Mapping[str, object], theirs: Mapping[str, object]) -> Iterator[str]:
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            yield f"packet {row + 1}: {name} is {ours.get(name)}, tshark says {theirs.get(name)}"


def ours_of(packets: Packets, row: int) -> dict[str, object]:
    """The fields that are compared, of one packet."""
    fields: dict[str, object] = {
        "time": Decimal(int(packets.time_ns[row])) / 10**9,
        "wire bytes": int(packets.wire_nbytes[row]),
        "captured bytes": int(packets.captured_nbytes[row]),
    }
    protocol = int(packets.protocol[row])
    if protocol not in _NUMBERS:
        return fields
    fields |= {
        "protocol": _NUMBERS[protocol],
        "source": (packets.addresses[packets.src[row]], int(packets.sport[row])),
        "destination": (packets.addresses[packets.dst[row]], int(packets.dport[row])),
        "payload bytes": int(packets.payload_nbytes[row]),
    }
    if protocol == TCP:
        for name in ("seq", "ack", "flags", "window"):
            fields[name] = int(getattr(packets, name)[row])
    return fields


def theirs_of(packet: Any) -> dict[str, object]:
    """The same of a packet of pyshark's."""
    fields: dict[str, object] = {
        "time": Decimal(packet.frame_info.time_epoch),
        "wire bytes": int(packet.length),
        "captured bytes": int(packet.captured_length),
    }
    layers = [layer for layer in packet.layers if "." not in layer.layer_name]  # extension headers have dots
    names = [layer.layer_name for layer in layers]
    place = next((i for i, name in enumerate(names) if name in ("ip", "ipv6")), len(names))
    if not set(names[place + 1 : place + 2]) & set(_NUMBERS.values()):
        return fields
    network, transport = layers[place], layers[place + 1]
    ends = {
        "protocol": transport.layer_name,
        "source": (str(network.src), int(transport.srcport)),
        "destination": (str(network.dst), int(transport.dstport)),
    }
    last = "checksum" if transport.layer_name == "udp" else "urgent_pointer"
    if not hasattr(transport, last):
        return fields  # the capture cut the header off
    if transport.layer_name == "udp":
        return fields | ends | {"payload bytes": int(transport.length) - 8}
    return (
        fields
        | ends
        | {
            "payload bytes": int(transport.len),
            "seq": int(transport.seq_raw),
            "ack": int(transport.ack_raw),
            "flags": int(str(transport.flags), 16) & 0xFF,
            "window": int(transport.window_size_value),
        }
    )
