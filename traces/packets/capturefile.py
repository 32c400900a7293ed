"""One capture file while it is read, whole or in pieces: its format, its packets, and why it ended."""

from pathlib import Path

import numpy as np

from gradwire.traces.packets.addresses import MAX_ADDRESSES, Addresses
from gradwire.traces.packets.columns import Octets, Records, empty_headers
from gradwire.traces.packets.decode import LINK_TYPES, decode
from gradwire.traces.packets.packets import BadCapture, Packets
from gradwire.traces.packets.pcap import FILE_HEADER_NBYTES, PcapWalker, byte_order
from gradwire.traces.packets.pcapng import PcapngWalker
from gradwire.traces.packets.pcapng_blocks import MAGIC
from gradwire.traces.packets.walkers import Walker


class FileReading:
    """`walker` goes through the bytes; what it finds becomes Packets here."""

    def __init__(self, path: Path, head: Octets, fault: str = "") -> None:
        """`head` is the beginning of the file, at least FILE_HEADER_NBYTES of it if it has as many.

        `fault` is why it ended early, "" if it did not.
        """
        self.path = path
        self.walker = _walker(path, head[:FILE_HEADER_NBYTES].tobytes(), fault)
        self._addresses = Addresses()

    def packets(self, data: Octets, records: Records, fault: str) -> Packets:
        """`fault` is why the file could not be read further, "" if it could."""
        interfaces = self.walker.interfaces
        if not len(records.time_ns):
            reason = f" ({fault})" if fault else ""
            raise BadCapture(
                f"{self.path}: it holds no complete packet{reason}: capture again, or leave the file out"
            )
        link_types = [interface.link_type for interface in interfaces]
        if not LINK_TYPES & set(link_types):
            raise BadCapture(
                f"{self.path}: gradwire does not read link type "
                f"{', '.join(map(str, sorted(set(link_types))))}: "
                "capture on an Ethernet interface, or on `any`"
            )
        headers = empty_headers(len(records.time_ns))
        n_cut, fits = decode(data, records, np.array(link_types, np.int32), self._addresses.table, headers)
        if not fits:
            raise BadCapture(
                f"{self.path}: it has more than {MAX_ADDRESSES:,} addresses, as in a scan or an attack: "
                f"keep the job's packets only, with `tshark -r {self.path.name} -Y ip.addr==10.0.0.0/8 "
                "-w job.pcapng`"
            )
        return Packets(
            path=self.path,
            data=data,
            truncated=bool(fault),
            addresses=self._addresses.texts(),
            **records._asdict(),
            **headers._asdict(),
            interfaces=interfaces,
            fault=fault,
            n_cut=n_cut,
        )


def _walker(path: Path, head: bytes, fault: str) -> Walker:
    if head[:4] == MAGIC:
        return PcapngWalker()
    if len(head) == FILE_HEADER_NBYTES and byte_order(head):
        return PcapWalker(head)
    what = fault or ("it is not a pcap or pcapng file" if head else "it is empty")
    raise BadCapture(f"{path}: {what}: give captures made by tcpdump -w, or a folder of them")
