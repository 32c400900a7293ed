"""Writes the lab file that repeats a command, `lab.yaml` in the folder of its results and of each run."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args

import yaml

from gradwire.emu.options import RunOptions
from gradwire.planning.fabrics.spec import fabric_to_json
from gradwire.results.expectations import Expectation
from gradwire.results.matrixfile import About, check_has_none
from gradwire.tools.console import plain
from gradwire.tools.jobwork import Work
from gradwire.tools.labs.optionkeys import OF_COMMAND, is_name_or_file, key_of
from gradwire.tools.options.choices import MatrixChoices, RunChoices
from gradwire.traces.files import write_whole

FILE = "lab.yaml"
PLAN = "plan.json"
MACHINES = "machines.yaml"
ALWAYS = ("algorithm", "placement", "routes", "seed", "repeat")  # also where they are the defaults of today
Document = Mapping[str, Any]


def lab_of(job: Any, mode: str, work: Work, choices: Sequence[Any]) -> dict[str, Any]:
    """The keys of the lab that makes this work of these choices.

    `job` is a list of paths, or a mapping of keys.  Fabrics of files are written out, so that these need not
    be there later; what a plan file has decided is left out.
    """
    fabrics = dict.fromkeys(cell.fabric for cell, _ in work.cells)
    written = [fabric_to_json(fabric) for fabric in fabrics]
    kept = [one for one in choices if not work.plan or isinstance(one, RunChoices)]
    keys: dict[str, Any] = {"job": job, "mode": mode, **({"fabric": written} if written else {})}
    for one in kept:
        keys |= keys_of(one)
    return keys


def keys_of(choices: Any) -> dict[str, Any]:
    """What is to be said of a class of choices: what is not the default, or may have another one some day."""
    keys = {}
    for each in fields(choices):
        value = getattr(choices, each.name)
        default = each.default if each.default_factory is MISSING else each.default_factory()
        is_fabric = each.name == "fabric" and isinstance(choices, MatrixChoices)
        if is_fabric or each.name in OF_COMMAND or (value == default and each.name not in ALWAYS):
            continue
        named = get_args(each.type)[1].metavar
        keys[key_of(each)] = (
            Path(value) if is_name_or_file(named) and value not in named.split("|") else value
        )
    return keys


def expected(expectations: Sequence[Expectation]) -> list[Any]:
    """As they are written in a lab file."""
    return [
        {"that": each.text, "where": {key: list(texts) for key, texts in each.where.items()}}
        if each.where
        else each.text
        for each in expectations
    ]


def save_lab(folder: Path, document: Document, described: About) -> None:
    """`lab.yaml` in the folder of a command's results.  Raise OSError, also if others are there already."""
    check_has_none(folder)
    command = shlex.join(("gradwire", *described.command))
    head = (
        f"{described.began}, gradwire {described.version}: {command}",
        f"gradwire run {FILE} does it again.",
    )
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder, head, document)


def save_run_lab(folder: Path, options: RunOptions) -> None:
    """`lab.yaml` in the folder of a single run, whose plan it carries out again, on the same machines if
    there were several: their file is beside it, as the folder may be renamed.  Raise OSError.
    """
    beside = {"job": PLAN}
    if options.machines:
        write_whole(folder / MACHINES, yaml.safe_dump(options.machines, sort_keys=False))
        beside["machines"] = MACHINES
    choices = RunChoices(
        repeat=options.repeats,
        reroute=options.reroute,
        switch=options.switch,
        captures=options.captures,
    )
    _write(
        folder,
        (f"gradwire run {FILE} carries this run's plan out again.",),
        {**beside, **keys_of(choices)},
    )


def _write(folder: Path, comments: Sequence[str], document: Document) -> None:
    head = [f"# {plain(' '.join(line.split()))}\n" for line in comments]
    keys = {key: _beside(value, folder) for key, value in document.items()}
    text = yaml.safe_dump(keys, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)
    write_whole(folder / FILE, "".join([*head, text]))


def _beside(value: Any, folder: Path) -> Any:
    """Paths as a file in `folder` names them: relative if both are below the current folder."""
    if isinstance(value, Mapping):
        return {key: _beside(each, folder) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_beside(each, folder) for each in value]
    if not isinstance(value, Path):
        return value
    here, path, start = Path.cwd(), value.absolute(), folder.absolute()
    both = path.is_relative_to(here) and start.is_relative_to(here)
    return os.path.relpath(path, start) if both else os.path.normpath(path)
