"""Loops that set-up compiled, and those that numba compiles when they are called."""

import subprocess
import sys
from pathlib import Path
from types import FunctionType

import numpy as np
import numpy.typing as npt
import pytest

from gradwire.tools.looplibrary import MODULES
from gradwire.traces.packets.jit import Compiled, ndim_of
from tests.made_captures import tcp
from tests.made_pcapng import interface, packet, section

ROOT = Path(__file__).parents[2]
LIMIT = 3


def n_below_limit(values: npt.NDArray[np.int64]) -> int:
    n = 0
    for value in values:
        n += value < LIMIT
    return n


def printed(code: str) -> str:
    """By a fresh Python, in which nothing was compiled yet."""
    return subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}"], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout


def test_set_up_compiled_every_loop_of_this_source() -> None:
    code = "from gradwire.tools.looplibrary import entries\n"
    code += "print(sorted(one.function.__name__ for one in entries() if one.built is not None))\n"
    code += "print([one.function.__name__ for one in entries() if one.built is None])"
    built, missing = printed(code).splitlines()
    assert all(f"'{name}'" in built for name in ("decode", "_walk", "walk_blocks", "_paint"))
    assert missing == "[]"


def test_every_module_with_loops_is_compiled() -> None:
    """Those of the fluid model alone are compiled when a large plan asks for them (planning.model.loops)."""
    decorated = "\n@" + "compiled\n"
    folders = (ROOT / folder for folder in ("traces", "planning", "results"))
    paths = [path for folder in folders for path in folder.rglob("*.py") if decorated in path.read_text()]
    assert {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths} == set(MODULES)


@pytest.mark.long
def test_captures_are_read_without_numba(tmp_path: Path) -> None:
    frame = tcp(("10.0.0.1", 5), ("10.0.0.2", 6), 1, b"payload")
    pcapng = tmp_path / "one.pcapng"
    pcapng.write_bytes(section() + interface() + packet(1, frame))  # a stream without a SYN
    captures = (ROOT / "traces" / "samples" / "mpi_4_tso", pcapng)
    for capture in captures:
        code = f"from gradwire.tools.cli import main\ntry: main(['inspect', '--json', {str(capture)!r}])\n"
        code += "except SystemExit as end: print('\\n', end.code, 'numba' in sys.modules)"
        assert printed(code).splitlines()[-1] == " 0 False"


@pytest.mark.long
def test_a_plan_is_made_and_checked_without_numba() -> None:
    capture = str(ROOT / "traces" / "samples" / "mpi_4_tso")
    command = ["plan", capture, "--fabric", "star:hosts=4", "--algorithm", "halving-doubling", "--json"]
    code = f"from gradwire.tools.cli import main\ntry: main({command!r})\n"
    code += "except SystemExit as end: print('\\n', end.code, 'numba' in sys.modules)"
    assert printed(code).splitlines()[-1] == " 0 False"


@pytest.mark.long
def test_other_types_than_the_annotated_ones_are_left_to_numba() -> None:
    code = "import numpy as np\nfrom gradwire.traces.packets.cover import _paint\n"
    code += "owner = np.full(4, -1, {0})\n_paint(np.array([0, 1], {0}), np.array([2, 4], {0}), owner)\n"
    code += "print(owner.tolist(), 'numba' in sys.modules)"
    assert printed(code.format("np.int64")) == "[0, 0, 1, 1] False\n"
    assert printed(code.format("np.int32")) == "[0, 0, 1, 1] True\n"


def test_an_array_has_as_many_dimensions_as_its_annotation_says() -> None:
    assert ndim_of(npt.NDArray[np.int64]) == 1
    assert ndim_of(np.ndarray[tuple[int, int], np.dtype[np.uint64]]) == 2


def test_a_loop_is_known_by_its_code_and_by_the_constants_in_it() -> None:
    def named(limit: int) -> str:
        same = FunctionType(n_below_limit.__code__, {**n_below_limit.__globals__, "LIMIT": limit})
        same.__annotations__ = n_below_limit.__annotations__
        return Compiled(same).built_name

    assert named(3) == Compiled(n_below_limit).built_name
    assert named(4) != named(3)


def test_a_loop_that_is_in_no_library_is_compiled_when_called() -> None:
    loop = Compiled(n_below_limit)
    assert loop.built is None
    assert loop(np.arange(10)) == 3
    assert loop.py_func is n_below_limit


MADE_BY_SET_UP = """
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
sys.path.insert(0, {0!r})
from loop import entry
from gradwire.tools import looplibrary
looplibrary.FOLDER = Path({0!r})
looplibrary.entries = lambda: [entry]
looplibrary.build()
(path,) = looplibrary.FOLDER.glob("loops.*.so")
library = module_from_spec(spec_from_loader("loops", ExtensionFileLoader("loops", str(path))))
print(getattr(library, entry.built_name)(4))
"""


@pytest.mark.long
def test_set_up_compiles_a_loop_again_when_a_constant_from_another_file_changes(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(
        "from limit import LIMIT\nfrom gradwire.traces.packets.jit import compiled\n"
        "@compiled\ndef is_below(value: int) -> bool:\n    return value < LIMIT\n"
        "@compiled\ndef entry(value: int) -> bool:\n    return is_below(value)\n"
    )
    for limit, answer in ((3, "False"), (50, "True")):
        (tmp_path / "limit.py").write_text(f"LIMIT = {limit}\n")
        assert printed(MADE_BY_SET_UP.format(str(tmp_path))).splitlines()[-1] == answer
