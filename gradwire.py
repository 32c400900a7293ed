"""gradwire in Python.

In a checkout this file is the package `gradwire`, and the folders beside it are its subpackages; a wheel has
it as `gradwire/__init__.py`, with the same folders beside it (pyproject.toml).
"""

from pathlib import Path

__path__ = [str(Path(__file__).parent)]
__version__ = "0.1.0"

COMMAND = "./gradwire" if Path(__file__).name == "gradwire.py" else "gradwire"  # in a checkout; installed
