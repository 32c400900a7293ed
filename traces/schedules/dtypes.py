"""Types of the numbers that operations add up, on the wire as well as in the sum."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from gradwire.traces.units import one_of

DType = Literal["float32", "float16", "bfloat16"]
DTYPES: tuple[DType, ...] = get_args(DType)
FLOAT32: DType = "float32"


@dataclass(frozen=True, slots=True)
class _Format:
    """Bytes of a number, bits of its significand with the hidden one, and NCCL's name."""

    nbytes: int
    significand_bits: int
    nccl: str


_FORMATS: Mapping[DType, _Format] = {
    "float32": _Format(4, 24, "float"),
    "float16": _Format(2, 11, "half"),
    "bfloat16": _Format(2, 8, "bfloat16"),
}


def element_nbytes(dtype: DType) -> int:
    """The bytes of one number."""
    return _FORMATS[dtype].nbytes


def exact_to(dtype: DType) -> int:
    """Whole numbers up to this one are exact, and so are their sums as long as these are not larger."""
    return 1 << _FORMATS[dtype].significand_bits


def nccl_name(dtype: DType) -> str:
    """As nccl-tests names it."""
    return _FORMATS[dtype].nccl


def parse_dtype(text: str) -> DType:
    """A type by its name."""
    return one_of("type of numbers", text, DTYPES)
