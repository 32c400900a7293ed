"""Open MPI's wire format against bytes that Open MPI 4.1.4 wrote, and against hostile ones."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.framing.mpi_btl import (
    BTL_NBYTES,
    HEAD_NBYTES,
    MAX_MESSAGE_NBYTES,
    Envelope,
    Fragment,
    Process,
    What,
    decode_fragment,
    decode_handshake,
    is_sure,
    operation_of,
    payload_nbytes,
)
from tests.made_mpi import ack, close, frag, handshake, match, put_request, rndv

CAPTURE = Path(__file__).parents[2] / "traces" / "samples" / "mpi_4_tso" / "h1.pcap"
HANDSHAKE = "01005363010000004f50414c2d5443502d42544c00550000"
BARRIER = "410100000e0000004100000001000000f0ffffff0100"
RNDV = "4201000020000000422c000000000000f4ffffff020000000000020000000000c043e4c6d0550000"
PUT_REQUEST = (
    "48010000380000004844000001000000c043e4c6d055000040e3adc0b8550000800daec0b8550000000000000000000010d0d570c47f"
    "0000000002000000"
)
PUT = "200201000000020010d0d570c47f00000000020000000000"
FIN = "4901000018000000490000000100000000000200000000000023e4c6d0550000"
REQUEST, TARGET = 0x55D0C6E443C0, 0x7FC470D5D010


def read(text: str) -> Fragment:
    data = bytes.fromhex(text)
    assert data in CAPTURE.read_bytes()
    found = decode_fragment(data)
    assert found is not None
    return found


def test_captured_fragments_say_what_open_mpi_put_into_them() -> None:
    assert read(BARRIER) == Fragment(What.MATCH, 22, 14, Envelope(0, 1, -16, 1))
    assert read(RNDV) == Fragment(What.RNDV, 40, 32, Envelope(0, 0, -12, 2), total=131_072, request=REQUEST)
    assert read(PUT) == Fragment(What.PUT, 24 + 131_072, 131_072, address=TARGET)
    assert read(FIN) == Fragment(What.FIN, 32, 24, total=131_072, cookie=0x55D0C6E42300)


def test_the_first_62_bytes_of_a_put_request_tell_the_size_it_asks_for() -> None:
    found = read(PUT_REQUEST)
    assert len(bytes.fromhex(PUT_REQUEST)) == 62
    assert (found.what, found.nbytes, found.total) == (What.PUT_REQUEST, 64, 131_072)
    assert (found.request, found.cookie, found.address) == (REQUEST, 0x55B8C0ADE340, TARGET)


def test_a_captured_handshake_names_the_process() -> None:
    data = bytes.fromhex(HANDSHAKE)
    assert data in CAPTURE.read_bytes()
    assert decode_handshake(data) == Process(0x63530001, 1)


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_process_is_named_in_either_byte_order(order: str) -> None:
    assert decode_handshake(handshake(7, order)) == Process(0x64650001, 7)


def test_another_greeting_is_no_handshake() -> None:
    assert decode_handshake(handshake(1).replace(b"OPAL", b"ORTE")) is None
    assert decode_handshake(handshake(1)[:-1]) is None


def test_numbers_are_in_network_order_where_the_fragment_says_so() -> None:
    header = struct.pack(">BBHiiHxxQQ", 0x42, 0x02, 3, 1, 77, 9, 5000, 0xAB)
    found = decode_fragment(struct.pack(">BBHI", 0x42, 1, 0, len(header)) + header)
    assert found == Fragment(What.RNDV, 40, 32, Envelope(3, 1, 77, 9), total=5000, request=0xAB)
    put = decode_fragment(struct.pack(">BBHIQQ", 0x20, 2, 1, 5000, 0xCD, 5000))
    assert put == Fragment(What.PUT, 5024, 5000, address=0xCD)


def test_an_extended_header_of_open_mpi_5_leads_to_the_message() -> None:
    inner = match(5, b"xyz")[BTL_NBYTES:]
    body = struct.pack("<BB6xQQhxxi", 0x4A, 0, 1, 2, 3, 0) + inner
    found = decode_fragment(struct.pack("<BBHI", 0x4A, 1, 0, len(body)) + body)
    assert found is not None
    assert (found.what, found.nbytes, found.envelope) == (What.MATCH, 8 + 32 + 17, Envelope(0, 0, 5, 1))
    assert payload_nbytes(found, 14) == 3


def test_the_rest_of_ob1_and_the_btl_is_known() -> None:
    assert decode_fragment(ack(9, 100, 0)) == Fragment(What.ACK, 48, 40, total=0, request=9)
    found = decode_fragment(frag(9, 100, b"x" * 50))
    assert found == Fragment(What.FRAG, 90, 82, request=9)
    assert payload_nbytes(found, 14) == 50
    assert decode_fragment(close()) == Fragment(What.CLOSE, 8, 0)
    other = decode_fragment(struct.pack("<BBHI", 0x60, 1, 0, 100))
    assert other == Fragment(What.OTHER, 108, 100)


@pytest.mark.parametrize("header", [14, 16])
def test_what_a_match_carries_depends_on_the_builds_header(header: int) -> None:
    found = decode_fragment(match(1, b"abcd", pad=b"\0" * (header - 14)))
    assert found is not None
    assert payload_nbytes(found, header) == 4


@pytest.mark.parametrize(
    "data",
    [
        b"\x41\1\0\0" + struct.pack("<I", 1 << 31) + b"\x41\0",  # no eager message is that large
        b"\x41\1\0\0" + struct.pack("<I", 13) + b"\x41\0",  # shorter than its header
        b"\x41\1\1\0" + struct.pack("<I", 14) + b"\x41\0",
        b"\x41\1\0\0" + struct.pack("<I", 14) + b"\x42\0",  # another type than its tag
        b"\x41\5\0\0" + struct.pack("<I", 14),
        struct.pack("<BBHIQQ", 0x20, 2, 1, 100, 0, 1 << 63),  # the segment is larger than the fragment
        struct.pack("<BBHIQQ", 0x20, 2, 65_535, 1 << 31, 0, 0),
        struct.pack("<BBHIQQ", 0x20, 2, 0, 0, 0, 0),
        rndv(1, MAX_MESSAGE_NBYTES + 1, 1),
        rndv(1, 1 << 63, 1),
        put_request(1, 1, 1, 1 << 63),
        match(1, src=-5),
    ],
)
def test_what_open_mpi_would_not_write_is_no_fragment(data: bytes) -> None:
    assert decode_fragment(data) is None


@given(st.binary(min_size=22, max_size=HEAD_NBYTES))
def test_random_bytes_are_surely_no_fragment(data: bytes) -> None:
    found = decode_fragment(data)
    assert found is None or not is_sure(found, len(data))


@given(
    st.binary(min_size=8, max_size=HEAD_NBYTES), st.sampled_from([0x20, 0x41, 0x42, 0x44, 0x48, 0x49, 0x4A])
)
def test_a_fragment_is_never_shorter_than_its_header(data: bytes, tag: int) -> None:
    kind = 2 if tag == 0x20 else 1
    found = decode_fragment(bytes([tag, kind, kind - 1, 0]) + data[4:8] + bytes([tag]) + data[9:])
    if found is not None:
        assert 22 <= found.nbytes < 2**32
        assert 0 <= payload_nbytes(found, 14) < found.nbytes


@pytest.mark.parametrize(
    ("tag", "operation"),
    [
        (-10, ("allgather", None)),
        (-12, ("allreduce", None)),
        (-16, ("barrier", None)),
        (-17, ("broadcast", None)),
        (-21, ("reduce", None)),
        (-22, ("reduce_scatter", None)),
        (-26, ("scatterv", None)),
        (-27, ("nonblocking", 27)),
        (-1_000, ("nonblocking", 1_000)),
        (-3, ("internal", None)),
        (0, ("send", 0)),
        (4_711, ("send", 4_711)),
    ],
)
def test_a_tag_names_the_operation(tag: int, operation: tuple[str, int | None]) -> None:
    """The numbers are those of ompi/mca/coll/base/coll_tags.h, v4.1.4."""
    assert operation_of(tag) == operation
