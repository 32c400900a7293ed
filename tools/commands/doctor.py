"""`gradwire doctor`: check what this machine has and what is missing."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from gradwire import COMMAND
from gradwire.tools.checks import MachineCheck, State, all_checks, can_run_demo
from gradwire.tools.console import console
from gradwire.tools.table import Cell, columns, rich_table, table_of

SCHEMA = "gradwire.doctor/1"
STYLE: dict[State, str] = {
    "ok": "green",
    "missing": "bold red",
    "weak": "yellow",
    "unknown": "yellow",
}


def doctor(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON (docs/schemas.md).")
    ] = False,
) -> None:
    """Check what this machine has and what is missing, and name the commands that fix it.

    The exit code is 1 if the demo cannot run here. Some checks need root;
    without it, their state is unknown.

    gradwire doctor
    """
    checks = all_checks()
    ready = can_run_demo(checks)
    if as_json:
        value = {"schema": SCHEMA, "can_run_demo": ready, "checks": [asdict(check) for check in checks]}
        print(json.dumps(value, indent=1, ensure_ascii=False))
    else:
        show(checks, ready)
    if not ready:
        raise typer.Exit(1)


def show(checks: tuple[MachineCheck, ...], ready: bool) -> None:
    table = table_of(
        columns("", "state", "found", "what mends it"),
        checks,
        lambda check: (check.name, Cell(check.state, style=STYLE[check.state]), check.found, check.mend),
    )
    to = console()
    to.print(rich_table(table, head_style="bold"))
    if ready:
        to.print(Text.assemble("\nThe demo can run here: ", (f"sudo {COMMAND} demo", "bold")))
    else:
        lacking = ", ".join(check.name for check in checks if check.needed and check.state == "missing")
        to.print(Text.assemble(("\nThe demo cannot run here yet", "bold red"), f"; it needs: {lacking}"))
