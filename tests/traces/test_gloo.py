"""gloo's framing against bytes taken from a torch 2.13 capture, and against itself."""

import ast
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.framing import gloo
from gradwire.traces.framing.gloo import (
    COLLECTIVES,
    MAX_LENGTH,
    PREAMBLE_NBYTES,
    PREFIXES,
    Opcode,
    Slot,
    decode_preamble,
    encode_preamble,
    pack_slot,
    unpack_slot,
)

SAMPLES = Path(__file__).parents[2] / "traces" / "samples"
# A segment of the allreduce with tag 3, as torch wrote it in the sample ddp_gloo_8.
ON_THE_WIRE = bytes.fromhex(
    "345300000000000001000000000000000000000300000004000000000000000004530000000000000000000000000000"
)


def test_a_captured_preamble_is_read_and_written_byte_for_byte() -> None:
    assert ON_THE_WIRE in (SAMPLES / "ddp_gloo_8" / "h7.pcap").read_bytes()
    read = decode_preamble(ON_THE_WIRE)
    assert read == (21_300, Opcode.DATA, 4 << 56 | 3 << 24, 21_252)
    assert encode_preamble(Opcode.DATA, pack_slot(PREFIXES["allreduce"], 3), 21_252) == ON_THE_WIRE


@given(
    st.sampled_from(list(Opcode)),
    st.sampled_from(sorted(COLLECTIVES)),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**24 - 1),
    st.integers(0, MAX_LENGTH),
)
def test_what_is_written_is_what_is_read(
    opcode: Opcode, prefix: int, tag: int, delta: int, length: int
) -> None:
    data = encode_preamble(opcode, pack_slot(prefix, tag, delta), length)
    assert len(data) == PREAMBLE_NBYTES
    read = decode_preamble(data)
    assert read is not None
    assert (read.opcode, read.length) == (opcode, length)
    assert read.nbytes == PREAMBLE_NBYTES + (length if opcode.has_payload else 0)
    assert unpack_slot(read.slot) == (prefix, tag, delta)


def test_the_slot_of_a_send_is_its_tag() -> None:
    assert unpack_slot(2) == Slot(0, 2)


@given(st.binary(min_size=48, max_size=60))
def test_random_bytes_are_no_preamble(data: bytes) -> None:
    assert decode_preamble(data) is None


@pytest.mark.parametrize(
    ("prefix", "tag", "delta"), [(0, 1, 0), (12, 1, 0), (4, 2**32, 0), (4, -1, 0), (4, 1, 2**24)]
)
def test_a_slot_that_gloo_could_not_make_is_refused(prefix: int, tag: int, delta: int) -> None:
    with pytest.raises(ValueError, match="gloo"):
        pack_slot(prefix, tag, delta)


def test_a_length_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="got -1"):
        encode_preamble(Opcode.DATA, 1, -1)


def test_the_agents_can_import_the_framing_without_numpy() -> None:
    tree = ast.parse(Path(gloo.__file__).read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= set(sys.stdlib_module_names)
