"""A headless Chromium, driven over a pipe by its DevTools protocol: what a page shows and complains of."""

import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--remote-debugging-pipe",
)
_WAIT_S = 20.0


class Page:
    """A tab.  `complaints` are errors and warnings of its console, `requests` the addresses asked for."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._numbers = itertools.count(1)
        self._session: dict[str, str] = {}
        self._read = b""
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Runtime", "Log", "Network", "Page"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> Any:
        """The answer to a command; what Chromium reports meanwhile is noted."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters, **self._session}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer.get("method", ""), answer.get("params", {}))

    def go(self, url: str) -> None:
        """To a page, and wait until it is complete."""
        self.ask("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && location.href === {json.dumps(url)}")

    def value(self, expression: str) -> Any:
        """What a JavaScript expression is on the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        deadline_s = time.monotonic() + _WAIT_S
        while not self.value(condition):
            assert time.monotonic() < deadline_s, f"not within {_WAIT_S:.0f} s: {condition}"
            time.sleep(0.02)

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            octets = os.read(self._from, 1 << 20)
            assert octets, "Chromium ended"
            self._read += octets
        message, _, self._read = self._read.partition(b"\0")
        read: dict[str, Any] = json.loads(message)
        return read

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        said = method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning")
        if said or method in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.complaints.append(json.dumps(parameters))
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.requests.append(parameters["url"])


@contextmanager
def browser(profile: Path, width: int = 1280, height: int = 900) -> Iterator[Page]:
    """Chromium with its profile in a folder, at an empty page.  It reads descriptor 3 and writes to 4."""
    assert CHROMIUM, "there is no chromium; install it: sudo apt-get install chromium"
    for_browser, to_browser = os.pipe()
    from_browser, of_browser = os.pipe()
    size = f"--window-size={width},{height}"
    shell = f'exec "$0" "$@" 3<&{for_browser} 4>&{of_browser}'
    process = subprocess.Popen(
        ["bash", "-c", shell, CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", size],
        pass_fds=(for_browser, of_browser),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(for_browser)
    os.close(of_browser)
    try:
        yield Page(to_browser, from_browser)
    finally:
        process.kill()
        process.wait()
        os.close(to_browser)
        os.close(from_browser)
