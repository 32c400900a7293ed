"""Open MPI's control connections: their greeting is recognised, and nothing else is taken for it."""

import struct
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.framing.setups import VISIBLE_NBYTES, MpiControl, is_greeting
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.streams import assemble, connections
from tests.made_captures import ACK, SYN, pcap, stream

ORTED, MPIRUN = ("10.0.0.1", 42_168), ("10.0.0.254", 50_293)


def greeting(origin: int, target: int, job: int = 0x6564, kind: int = 1, nbytes: int = 8) -> bytes:
    """mca_oob_tcp_hdr_t of orte/mca/oob/tcp/oob_tcp_hdr.h, then a flag and the version."""
    header = struct.pack("<IIII", job, origin, job, target) + struct.pack(
        ">IIIB32s3x", 0, 0, nbytes, kind, b""
    )
    return header + b"\0\1" + b"4.0.0\0"


def fit_of(path: Path, forth: bytes, back: bytes) -> float | None:
    records = stream(ORTED, MPIRUN, [(1, forth)], 1, SYN) + stream(MPIRUN, ORTED, [(2, back)], 1, SYN | ACK)
    path.write_bytes(pcap(records))
    (connection,) = connections(assemble([read_capture(path)]))
    fit = MpiControl().fit(connection)
    return None if fit is None else fit.confidence


def test_daemons_are_known_by_their_greeting(tmp_path: Path) -> None:
    assert fit_of(tmp_path / "a.pcap", greeting(1, 0), greeting(0, 1)) == 0.9
    assert not MpiControl().is_training


def test_both_sides_must_greet(tmp_path: Path) -> None:
    assert fit_of(tmp_path / "a.pcap", greeting(1, 0), b"HTTP/1.1 200 OK" * 8) is None


def test_the_first_62_bytes_are_enough() -> None:
    assert is_greeting(greeting(1, 0)[:VISIBLE_NBYTES])
    assert VISIBLE_NBYTES <= 62
    assert not is_greeting(greeting(1, 0)[: VISIBLE_NBYTES - 1])


def test_other_messages_of_the_daemons_are_no_greeting() -> None:
    assert not is_greeting(greeting(1, 0, kind=4))
    assert not is_greeting(greeting(1, 0, job=0))
    assert not is_greeting(greeting(1, 0, nbytes=1 << 31))


@given(st.binary(min_size=VISIBLE_NBYTES, max_size=64))
def test_random_bytes_are_no_greeting(data: bytes) -> None:
    assert not is_greeting(data)
