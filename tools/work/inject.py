"""Sends a capture's packets again, for `gradwire inject`."""

import json
from collections.abc import Sequence
from pathlib import Path

import typer

from gradwire.emu.inject.injection import inject as carried_out
from gradwire.emu.inject.mapping import parse_map
from gradwire.emu.inject.options import RUN_FOLDER, InjectOptions, Pace
from gradwire.emu.inject.preparation import prepare
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.jobs import source_of
from gradwire.planning.routing.policies import policy_names
from gradwire.tools.console import console
from gradwire.tools.exits import NOT_VALID
from gradwire.tools.inject_tables import following, print_injection
from gradwire.tools.matrixrun import default_folder
from gradwire.tools.stdin import with_stdin
from gradwire.tools.thismachine import need_root_and_tools
from gradwire.traces.reader import SETTINGS, capture_paths, read_settings
from gradwire.traces.units import one_of


def inject_captures(  # noqa: PLR0913 - a parameter for each option
    captures: Sequence[Path],
    fabric: str | None,
    map_: Sequence[str],
    pace: Pace,
    *,
    loop: int,
    exact_mtu: bool,
    routes: str,
    rank_map: Path | None,
    switch: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Send the packets and show what came of it; leave with exit code 3 if that is not valid."""
    captures = with_stdin(captures)
    options = InjectOptions(pace, loop, exact_mtu, routes, switch)
    one_of("routing policy", routes, policy_names())
    chosen = parse_fabric(fabric) if fabric else None
    hosts = parse_map(map_)
    prepared = prepare(capture_paths(captures), chosen, options, ranks_by_address(captures, rank_map), hosts)
    need_root_and_tools("inject", switch, captures=True)
    folder = out or default_folder()
    with following(quiet=as_json) as progress:
        injection = carried_out(source_of(captures), prepared, options, folder / RUN_FOLDER, progress)
    if as_json:
        print(json.dumps(injection.to_json(), indent=1))
    else:
        print_injection(console(), injection)
        console().print(f"\nrun: {folder / RUN_FOLDER}", soft_wrap=True)
    if injection.reasons:
        raise typer.Exit(NOT_VALID)


def ranks_by_address(paths: Sequence[Path], rank_map: Path | None) -> dict[str, int]:
    """Ranks by address, as the file or a folder's own says; none if nobody says."""
    file = rank_map or next((path / SETTINGS for path in paths if (path / SETTINGS).is_file()), None)
    return read_settings(file) if file else {}
