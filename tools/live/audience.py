"""The viewers of a live view's page, each with a bounded queue, and who may be one."""

import asyncio
import http
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gradwire.tools.live.news import News

PAGE, STREAM = "/", "/stream"
HOSTS = ("127.0.0.1", "localhost")
MOST_VIEWERS = 16
QUEUE = 32  # messages for a viewer: eight seconds of looks
_END = None


class Viewer(Protocol):
    """Somebody at the other end of a websocket."""

    async def send(self, message: str, /) -> None:
        """Wait until there is room for it."""


class Audience:
    """Nobody in it is waited for: who is too slow gets everything from the start, in place of what it missed.

    `news` is what a new viewer gets first.
    """

    def __init__(self, news: News) -> None:
        self._news = news
        self._queues: set[asyncio.Queue[str | None]] = set()

    @property
    def is_full(self) -> bool:
        return len(self._queues) >= MOST_VIEWERS

    def tell(self, message: Mapping[str, Any]) -> None:
        """Put a message into everybody's queue."""
        shown = _written(self._news.add(message))
        for queue in self._queues:
            self._put(queue, shown)

    def end(self) -> None:
        """Let each viewer go when it has got what is in its queue."""
        for queue in self._queues:
            self._put(queue, _END)

    async def attend(self, viewer: Viewer, patience_s: float) -> None:
        """Send one viewer everything until `end`.

        Raise TimeoutError if a message finds no room for `patience_s` seconds; what `send` raises is passed
        on.
        """
        queue: asyncio.Queue[str | None] = asyncio.Queue(QUEUE)
        queue.put_nowait(self._everything())
        self._queues.add(queue)
        try:
            while (text := await queue.get()) is not _END:
                async with asyncio.timeout(patience_s):
                    await viewer.send(text)
        finally:
            self._queues.discard(queue)

    def _put(self, queue: "asyncio.Queue[str | None]", text: str | None) -> None:
        if queue.full():
            while not queue.empty():
                queue.get_nowait()
            queue.put_nowait(self._everything())
            if text is not _END:
                return
        queue.put_nowait(text)

    def _everything(self) -> str:
        return _written({"kind": "everything", "messages": self._news.everything()})


def _written(message: Mapping[str, Any]) -> str:
    return json.dumps(message, separators=(",", ":"))


def stranger(hosts: Sequence[str], origins: Sequence[str]) -> str | None:
    """Why a request comes from elsewhere, None if it does not; these are its headers of these names.

    A request must name loopback as its host, on whatever port, which may be one that ssh forwards: so a name
    that somebody made to lead here (DNS rebinding) does not work.  A page of another site has another origin.
    """
    if len(hosts) != 1 or hosts[0].partition(":")[0] not in HOSTS:
        return f"This page has the names {' and '.join(HOSTS)} only."
    if list(origins) not in ([], [f"http://{hosts[0]}"]):
        return "A page of another site cannot read this one."
    return None


def refusal(path: str, hosts: Sequence[str], origins: Sequence[str]) -> tuple[http.HTTPStatus, str] | None:
    """Why a request is refused, None if it is not; `hosts` and `origins` are its headers of these names."""
    if reason := stranger(hosts, origins):
        return http.HTTPStatus.FORBIDDEN, reason
    if path not in (PAGE, STREAM):
        return http.HTTPStatus.NOT_FOUND, f"There is one page here: {PAGE}"
    return None
