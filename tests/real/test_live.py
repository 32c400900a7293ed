"""`--watch`: a browser looks at a run while it goes on, and nothing is left when it is over."""

import http.client
import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from gradwire.emu.project import PROJECT
from tests.browser import browser

pytestmark = [pytest.mark.real, pytest.mark.untimed]

FABRIC = "leaf-spine:leaves=2,spines=2,hosts=2,rate=50M"
SEEN = """({
  state: document.getElementById("link-state").textContent,
  phase: document.getElementById("phase").textContent,
  lanes: [...document.querySelectorAll("#drawing [data-link] .lane")].map(lane => lane.getAttribute("class")),
  titles: [...document.querySelectorAll("#drawing [data-link] title")].map(title => title.textContent),
  busiest: document.getElementById("links").innerText,
  ranks: document.getElementById("ranks").innerText,
  moves: document.getElementById("moves").innerText,
  rows: document.getElementById("rows").innerText,
})"""


@contextmanager
def watched(*words: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """A command with `--watch=0`, and the port of its page."""
    command = [str(PROJECT / "gradwire"), *words, "--watch=0"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr
        line = process.stderr.readline()
        found = re.fullmatch(r"watch: http://127\.0\.0\.1:(\d+)/\n", line)
        assert found, line + process.stderr.read()
        yield process, int(found[1])
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.browser
def test_a_browser_sees_loads_ranks_failures_and_rows_of_the_run_that_goes_on(tmp_path: Path) -> None:
    words = ["bench", "allreduce", "-b", "4MiB", "--fabric", FABRIC, "--routes", "planned", "--repeat", "1"]
    # It stays down: a slow browser may not look during half a second.
    words += ["--fail", "leaf0-spine1@0.3", "--out", str(tmp_path / "run"), "--json"]
    seen: list[dict[str, Any]] = []
    with watched(*words) as (process, port), browser(tmp_path / "b") as page:
        page.go(f"http://127.0.0.1:{port}/")
        narrow = {"width": 240, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        deadline_s = time.monotonic() + 60
        while not seen or seen[-1]["state"] != "over":
            assert time.monotonic() < deadline_s, seen[-1:]
            seen.append(page.value(SEEN))
            if "rerouted" in seen[-1]["moves"] and narrow:
                page.ask("Emulation.setDeviceMetricsOverride", **narrow)  # lines wrap differently
                narrow = {}
            time.sleep(0.1)
        assert (
            page.value(
                "(({scrollHeight: all, scrollTop: top, clientHeight: seen}) => all - top - seen)(moves)"
            )
            < 8
        )
        out, _ = process.communicate(timeout=20)
        assert page.complaints == []
        assert {re.sub(r"^\w+://", "", url) for url in page.requests} == {
            f"127.0.0.1:{port}/",
            f"127.0.0.1:{port}/stream",
        }
    (row,) = json.loads(out)
    assert process.returncode in (0, 3)  # a busy machine makes a row not valid, and no sum wrong
    assert row["wrong"] == 0
    phases = " ".join(each["phase"] for each in seen)
    assert "calibration" in phases
    assert "repeat 1/1" in phases
    assert all(len(each["lanes"]) == 16 for each in seen if each["lanes"])  # 8 cables, both ways
    shades = {lane for each in seen for lane in each["lanes"]}
    assert {"lane load0", "lane load4"} <= shades
    assert "lane failed" in shades
    assert any("(9" in title or "(10" in title for each in seen for title in each["titles"])  # % of its rate
    assert any("1 of 1" in each["ranks"] for each in seen)
    moves = seen[-1]["moves"]
    assert "leaf0→spine1 is down" in moves
    assert "rerouted around" in moves
    assert row["verdict"] in seen[-1]["rows"]
    assert not is_open(port)


def test_viewers_come_and_go_strangers_are_refused_and_the_end_leaves_nothing() -> None:
    with watched("up", FABRIC) as (process, port):
        stream = f"ws://127.0.0.1:{port}/stream"
        with connect(stream) as one, connect(stream) as two:
            for viewer in (one, two):
                messages = [json.loads(viewer.recv(timeout=30))]
                while messages[-1]["kind"] != "load":
                    messages.append(json.loads(viewer.recv(timeout=30)))
                assert messages[0]["kind"] == "everything"
        with connect(stream) as again:
            known = {message["kind"] for message in json.loads(again.recv(timeout=10))["messages"]}
        assert known == {"title", "run", "load"}
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            assert status(port, headers) == 403
            with pytest.raises(InvalidStatus, match="403"), connect(stream, additional_headers=headers):
                pass
        assert (status(port, {}), status(port, {}, "/x")) == (200, 404)
        assert process.poll() is None
    assert not is_open(port)


def status(port: int, headers: dict[str, str], path: str = "/") -> int:
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    asked.request("GET", path, headers=headers)
    answer = asked.getresponse()
    assert "Access-Control-Allow-Origin" not in answer.headers
    asked.close()
    return answer.status
