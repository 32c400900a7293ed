"""Run the switch's program on one packet, without a network (the kernel's BPF_PROG_TEST_RUN)."""

import ctypes
import struct
from dataclasses import dataclass

from gradwire.emu.switch.plane.bpf import BpfObject, ProgramRun
from gradwire.emu.switch.plane.maps import PROGRAM

REDIRECT, SHOT = 7, 2  # TC_ACT_REDIRECT, TC_ACT_SHOT
_SK_BUFF_NBYTES = 192
_GSO_SEGS, _GSO_SIZE = 164, 176  # offsets in struct __sk_buff of linux/bpf.h


@dataclass(frozen=True)
class Packet:
    """An IPv4 packet; `fragment` is its offset in units of 8 bytes."""

    src: int
    dst: int
    proto: int
    sport: int
    dport: int
    payload_nbytes: int = 0
    options_nbytes: int = 0  # of the TCP header
    fragment: int = 0

    def octets(self) -> bytes:
        if self.proto == 6:
            l4 = struct.pack("!HHIIBBHHH", self.sport, self.dport, 0, 0, 0, 16, 1000, 0, 0)
            l4 = (
                l4[:12] + bytes([(20 + self.options_nbytes) // 4 << 4]) + l4[13:] + bytes(self.options_nbytes)
            )
        elif self.proto == 17:
            l4 = struct.pack("!HHHH", self.sport, self.dport, 8 + self.payload_nbytes, 0)
        else:
            l4 = struct.pack("!HH", self.sport, self.dport)  # no ports: what is there must not count
        length = 20 + len(l4) + self.payload_nbytes
        ip = struct.pack(
            "!BBHHHBBHII", 0x45, 0, length, 0, self.fragment, 64, self.proto, 0, self.src, self.dst
        )
        return bytes(12) + b"\x08\x00" + ip + l4 + bytes(self.payload_nbytes)


def run_program(loaded: BpfObject, octets: bytes, gso_size: int = 0, gso_segs: int = 0) -> int:
    """What the program returns for a packet that came in through interface 1, the loopback."""
    context = bytearray(_SK_BUFF_NBYTES)
    struct.pack_into("=I", context, _GSO_SEGS, gso_segs)
    struct.pack_into("=I", context, _GSO_SIZE, gso_size)
    options = ProgramRun(
        sz=ctypes.sizeof(ProgramRun),
        data_in=octets,
        data_size_in=len(octets),
        ctx_in=bytes(context),
        ctx_size_in=len(context),
    )
    libbpf = ctypes.CDLL("libbpf.so.1", use_errno=True)
    failed = libbpf.bpf_prog_test_run_opts(loaded.program_fd(PROGRAM), ctypes.byref(options))
    assert not failed, f"test run refused: errno {ctypes.get_errno()}"
    return int(options.retval)
