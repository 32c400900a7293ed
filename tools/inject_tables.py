"""An injection for a person: what was sent, what became of it, how punctual it was."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.text import Text

from gradwire.emu.inject.figures import TimePercentiles
from gradwire.emu.inject.result import VALID, InjectedFlow, Injection
from gradwire.emu.lifecycle import Progress
from gradwire.tools.progressbar import progress_bar
from gradwire.tools.table import (
    NOTHING,
    Cell,
    Table,
    columns,
    or_nothing,
    print_left_out,
    rich_table,
    table_of,
)
from gradwire.traces.units import show_bps, show_count, show_nbytes, show_s

MOST_FLOWS = 10
_OWN_TIME = (
    "a packet's own time on its links is not in its delay: a port lets it pass at once, and the next waits"
)
_PHASES = {
    "network": "building the network",
    "switches": "programming the switches",
    "sending": "sending",
    "down": "taking the network down",
    "matching": "matching what arrived to what was sent",
}


@contextmanager
def following(quiet: bool) -> Iterator[Progress]:
    """A line on stderr that says what is done at the moment."""
    with progress_bar(quiet=quiet) as progress:
        task = progress.add_task("starting", total=None)

        def tell(phase: str, more: dict[str, Any]) -> None:
            lasts = f", {show_s(more['duration_s'])}" if "duration_s" in more else ""
            progress.update(task, description=_PHASES[phase] + lasts)

        yield tell


def print_injection(to: Console, injection: Injection) -> None:
    """Heading, figures, lateness, the worst flows, then everything that is not as it should be."""
    to.print(Text(f"{injection.fabric} · {len(injection.hosts)} hosts · {injection.pace}", style="bold"))
    to.print(rich_table(_summary(injection)))
    if injection.lateness_histogram:
        to.print(rich_table(_lateness(injection.lateness_histogram), dense=True))
    flows = _flows(injection)
    to.print(rich_table(flows, dense=True))
    print_left_out(to, flows.left_out)
    for line in notes(injection):
        to.print(Text(line, style="dim"))
    to.print(Text(verdict(injection), style="green" if injection.verdict == VALID else "bold red"))


def verdict(injection: Injection) -> str:
    """`valid`, or why not."""
    return ": ".join(filter(None, (injection.verdict, "; ".join(injection.reasons))))


def notes(injection: Injection) -> list[str]:
    """What was left out, lost and where, and what else there is to know."""
    left_out = injection.left_out.items()
    lines = [f"left out: {show_count(count, 'packet')} {reason}" for reason, count in left_out]
    lines += [f"dropped in the queue of {port}: {count:,}" for port, count in injection.queue_dropped.items()]
    own = [_OWN_TIME] if injection.delay_s else []
    return [*lines, *(f"note: {note}" for note in (*own, *injection.notes, *injection.warnings))]


def _summary(injection: Injection) -> Table:
    rate = show_bps(injection.bytes * 8 / injection.took_s) if injection.took_s else NOTHING
    pace = f"{injection.packets / injection.took_s:,.0f} packets/s, {rate}" if injection.took_s else NOTHING
    sent = f"{show_count(injection.packets, 'packet')}, {show_nbytes(injection.bytes)},"
    lost, refused = f"{injection.lost:,} ({injection.lost / injection.packets:.2%})", injection.refused
    rows = {
        "sent": f"{sent} in {show_s(injection.took_s)}: {pace}",
        "lost": lost + (f", {refused:,} of them at the senders' own ports" if refused else ""),
        "delay": or_nothing(injection.delay_s, _percentiles),
        "reordered": f"{injection.reordered:,}"
        + (f", by {show_count(injection.max_extent, 'place')} at most" if injection.reordered else ""),
        "late": or_nothing(injection.lateness_s, _percentiles),
        "handed late": or_nothing(injection.handed_lateness_s, _percentiles),
    }
    return table_of(columns("", ""), list(rows.items()), lambda row: (Cell(row[0], style="dim"), row[1]))


def _percentiles(value: TimePercentiles) -> str:
    named = (("median", value.p50), ("90 %", value.p90), ("99 %", value.p99), ("most", value.max))
    return ", ".join(f"{name} {show_s(seconds)}" for name, seconds in named)


def _lateness(histogram: Mapping[str, int]) -> Table:
    """How many packets left their port how long after their deadline."""
    titles = (f"#{'≤' if '=' in edge else '>'}{show_s(float(edge.lstrip('<=>')))}" for edge in histogram)
    counts = [f"{count:,}" if count else NOTHING for count in histogram.values()]
    return table_of(columns(*titles), [counts], tuple)


def _flows(injection: Injection) -> Table:
    """Those that lost most, then those that sent most."""
    figures = columns("#packets", "#bytes", "#lost", "#median", "#99 %", "#reordered")
    ordered = sorted(injection.flows, key=lambda flow: (-flow.lost, -flow.nbytes))
    return table_of((*columns("flow"), *figures), ordered, _flow, MOST_FLOWS)


def _flow(flow: InjectedFlow) -> tuple[str, ...]:
    delay = (show_s(flow.delay_s.p50), show_s(flow.delay_s.p99)) if flow.delay_s else (NOTHING, NOTHING)
    return (
        f"{flow.protocol} {flow.src}:{flow.sport} → {flow.dst}:{flow.dport}",
        f"{flow.sent:,}",
        show_nbytes(flow.nbytes),
        f"{flow.lost:,}",
        *delay,
        f"{flow.reordered:,}",
    )
