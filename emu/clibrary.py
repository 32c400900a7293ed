"""Loads what is compiled from C for Python's processes, with the types of its functions."""

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradwire import COMMAND

Signatures = Mapping[str, tuple[Any, tuple[Any, ...]]]
"""Of each function its result and its arguments, as ctypes has them."""


def loaded_library(path: Path, signatures: Signatures) -> ctypes.CDLL:
    """Raise OSError if it was not compiled."""
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise OSError(f"the compiled {path.name} does not load: {error}; run sudo {COMMAND} setup") from error
    for name, (result, arguments) in signatures.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded
