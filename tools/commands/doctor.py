"""What this machine has and lacks."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tools.checks import Check, State, all_checks, can_run_demo

SCHEMA = "gradwire.doctor/1"
LOOK: dict[State, str] = {
    "ok": "[green]ok[/]",
    "missing": "[bold red]missing[/]",
    "weak": "[yellow]weak[/]",
    "unknown": "[yellow]unknown[/]",
}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object instead.")] = False,
) -> None:
    """Say what this machine has and lacks, and the command that mends it.

    Exit code 1 if the demo cannot run here. Without root some things cannot be tried; it says which.
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


def show(checks: tuple[Check, ...], ready: bool) -> None:
    table = Table(box=None, header_style="bold")
    for column in ("", "state", "found", "what mends it"):
        table.add_column(column)
    for check in checks:
        table.add_row(check.name, LOOK[check.state], check.found, check.mend)
    console = Console(highlight=False)
    console.print(table)
    if ready:
        console.print("\nThe demo can run here: [bold]sudo ./gradwire demo[/]")
    else:
        lacking = ", ".join(check.name for check in checks if check.needed and check.state == "missing")
        console.print(f"\n[bold red]The demo cannot run here yet[/]; it needs: {lacking}")
