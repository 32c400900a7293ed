"""The live view: what a viewer gets, who may be one, and what is refused before anything is started."""

import asyncio
import base64
import hashlib
import http
import json
import re
import socket
from collections.abc import Mapping
from typing import Any

import pytest
from rich.console import Console

from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.tools.cli import with_watched_page
from gradwire.tools.live.audience import QUEUE, Audience, refusal
from gradwire.tools.live.news import MOST_MOVES, News, move_words
from gradwire.tools.live.page import page
from gradwire.tools.live.terminal import drawn
from gradwire.tools.live.view import live_view, port_of, where_to_look

PATIENCE_S = 10.0
LINKS = [["leaf0→h0", 100_000_000, "leaf0", 1], ["h0→leaf0", 100_000_000, "h0", 1]]
RUN = {"kind": "run", "fabric": "star", "links": LINKS, "hosts": ["h0"], "svg": "<svg/>"}
PORTS = {("leaf0", 1): "leaf0→h0"}


def load(t_s: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"kind": "load", "t_s": t_s, "links": [], "down": [], "ranks": [], "moves": [], **more}


@pytest.mark.parametrize(
    ("move", "words"),
    [
        ({"event": "port_down", "switch": "leaf0", "port": 1}, "leaf0→h0 is down"),
        ({"event": "port_up", "switch": "leaf9", "port": 3}, "leaf9 port 3 is up"),
        (
            {"event": "rerouted", "flows": 1, "rules": 4, "seconds": 0.0841, "down": ["leaf0→spine1"]},
            "rerouted around leaf0→spine1: 1 flow moved in 84.1 ms, 4 rules sent",
        ),
        (
            {"event": "rerouted", "flows": 2, "rules": 4, "seconds": 0.01, "down": []},
            "back on the first paths: 2 flows moved in 10 ms, 4 rules sent",
        ),
        (
            {"event": "rebalanced", "moves": [{"src": 0, "dst": 4}, {"src": 1, "dst": 5}]},
            "2 flows moved off full links, of ranks 0→4, 1→5",
        ),
        (
            {"event": "tree_moved", "job": 1, "from": "spine0", "to": "spine1"},
            "aggregation tree 1 moved from spine0 to spine1",
        ),
        (
            {"event": "tree_lost", "job": 1, "from": "spine0", "to": None},
            "aggregation tree 1 has no way left",
        ),
        ({"event": "switch_gone", "switch": "leaf0"}, "leaf0 is gone"),
        ({"event": "note", "text": "dropped a connection"}, "dropped a connection"),
        ({"event": "settled"}, "all ports are up, and the plan's own rules in force"),
    ],
)
def test_what_the_controller_did_is_said_in_words(move: Mapping[str, Any], words: str) -> None:
    assert move_words(move, PORTS) == words


def test_who_comes_late_gets_the_run_its_last_look_all_moves_and_the_rows() -> None:
    news = News()
    news.add({"kind": "title", "text": "bench"})
    news.add(load(9.0, moves=[{"event": "settled", "t_s": 8.0}]))
    news.add(RUN)
    for second in range(3):
        move = {"event": "switch_came", "switch": f"leaf{second}", "t_s": float(second)}
        news.add(load(float(second), moves=[move]))
    news.add({"kind": "phase", "text": "repeat 1/3"})
    received = {message["kind"]: message for message in news.everything()}
    assert list(received) == ["title", "run", "phase", "load"]
    assert received["load"]["t_s"] == 2.0
    assert received["load"]["moves"] == [
        {"t_s": float(second), "text": f"leaf{second} has connected"} for second in range(3)
    ]


def test_what_is_kept_is_bounded_however_long_the_run_is() -> None:
    news = News()
    for second in range(10 * MOST_MOVES):
        news.add(load(moves=[{"event": "settled", "t_s": float(second)}]))
    assert len(news.everything()) == 1
    assert [move["t_s"] for move in news.moves] == [float(s) for s in range(9 * MOST_MOVES, 10 * MOST_MOVES)]


class FakeViewer:
    """Keeps what it is sent; while `is_stuck` it takes nothing."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def send(self, message: str, /) -> None:
        await self.may_go_on.wait()
        self.got.append(json.loads(message))


def test_viewers_get_everything_first_and_then_what_comes_until_the_end() -> None:
    async def scene() -> list[FakeViewer]:
        audience = Audience(News())
        audience.tell(RUN)
        here = [FakeViewer(), FakeViewer()]
        async with asyncio.TaskGroup() as group:
            for viewer in here:
                group.create_task(audience.attend(viewer, PATIENCE_S))
            await asyncio.sleep(0)
            audience.tell(load(1.0))
            audience.end()
        return here

    for viewer in asyncio.run(scene()):
        first, second = viewer.got
        assert (first["kind"], [each["kind"] for each in first["messages"]]) == ("everything", ["run"])
        assert (second["kind"], second["t_s"]) == ("load", 1.0)


def test_a_viewer_that_is_stuck_holds_nobody_up_and_later_gets_everything_in_place_of_what_it_missed() -> (
    None
):
    async def scene() -> tuple[FakeViewer, FakeViewer]:
        audience = Audience(News())
        slow, quick = FakeViewer(), FakeViewer()
        slow.may_go_on.clear()
        async with asyncio.TaskGroup() as group:
            for viewer in (slow, quick):
                group.create_task(audience.attend(viewer, PATIENCE_S))
            for second in range(10 * QUEUE):
                audience.tell(load(float(second)))
                await asyncio.sleep(0)
            assert len(quick.got) > 9 * QUEUE
            assert max(queue.qsize() for queue in audience._queues) <= QUEUE
            slow.may_go_on.set()
            audience.end()
        return slow, quick

    slow, quick = asyncio.run(scene())
    assert len(slow.got) <= QUEUE + 2
    assert "everything" in [message["kind"] for message in slow.got[1:]]
    for viewer in (slow, quick):
        last = viewer.got[-1]
        assert (last["messages"][-1] if last["kind"] == "everything" else last)["t_s"] == 10.0 * QUEUE - 1


def test_a_viewer_that_has_gone_takes_no_place() -> None:
    class Gone(FakeViewer):
        async def send(self, message: str, /) -> None:
            raise ConnectionError

    async def scene() -> Audience:
        audience = Audience(News())
        with pytest.raises(ConnectionError):
            await audience.attend(Gone(), PATIENCE_S)
        return audience

    assert not asyncio.run(scene())._queues


@pytest.mark.parametrize(
    ("path", "hosts", "origins", "status"),
    [
        ("/", ["127.0.0.1:8470"], [], None),
        ("/", ["localhost:9000"], [], None),  # as ssh forwards it
        ("/stream", ["localhost:9000"], ["http://localhost:9000"], None),
        ("/stream", ["127.0.0.1:8470"], ["http://evil.example"], 403),
        ("/stream", ["127.0.0.1:8470"], ["http://127.0.0.1:8471"], 403),
        ("/stream", ["127.0.0.1:8470"], ["null"], 403),
        ("/stream", ["127.0.0.1:8470"], ["http://127.0.0.1:8470", "http://evil.example"], 403),
        ("/", ["evil.example:8470"], [], 403),
        ("/", ["127.0.0.1.evil.example"], [], 403),
        ("/", ["localhost.evil.example:8470"], [], 403),
        ("/", [], [], 403),
        ("/", ["127.0.0.1", "evil.example"], [], 403),
        ("/../etc/passwd", ["127.0.0.1:8470"], [], 404),
    ],
)
def test_only_pages_of_loopback_are_served(
    path: str, hosts: list[str], origins: list[str], status: int | None
) -> None:
    refused = refusal(path, hosts, origins)
    assert (refused and refused[0]) == (status and http.HTTPStatus(status))


def test_the_terminal_shows_the_busiest_links_the_ranks_and_the_last_moves() -> None:
    news = News()
    news.add({"kind": "title", "text": "bench"})
    news.add({"kind": "rows", "n_cells": 4, "columns": [], "rows": [[]]})
    news.add(RUN)
    moves = [{"event": "port_down", "switch": "leaf0", "port": 1, "t_s": 1.5}]
    news.add(
        load(links=[[0, 25e6, 0, 0], [1, 50e6, 12_000, 3]], down=[0], ranks=[[3, 4, 1, 15, 20]], moves=moves)
    )
    to = Console(width=100)
    with to.capture() as captured:
        to.print(drawn(news))
    head, *lines = [line.rstrip() for line in captured.get().splitlines() if line.strip()]
    assert head == "bench: 1 of 4 cells done"
    words = [line.split() for line in lines]
    assert words[1:3] == [
        ["h0→leaf0", "50", "Mb/s", "50%", "█" * 10, "12", "kB", "3"],
        ["leaf0→h0", "(down)", "25", "Mb/s", "25%", "█" * 5, "0", "B", "0"],
    ]
    assert words[4] == ["0", "on", "h0", "3", "of", "4", "█" * 15, "1"]
    assert lines[-1].strip() == "1.50 s  leaf0→h0 is down"


def test_watch_without_a_value_does_not_take_the_next_word_for_one() -> None:
    words = ["replay", "--watch", "trace/", "--watch=9000"]
    assert with_watched_page(words) == ["replay", "--watch=page", "trace/", "--watch=9000"]
    assert with_watched_page(["capture", "--", "prog", "--watch"]) == ["capture", "--", "prog", "--watch"]


def test_a_port_is_a_number_or_the_word_terminal() -> None:
    assert [port_of(choice) for choice in ("page", "0", "1024", "terminal")] == [8470, 0, 1024, None]
    for choice, words in (
        ("65536", "--watch: '65536' is not a whole number from 0 to 65,535"),
        ("web", "--watch=web: give a port, or terminal"),
        ("22", "--watch=22: ports below 1,024 are for services of the system; give one from 1,024 to 65,535"),
        ("1023", "or --watch=0 for any free one"),
    ):
        with pytest.raises(ValueError, match=words):
            port_of(choice)
    assert "http://127.0.0.1:8470/" in where_to_look(8470)
    assert "ssh -L 8470:127.0.0.1:8470" in where_to_look(8470)


def test_a_port_in_use_is_one_line_before_anything_is_started() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(
                OSError, match=rf"--watch: 127.0.0.1:{port}: Address already in use; choose another"
            ),
            live_view(str(port), "bench"),
        ):
            pass


def test_the_page_loads_nothing_and_runs_its_own_script_alone() -> None:
    answer = page()
    html = answer.body.decode()
    assert not re.search(r'(src|href)="(?!data:)|url\(|@import', html)
    (script,) = re.findall(r"<script>(.*)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = answer.headers["Content-Security-Policy"]
    assert f"script-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")


def test_without_watch_there_is_nothing() -> None:
    with live_view(None, "bench") as view:
        assert view is None


def test_every_link_of_a_fabric_can_be_found_in_its_drawing() -> None:
    from gradwire.emu.channel import channel, receive
    from gradwire.tools.live.view import LiveView

    fabric = parse_fabric("torus:x=3,y=3")
    to, end = channel()
    LiveView(to, is_terminal=False).show_fabric(fabric, fabric.hosts[:2])
    message = receive(end)
    assert message is not None
    for number, (name, *_) in enumerate(message["links"]):
        assert f'<g data-link="{number}"><title>{name},' in message["svg"]
    assert message["svg"].count("data-link=") == len(fabric.rates)
    to.close()
    end.close()


def test_the_terminal_shows_how_far_a_sweep_is_and_its_best_cells() -> None:
    news = News()
    news.add({"kind": "title", "text": "Study a"})
    best = ["best so far of sums: ring, linear, ecmp on star:hosts=4: 1.23 s"]
    news.add({"kind": "progress", "n_done": 60, "n_cells": 90, "left": "about 0:10 left", "best": best})
    news.add({"kind": "rows", "n_cells": 90, "n_done": 60, "columns": [], "rows": [["a"]] * 50})
    to = Console(width=100)
    with to.capture() as captured:
        to.print(drawn(news))
    lines = [line.strip() for line in captured.get().splitlines()]
    assert lines[:3] == ["Study a: 60 of 90 cells done, about 0:10 left", "", *best]
