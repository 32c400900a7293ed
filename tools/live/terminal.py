"""The live view in a terminal: `python -m gradwire.tools.live.terminal CHANNEL`, a descriptor; on stderr.

It is gone when everybody who could say something is, so that the command's own table follows.
"""

import os
import select
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from gradwire.emu.channel import receive
from gradwire.tools.console import console
from gradwire.tools.live.news import News
from gradwire.tools.table import Cell, columns, rich_table, table_of
from gradwire.traces.units import show_bps, show_nbytes

DRAW_S = 1.0  # to draw more often costs more than looking
MOST_LINKS, MOST_RANKS, MOST_MOVES, MOST_BEST = 10, 16, 5, 8
BAR = 20
NICE = 10


def drawn(news: News) -> RenderableType:
    """What there is to see now."""
    title, phase, rows = news.get("title"), news.get("phase"), news.get("rows")
    head = str(title.get("text", ""))
    if rows:
        head += f": {rows.get('n_done', len(rows['rows']))} of {rows['n_cells']} cells done"
    progress = news.get("progress")
    if progress.get("left"):
        head += f", {progress['left']}"
    parts: list[RenderableType] = [Text(head, "bold"), Text(str(phase.get("text", "")))]
    parts += [Text(line) for line in progress.get("best", ())[:MOST_BEST]]
    run, load = news.get("run"), news.get("load")
    if run and load:
        parts += _links(run["links"], load)
        parts += _ranks(run["hosts"], load["ranks"])
        parts += [Text(f"{move['t_s']:8.2f} s  {move['text']}") for move in news.moves[-MOST_MOVES:]]
    return Group(*parts)


def _links(links: Sequence[Sequence[Any]], load: Mapping[str, Any]) -> list[RenderableType]:
    """The busiest, as shares of their rates."""
    by_share = sorted(load["links"], key=lambda each: each[1] / links[each[0]][1], reverse=True)

    def cells(one: Sequence[int]) -> tuple[str | Cell, ...]:
        number, rate_bps, queued_nbytes, dropped = one
        name, limit_bps = links[number][:2]
        share = rate_bps / limit_bps
        down = " (down)" if number in load["down"] else ""
        return (
            *(f"{name}{down}", show_bps(rate_bps), f"{share:.0%}", Cell(_bar(share), style="magenta")),
            *(show_nbytes(queued_nbytes), str(dropped)),
        )

    heads = columns("busiest links", "#now", "#of its rate", "", "#in the queue", "#dropped")
    return [Text(), rich_table(table_of(heads, by_share, cells, MOST_LINKS))]


def _ranks(hosts: Sequence[str], ranks: Sequence[Sequence[int]]) -> list[RenderableType]:
    """How far each is."""
    if not ranks:
        return []

    def cells(rank: int) -> tuple[str | Cell, ...]:
        n_done, n_ops, n_under_way, n_moved, n_to_move = ranks[rank]
        bar = Cell(_bar(n_moved / max(1, n_to_move)), style="green")
        return f"{rank} on {hosts[rank]}", f"{n_done} of {n_ops}", bar, str(n_under_way)

    heads = columns("rank", "#operations done", "sends and receives", "#under way")
    return [Text(), rich_table(table_of(heads, range(len(ranks)), cells, MOST_RANKS)), Text()]


def _bar(share: float) -> str:
    return "█" * round(BAR * min(1.0, share))


def main(end: socket.socket) -> None:
    os.nice(NICE)  # after the ranks
    news = News()
    end.settimeout(0)
    with Live(console=console(stderr=True), auto_refresh=False, transient=True) as live:
        drawn_s = 0.0
        while True:
            select.select([end], [], [], DRAW_S)
            try:
                while (message := receive(end)) is not None:
                    news.add(message)
                return
            except BlockingIOError:
                pass
            if time.monotonic() - drawn_s >= DRAW_S:
                drawn_s = time.monotonic()
                live.update(drawn(news), refresh=True)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
