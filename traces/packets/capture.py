"""Capture files of any format as packets.  An edge module: it opens files."""

from pathlib import Path

from traces.packets.packets import Packets
from traces.packets.pcap import read_pcap


def read_capture(path: Path) -> Packets:
    """All packets of a file; raise BadCapture, OSError."""
    return read_pcap(path)
