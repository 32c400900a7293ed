"""Types of the numbers that operations add up, on the wire as well as in the sum."""

from typing import Literal, get_args

DType = Literal["float32", "float16", "bfloat16"]
DTYPES: tuple[DType, ...] = get_args(DType)
FLOAT32: DType = "float32"

_NBYTES: dict[DType, int] = {"float32": 4, "float16": 2, "bfloat16": 2}
_SIGNIFICAND_BITS: dict[DType, int] = {"float32": 24, "float16": 11, "bfloat16": 8}  # with the hidden one


def element_nbytes(dtype: DType) -> int:
    """The bytes of one number."""
    return _NBYTES[dtype]


def exact_to(dtype: DType) -> int:
    """Whole numbers up to this one are exact, and so are their sums as long as these are not larger."""
    return 1 << _SIGNIFICAND_BITS[dtype]


def parse_dtype(text: str) -> DType:
    """A type by its name."""
    for dtype in DTYPES:
        if text == dtype:
            return dtype
    raise ValueError(f"gradients cannot be sent as {text!r}: choose {', '.join(DTYPES)}")
