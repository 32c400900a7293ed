"""HTTP/2's frame headers (RFC 9113)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.framing.http2 import FrameHeader, FrameType, decode_header
from tests.made_http2 import END, HEAD, frame


@pytest.mark.parametrize(
    ("head", "meaning"),
    [
        ("0000240400 00000000", FrameHeader(36, FrameType.SETTINGS, 0, 0)),
        ("0200000000 0000000d", FrameHeader(131_072, FrameType.DATA, 0, 13)),
        ("0000010105 00000005", FrameHeader(1, FrameType.HEADERS, END | HEAD, 5)),
        ("0000080601 00000000", FrameHeader(8, FrameType.PING, 1, 0)),
        ("0000040800 00000007", FrameHeader(4, FrameType.WINDOW_UPDATE, 0, 7)),
        ("ffffff0000 7fffffff", FrameHeader((1 << 24) - 1, FrameType.DATA, 0, (1 << 31) - 1)),
    ],
)
def test_a_header_says_what_tshark_says_of_it(head: str, meaning: FrameHeader) -> None:
    """The first five are from a capture of TensorFlow, by tshark 4.0."""
    assert decode_header(bytes.fromhex(head)) == meaning


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ("0000000000 00000001", "data of no bytes that ends nothing"),
        ("0000090600 00000000", "a ping has 8 bytes"),
        ("0000040400 00000000", "a setting has 6 bytes"),
        ("0000080601 00000001", "a ping is on no stream"),
        ("0000050000 00000000", "data is on a stream"),
        ("0000050000 00000002", "clients open odd streams"),
        ("0000050000 80000001", "the reserved bit"),
        ("0000050004 00000001", "data has no END_HEADERS"),
        ("0000050a00 00000001", "there is no type 10"),
        ("00000500", "it is not whole"),
    ],
)
def test_nine_bytes_that_no_sender_writes_are_no_header(head: str, why: str) -> None:
    assert decode_header(bytes.fromhex(head)) is None, why


@given(st.binary(max_size=12))
def test_any_bytes_are_a_header_that_is_written_the_same_or_none(head: bytes) -> None:
    found = decode_header(head)
    if found is not None:
        assert frame(found.type, found.flags, found.stream_id, b"")[3:] == head[3:9]
        assert found.nbytes == int.from_bytes(head[:3], "big")
