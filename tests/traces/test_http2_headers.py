"""Paths of requests from header blocks of which a part may be missing; `hpack` encodes them."""

import pytest
from hpack import Encoder
from hypothesis import example, given
from hypothesis import strategies as st

from gradwire.traces.framing.http2_headers import Paths
from tests.made_http2 import AUTHORITY, Asks

PULL, PUSH, STATUS = "/ps.Worker/RecvTensor", "/ps.Worker/Push", "/ps.Worker/GetStatus"


@pytest.mark.parametrize("huffman", [True, False])
def test_whole_blocks_tell_every_path(huffman: bool) -> None:
    asks, paths = Asks(huffman=huffman), Paths()
    asked = [PULL, PUSH, PULL, STATUS, PULL, PUSH]
    assert [paths.read(asks.block(path), is_whole=True) for path in asked] == asked


@pytest.mark.parametrize("kept", [30, 45, 53])
def test_the_path_of_a_block_cut_off_behind_it_is_known_when_it_is_asked_for_again(kept: int) -> None:
    """30 bytes end in the authority's value: what a packet of 128 bytes shows of a first request."""
    asks, paths = Asks(), Paths()
    assert paths.read(asks.block(PULL)[:kept], is_whole=False) == PULL
    again = asks.block(PULL)
    assert len(again) < 10
    assert paths.read(again, is_whole=True) == PULL


def test_paths_added_after_a_cut_are_told_apart() -> None:
    asks, paths = Asks(), Paths()
    paths.read(asks.block(PULL)[:40], is_whole=False)
    asked = [PUSH, PULL, PUSH, STATUS, PULL, STATUS, PUSH]
    assert [paths.read(asks.block(path), is_whole=True) for path in asked] == asked


def test_after_requests_that_were_not_captured_known_paths_are_known_again() -> None:
    asks, paths = Asks(), Paths()
    assert paths.read(asks.block(PULL), is_whole=True) == PULL
    asks.block(PUSH)  # hidden, and so is what it adds to the table
    paths.miss()
    assert paths.read(asks.block(PULL), is_whole=True) == PULL
    assert paths.read(asks.block(PUSH), is_whole=True) is None
    assert paths.read(asks.block(STATUS), is_whole=True) == STATUS


def test_requests_of_a_capture_that_begins_later_have_no_path_until_it_is_spelled_out() -> None:
    asks, paths = Asks(), Paths()
    asks.block(PULL)
    paths.miss()
    assert [paths.read(asks.block(path), is_whole=True) for path in (PULL, PUSH, PULL, PUSH)] == [
        None,
        PUSH,
        None,
        PUSH,
    ]


def test_the_authority_may_stand_before_the_path_as_java_writes_it() -> None:
    encoder, paths = Encoder(), Paths()
    always = [("te", "trailers"), ("user-agent", "grpc-java-netty/1.60")]

    def block(path: str) -> bytes:
        return encoder.encode(
            [(":authority", AUTHORITY), (":path", path), (":method", "POST"), *always], huffman=False
        )

    assert paths.read(block(PULL)[:45], is_whole=False) == PULL
    asked = [PULL, PUSH, PULL, PUSH]
    assert [paths.read(block(path), is_whole=True) for path in asked] == asked


def test_a_bomb_of_indices_takes_no_memory() -> None:
    """4,000 bytes into the table, then 8,000 times its entry (CVE-2016-6581 was hpack's own)."""
    paths = Paths()
    paths.read(b"\x40\x05:path\x7f\xa1\x1e" + b"a" * 4_000, is_whole=True)
    assert len(paths.read(b"\xbe" * 8_000, is_whole=True) or "") <= 4_000


@given(st.lists(st.tuples(st.binary(max_size=60), st.booleans()), max_size=5))
def test_any_bytes_give_a_path_or_none(blocks: list[tuple[bytes, bool]]) -> None:
    asks, paths = Asks(), Paths()
    for block, is_whole in blocks:
        paths.read(asks.block(PULL), is_whole=is_whole)
        assert isinstance(paths.read(block, is_whole=is_whole), str | None)


@example([(STATUS, 23), (PULL, 0), (PUSH, 17), (PULL, 2)])
@given(st.lists(st.tuples(st.sampled_from([PULL, PUSH, STATUS]), st.integers(0, 120)), max_size=10))
def test_what_is_cut_off_makes_a_path_unknown_but_never_another(asked: list[tuple[str, int]]) -> None:
    asks, paths = Asks(), Paths()
    for path, kept in asked:
        block = asks.block(path)
        assert paths.read(block[:kept], is_whole=kept >= len(block)) in (path, None)
