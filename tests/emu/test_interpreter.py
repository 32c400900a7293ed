"""No process of the project runs Python code from the user's current folder."""

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gradwire.emu.interpreter import python

ROOT = Path(__file__).parents[2]
ONLY = "emu/interpreter.py"
SHIPPED = [
    path.relative_to(ROOT).as_posix()
    for package in ("traces", "planning", "emu", "controller", "results", "tools", "benchmarks")
    for path in sorted((ROOT / package).rglob("*.py"))
]
TESTS = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests").rglob("*.py"))]
# Each spells Python's path or its name in a command.
NAMES = ("python", "python3")


def spelled(source: str) -> Iterator[int]:
    """The lines that name an interpreter: `sys.executable`, or "python" as a command's first word."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr == "executable":
            yield node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module == "sys":
            yield from (node.lineno for alias in node.names if alias.name == "executable")
        elif isinstance(node, ast.List | ast.Tuple):
            words = [element.value for element in node.elts if isinstance(element, ast.Constant)]
            if words and isinstance(words[0], str) and Path(words[0]).name in NAMES:
                yield node.lineno


def modules_without_isolation(source: str) -> Iterator[int]:
    """The lines whose command starts a module (-m) with `sys.executable` and without `python` or -P."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.List | ast.Tuple) and any(map(is_executable, node.elts)):
            words = {element.value for element in node.elts if isinstance(element, ast.Constant)}
            if "-m" in words and not words & {"-P", "-I"}:
                yield node.lineno


def is_executable(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "executable"


def lines_of(modules: list[str], scan: Callable[[str], Iterator[int]]) -> list[str]:
    """Where the scan finds something: `file:line`.  Only what has one of these words in it need be parsed."""
    sources = {module: (ROOT / module).read_text() for module in modules}
    return [
        f"{module}:{line}"
        for module, source in sources.items()
        if "executable" in source or "python" in source
        for line in scan(source)
    ]


def test_only_one_module_says_how_python_is_started() -> None:
    assert lines_of([module for module in SHIPPED if module != ONLY], spelled) == []


def test_tests_start_the_projects_modules_as_the_project_does() -> None:
    assert lines_of(TESTS, modules_without_isolation) == []


@pytest.mark.parametrize(
    "source",
    [
        'import sys\nrun([sys.executable, "-m", "gradwire.emu.session"])',
        'from sys import executable\nrun([executable, "-m", "gradwire.emu.session"])',
        'run(["python3", "-m", "gradwire.emu.session"])',
        'run(("/usr/bin/python", "x.py"))',
        "import sys as s\ncommand = [s.executable]",
    ],
)
def test_the_scan_notices_a_python_started_elsewhere(source: str) -> None:
    assert list(spelled(source)) != []


def test_the_scan_notices_a_module_that_a_test_starts_without_isolation() -> None:
    assert list(modules_without_isolation('[sys.executable, "-m", "tools"]')) == [1]
    assert list(modules_without_isolation('[sys.executable, "-P", "-m", "tools"]')) == []


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder whose modules have the names of Python's and of ours, and say so when they run."""
    ours = ("gradwire", "gradwire/__init__", "emu/__init__")
    for name in ("json", "queue", "runpy", "sitecustomize", "typing", *ours):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"open({str(tmp_path / 'RAN')!r}, 'a').write({name!r})\n")
    return tmp_path


def ran_there(folder: Path, command: list[str], path: str) -> tuple[str, str]:
    """What of the folder's own modules ran, and the command's output."""
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ran = folder / "RAN"
    return (ran.read_text() if ran.exists() else ""), done.stdout


@pytest.mark.parametrize("path", ["", ".", ":", "..::.", "emu"])
def test_neither_the_current_folder_nor_pythonpath_offers_modules(hostile: Path, path: str) -> None:
    ran, said = ran_there(hostile, python("gradwire.tools", "--help"), path)
    assert ran == ""
    assert "inspect" in said


def test_the_entry_script_runs_nothing_of_the_current_folder(hostile: Path) -> None:
    ran, said = ran_there(hostile, [str(ROOT / "gradwire"), "fabric", "star:hosts=2"], ".:")
    assert ran == ""
    assert "star:hosts=2" in said


def test_python_started_the_usual_way_would_have_run_them(hostile: Path) -> None:
    ran, _ = ran_there(hostile, [sys.executable, "-c", "import json"], ".")
    assert ran == "sitecustomizejson"


def test_a_module_gets_its_arguments_unchanged_and_runs_as_main(tmp_path: Path) -> None:
    command = python("json.tool", "--no-indent", "a b.json")
    (tmp_path / "a b.json").write_text("[1]")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "[1]\n"


def test_a_ctrl_c_while_modules_are_imported_ends_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "emu").mkdir()
    script = tmp_path / ONLY
    script.write_text((ROOT / ONLY).read_text())
    (tmp_path / "gradwire.py").touch()
    interrupt = (
        "signal.signal(signal.SIGINT, signal.default_int_handler); os.kill(os.getpid(), signal.SIGINT)"
    )
    (tmp_path / "early.py").write_text(f"import os, signal, time\n{interrupt}\ntime.sleep(60)\n")
    command = [sys.executable, "-I", str(script), "early"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("", "gradwire: interrupted\n", 130)
