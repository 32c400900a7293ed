"""The first line of every module is a sentence that stands by itself, as listings and `help()` show it."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("traces", "planning", "controller", "emu", "results", "tools", "benchmarks", "tests")


def first_line_fault(source: str) -> str | None:
    """What is wrong with the first line of a module, which may be empty; None if nothing is."""
    tree = ast.parse(source)
    if not tree.body:
        return None
    first, *others = (ast.get_docstring(tree) or "").split("\n")
    if not first:
        return "no docstring"
    if others and others[0]:
        return "goes on in the next line"
    return None if first.endswith((".", "?")) else "does not end as a sentence"


def test_every_module_says_in_one_line_what_it_is_about() -> None:
    modules = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    faults = {str(path.relative_to(ROOT)): first_line_fault(path.read_text()) for path in modules}
    assert {name: fault for name, fault in faults.items() if fault} == {}


def test_a_line_that_goes_on_is_noticed() -> None:
    assert first_line_fault('"""One line.\n\nMore of it."""') is None
    assert first_line_fault("") is None
    assert first_line_fault('"""One line that\ngoes on."""') == "goes on in the next line"
    assert first_line_fault("import ast") == "no docstring"
    assert first_line_fault('"""A fragment"""') == "does not end as a sentence"
