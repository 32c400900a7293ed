"""The server of a live view's page: `python -m gradwire.tools.live.page CHANNEL LISTENER`, two descriptors.

It serves one page and a websocket with what comes through the channel, until all who could say something are
gone.  It is not root, whoever started it.
"""

import asyncio
import base64
import hashlib
import http
import logging
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from gradwire.emu.channel import receive
from gradwire.tools.live.audience import MOST_VIEWERS, STREAM, Audience, refusal
from gradwire.tools.live.news import News

TEMPLATES = Path(__file__).parents[1] / "templates"
OPEN_S = 2.0  # for a handshake, so that one that never comes holds the end up no longer
PING_S = 10.0  # a viewer that leaves a ping unanswered, or a message unread, for this long loses its place
FULL = f"{MOST_VIEWERS} viewers are here already: close one of them, and load this page again."
NICE = 10
NOBODY = 65_534


def page() -> Response:
    """The page, which holds no figures yet."""
    script, *styles = ((TEMPLATES / name).read_text() for name in ("live.js", "report.css", "live.css"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    template = Environment(autoescape=True).from_string((TEMPLATES / "live.html").read_text())
    html = template.render(styles=Markup("".join(styles)), script=Markup(script))
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; "
    policy += "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return _response(http.HTTPStatus.OK, html, "text/html", policy)


def _response(status: http.HTTPStatus, text: str, kind: str, policy: str = "default-src 'none'") -> Response:
    body = text.encode()
    headers = Headers()
    headers["Content-Type"] = f"{kind}; charset=utf-8"
    headers["Content-Length"] = str(len(body))
    headers["Content-Security-Policy"] = policy
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Referrer-Policy"] = "no-referrer"
    headers["Cache-Control"] = "no-store"
    headers["Connection"] = "close"
    return Response(status, status.phrase, headers, body)


async def show(end: socket.socket, listener: socket.socket, answer: Response) -> None:
    """Serve until nobody is left at the other end of the channel."""
    audience = Audience(News())

    def ask(_: ServerConnection, request: Request) -> Response | None:
        headers = request.headers
        refused = refusal(request.path, headers.get_all("Host"), headers.get_all("Origin"))
        if refused is None and audience.is_full:
            refused = http.HTTPStatus.SERVICE_UNAVAILABLE, FULL
        if refused is not None:
            return _response(*refused, "text/plain")
        return None if request.path == STREAM else answer

    async def attend(viewer: ServerConnection) -> None:
        # While a message waits for room, websockets sends no ping that could go unanswered.
        with suppress(ConnectionClosed, TimeoutError):
            await audience.attend(viewer, PING_S)

    serving = serve(
        attend,
        sock=listener,
        process_request=ask,
        compression=None,
        server_header=None,
        open_timeout=OPEN_S,
        ping_interval=PING_S,
        ping_timeout=PING_S,
        close_timeout=OPEN_S / 2,
        max_size=1024,  # of what viewers say, which nobody reads
        max_queue=1,
    )
    async with serving:
        await _pass_on(end, audience)
        audience.tell({"kind": "over"})
        audience.end()


async def _pass_on(end: socket.socket, audience: Audience) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    end.settimeout(0)

    def read() -> None:
        try:
            while (message := receive(end)) is not None:
                audience.tell(message)
        except BlockingIOError:
            return
        loop.remove_reader(end)
        over.set()

    loop.add_reader(end, read)
    await over.wait()


def give_up_root() -> None:
    """Become the user who called sudo, or nobody."""
    if os.geteuid() != 0:
        return
    uid, gid = (int(os.environ.get(name, NOBODY)) for name in ("SUDO_UID", "SUDO_GID"))
    os.setgroups([])
    os.setgid(gid or NOBODY)
    os.setuid(uid or NOBODY)


def main(end: socket.socket, listener: socket.socket) -> None:
    logging.getLogger("websockets").setLevel(logging.CRITICAL)  # it logs what strangers send
    answer = page()
    os.nice(NICE)  # after the ranks
    give_up_root()
    asyncio.run(show(end, listener, answer))


if __name__ == "__main__":
    main(*(socket.socket(fileno=int(word)) for word in sys.argv[1:]))
