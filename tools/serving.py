"""The server of `gradwire serve`: pages and files of one folder, read only, on loopback.

What a folder holds may come from strangers.  A page of it may run its own scripts, but as nobody's: its
Content-Security-Policy gives it no network, no other file of the folder and no storage.
"""

import errno
import http
import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gradwire.tools.folderview import file_of, is_folder, names_of, opened, quoted
from gradwire.tools.live.audience import stranger
from gradwire.tools.live.view import LOOPBACK, over_ssh

MOST_ANSWERS = 16  # sent at the same time; fewer below a limit of 256 open files
MOST_CONNECTIONS = 256  # open at the same time, most of them perhaps silent; fewer below 512 open files
BLOCK_NBYTES = 1 << 16
PATIENCE_S = 10.0  # for a request to arrive, and for each part of the answer to be taken
_LOOK_S = 0.1  # for a connection that was shut down to be closed, before the next one is
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)  # accept(2): for one more connection
_NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_PARTS = f"{_NOTHING}; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_OF_LISTING = _PARTS  # ours, so it needs no sandbox
_OF_PAGE = f"{_PARTS}; sandbox allow-scripts"
_OF_DRAWING = f"{_NOTHING}; style-src 'unsafe-inline'; sandbox"
_OF_TEXT = f"{_NOTHING}; sandbox"
_HTML, _TEXT = "text/html; charset=utf-8", "text/plain; charset=utf-8"
_KINDS = {  # by the end of a name; anything else is only handed out to be kept
    ".html": (_HTML, _OF_PAGE),
    ".htm": (_HTML, _OF_PAGE),
    ".svg": ("image/svg+xml", _OF_DRAWING),
    ".png": ("image/png", _OF_TEXT),
    ".json": ("application/json", _OF_TEXT),
    **dict.fromkeys((".txt", ".log", ".yaml", ".yml", ".csv", ".md", ".py"), (_TEXT, _OF_TEXT)),
}
_TO_KEEP = ("application/octet-stream", _OF_TEXT)
Listing = Callable[[int, tuple[str, ...]], str]


class FolderServer(ThreadingHTTPServer):
    """Serves the folder behind a descriptor; `listing` makes the page of one in it, at these names.

    A connection counts among the `MOST_ANSWERS` only once its request is complete.  So a connection that asks
    for nothing, as browsers open them in advance, delays nobody.
    """

    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS
    allow_reuse_address = True

    def __init__(self, port: int, root: int, listing: Listing) -> None:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)  # half of them for what is sent
        self._open_connections = threading.BoundedSemaphore(max(1, min(MOST_CONNECTIONS, files // 2)))
        self._answers = threading.BoundedSemaphore(max(1, min(MOST_ANSWERS, files // 16)))
        self._silent: dict[socket.socket, None] = {}  # the oldest first
        super().__init__((LOOPBACK, port), partial(_Handler, root, listing))

    def get_request(self) -> Any:
        """See TCPServer; without room for one more, the one that was silent for longest is shut down."""
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in _NO_ROOM:
                self._shut_oldest_silent()
                time.sleep(_LOOK_S)  # as the next try is made at once
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """See ThreadingMixIn; of too many connections the one that was silent for longest is shut down."""
        while not self._open_connections.acquire(blocking=False):
            self._shut_oldest_silent()
            if self._open_connections.acquire(timeout=_LOOK_S):
                break
        self._silent[request] = None
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread may be started: a limit of the user's processes
            self._closed(request)
            self.shutdown_request(request)

    def _shut_oldest_silent(self) -> None:
        with suppress(StopIteration, KeyError, OSError):  # it has just asked for something, or has gone
            oldest = next(iter(list(self._silent)))
            del self._silent[oldest]
            oldest.shutdown(socket.SHUT_RDWR)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """See ThreadingMixIn."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._closed(request)

    def _closed(self, connection: socket.socket) -> None:
        self._silent.pop(connection, None)
        self._open_connections.release()

    @contextmanager
    def answering(self, connection: socket.socket) -> Iterator[None]:
        """Wait until one more answer may be sent, and count it while this is open."""
        self._silent.pop(connection, None)
        with self._answers:
            yield

    def handle_error(self, request: Any, client_address: Any) -> None:
        """See BaseServer; a client that left is no news."""


class _Handler(BaseHTTPRequestHandler):
    timeout = PATIENCE_S

    def __init__(self, root: int, listing: Listing, *connection: Any) -> None:
        self._root, self._listing = root, listing
        super().__init__(*connection)

    def version_string(self) -> str:
        """See BaseHTTPRequestHandler."""
        return "gradwire"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """See BaseHTTPRequestHandler; strangers' words are not printed."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """See BaseHTTPRequestHandler; what was asked for is not repeated."""
        status = http.HTTPStatus(code)
        self._answer(status, _TEXT, _OF_TEXT, (message or status.phrase).encode() + b"\n")

    def do_GET(self) -> None:
        """See BaseHTTPRequestHandler."""
        if reason := stranger(self.headers.get_all("Host", []), self.headers.get_all("Origin", [])):
            self.send_error(http.HTTPStatus.FORBIDDEN, reason)
            return
        names = names_of(self.path)
        if names is None:
            self.send_error(http.HTTPStatus.NOT_FOUND, "There is no such file.")
            return
        assert isinstance(self.server, FolderServer)
        try:
            with self.server.answering(self.connection), opened(self._root, names) as fd:
                self._show(fd, names)
        except PermissionError:
            self.send_error(http.HTTPStatus.FORBIDDEN, "The user who runs gradwire serve may not read this.")
        except (TimeoutError, ConnectionError):
            self.close_connection = True
        except OSError:
            self.send_error(http.HTTPStatus.NOT_FOUND, "There is no such file.")

    do_HEAD = do_GET  # noqa: N815 - its name there

    def _show(self, fd: int, names: tuple[str, ...]) -> None:
        if is_folder(fd):
            if names[-1]:  # without the slash at its end the links of its page would lead elsewhere
                place = "".join(f"/{quoted(name)}" for name in names)
                self._answer(http.HTTPStatus.MOVED_PERMANENTLY, *_TO_KEEP, b"", Location=f"{place}/")
            else:
                page = self._listing(fd, names[:-1]).encode()
                self._answer(http.HTTPStatus.OK, _HTML, _OF_LISTING, page)
            return
        file = file_of(fd) if names[-1] else None
        if file is None:
            self.send_error(http.HTTPStatus.NOT_FOUND, "There is no such file.")
            return
        with file:
            kind, policy = _KINDS.get(os.path.splitext(names[-1])[1].lower(), _TO_KEEP)
            left = os.fstat(fd).st_size
            self._head(http.HTTPStatus.OK, kind, policy, left)
            while self.command != "HEAD" and (octets := file.read(min(left, BLOCK_NBYTES))):
                self.wfile.write(octets)
                left -= len(octets)  # it may grow meanwhile

    def _answer(self, status: http.HTTPStatus, kind: str, policy: str, body: bytes, **headers: str) -> None:
        self._head(status, kind, policy, len(body), **headers)
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: http.HTTPStatus, kind: str, policy: str, nbytes: int, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(nbytes))
        self.send_header("Content-Security-Policy", policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cache-Control", "no-store")
        if kind == _TO_KEEP[0] and status == http.HTTPStatus.OK:
            self.send_header("Content-Disposition", "attachment")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def where_to_look(port: int) -> str:
    """For whoever started it, perhaps over ssh."""
    return f"serving http://{LOOPBACK}:{port}/ until Ctrl-C\n{over_ssh(port)}"
