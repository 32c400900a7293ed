"""float16 numbers are added bit for bit as numpy adds them."""

import numpy as np
import pytest
from numpy.typing import NDArray

from gradwire.emu.replay.float16 import add_halves

SPECIAL = np.array(
    [0, 1, 0x3FF, 0x400, 0x401, 0x7BFF, 0x7C00, 0x7E00], np.uint16
)  # 0, subnormal … not a number


def assert_added(own: NDArray[np.float16], others: NDArray[np.float16]) -> None:
    with np.errstate(all="ignore"):
        wanted = own + others
    found = own.copy()
    add_halves(found, others)
    same = (found.view(np.uint16) == wanted.view(np.uint16)) | (np.isnan(found) & np.isnan(wanted))
    assert same.all()


@pytest.mark.parametrize("n_numbers", [0, 1, 4095, 4096, 4097, 1 << 18])
def test_any_numbers_have_numpys_sums(n_numbers: int) -> None:
    random = np.random.default_rng(n_numbers)
    own, others = (
        random.integers(0, 1 << 16, n_numbers).astype(np.uint16).view(np.float16) for _ in range(2)
    )
    assert_added(own, others)


def test_the_smallest_the_largest_and_those_without_a_value_have_numpys_sums() -> None:
    every = np.concatenate((SPECIAL, SPECIAL | 0x8000)).astype(np.uint16).view(np.float16)
    assert_added(np.repeat(every, len(every)), np.tile(every, len(every)))
