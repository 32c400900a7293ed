"""A headless Chromium at a page, asked through its DevTools protocol."""

import itertools
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

CHROMIUM = shutil.which("chromium")
_START_S = 20.0
_QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--remote-debugging-port=0",
)


class Page:
    """What it shows, what went wrong on it, and whom it asked for something."""

    def __init__(self, devtools: ClientConnection) -> None:
        self._devtools = devtools
        self._numbers = itertools.count()
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def ask(self, method: str, **parameters: Any) -> Any:
        """The answer to a command; what Chromium reports meanwhile is noted."""
        number = next(self._numbers)
        self._devtools.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._devtools.recv(timeout=10))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self._note(message["method"], message["params"])

    def value(self, expression: str) -> Any:
        """What a JavaScript expression is on the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        if method in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.complaints.append(json.dumps(parameters))
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.requests.append(parameters["url"])


@contextmanager
def browser(url: str, folder: Path, width: int = 1280, height: int = 900) -> Iterator[Page]:
    """Chromium with its profile in `folder`, at a page that it has just been sent to."""
    assert CHROMIUM
    command = [
        CHROMIUM,
        *_QUIET,
        f"--user-data-dir={folder}",
        f"--window-size={width},{height}",
        "about:blank",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with connect(_devtools(folder), max_size=None) as devtools:
            page = Page(devtools)
            for domain in ("Runtime", "Log", "Network", "Page"):
                page.ask(f"{domain}.enable")
            page.ask("Page.navigate", url=url)
            while page.value("[location.href, document.readyState]") != [url, "complete"]:
                time.sleep(0.05)
            yield page
    finally:
        process.kill()
        process.wait()


def _devtools(folder: Path) -> str:
    """The address of the first tab's DevTools."""
    deadline_s = time.monotonic() + _START_S
    port = folder / "DevToolsActivePort"
    while time.monotonic() < deadline_s:
        if port.exists() and (lines := port.read_text().split()):
            with urllib.request.urlopen(f"http://127.0.0.1:{lines[0]}/json/list", timeout=5) as answer:
                tabs = [tab for tab in json.load(answer) if tab["type"] == "page"]
            if tabs:
                address: str = tabs[0]["webSocketDebuggerUrl"]
                return address
        time.sleep(0.05)
    raise AssertionError(f"Chromium did not start within {_START_S:.0f} s")
