"""What `gradwire serve` hands out, to whom, and that nothing else can be reached through it."""

import errno
import http.client
import os
import shlex
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gradwire.tools import cli
from gradwire.tools.folderview import names_of
from gradwire.tools.serving import MOST_ANSWERS, MOST_CONNECTIONS, FolderServer
from gradwire.tools.work.serve import listing
from tests.browser import CHROMIUM, browser

SECRET = "nobody may read this"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with pages and files, beside it a secret, and in it all that could lead there."""
    (tmp_path / "secret.txt").write_text(SECRET)
    shown = tmp_path / "runs"
    (shown / "monday" / "inner").mkdir(parents=True)
    (shown / "monday" / "report.html").write_text(
        "<title>report</title><script>document.title = 'ran'</script>"
    )
    (shown / "monday" / "a b#<i>.csv").write_text("x\n1\n")
    (shown / "monday" / "x.pcap").write_bytes(b"\xd4\xc3\xb2\xa1")
    (shown / ".hidden.txt").write_text(SECRET)
    (shown / "file.txt").symlink_to(tmp_path / "secret.txt")
    (shown / "up").symlink_to(tmp_path)
    os.mkfifo(shown / "pipe.txt")
    return shown


@pytest.fixture
def port(folder: Path) -> Iterator[int]:
    root = os.open(folder, os.O_RDONLY)
    server = FolderServer(0, root, lambda fd, names: listing(fd, ("runs", *names)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()
    os.close(root)


def ask(
    port: int, path: str, method: str = "GET", **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Status, headers and body; the path is sent as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body


def test_a_page_of_a_run_is_handed_out_as_it_is_and_may_reach_nothing(port: int, folder: Path) -> None:
    status, headers, body = ask(port, "/monday/report.html")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert body == (folder / "monday" / "report.html").read_bytes()
    policy = set(headers["Content-Security-Policy"].split("; "))
    assert {"default-src 'none'", "sandbox allow-scripts", "form-action 'none'"} <= policy


def test_the_page_of_a_folder_links_all_that_it_holds_but_links_pipes_and_hidden_files(port: int) -> None:
    page = ask(port, "/")[2].decode()
    assert 'href="./monday/"' in page
    for name in ("hidden.txt", "file.txt", "pipe.txt", 'href="./up', SECRET):
        assert name not in page


def test_a_name_with_markup_in_it_stays_text_and_its_link_leads_to_it(port: int) -> None:
    page = ask(port, "/monday/")[2].decode()
    assert "<i>" not in page and 'href="./a%20b%23%3Ci%3E.csv"' in page
    assert ask(port, "/monday/a%20b%23%3Ci%3E.csv")[2] == b"x\n1\n"


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/monday/../../secret.txt",
        "/..%2fsecret.txt",
        "/%2e%2e/secret.txt",
        "//secret.txt",
        "/file.txt",
        "/up/secret.txt",
        "/up/",
        "/.hidden.txt",
        "/%2ehidden.txt",
        "/pipe.txt",
        "/monday/%00",
        "/monday/report.html/",
        "/proc/self/environ",
        "/etc/passwd",
        "http://127.0.0.1/monday/",
        "monday/",
    ],
)
def test_nothing_outside_and_nothing_hidden_is_handed_out(port: int, path: str) -> None:
    status, _, body = ask(port, path)
    assert status in (400, 404)
    assert SECRET.encode() not in body


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:8480"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ],
)
def test_a_request_from_elsewhere_is_refused(port: int, headers: dict[str, str]) -> None:
    assert ask(port, "/monday/report.html", **headers)[0] == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT"])
def test_nothing_can_be_changed(port: int, folder: Path, method: str) -> None:
    before = sorted(folder.rglob("*"))
    assert ask(port, "/monday/report.html", method)[0] == 501
    assert sorted(folder.rglob("*")) == before


def test_a_head_request_gets_the_length_and_no_body(port: int, folder: Path) -> None:
    status, headers, body = ask(port, "/monday/report.html", "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) == (folder / "monday" / "report.html").stat().st_size


def test_what_a_browser_has_no_name_for_is_handed_out_to_be_kept(port: int) -> None:
    headers = ask(port, "/monday/x.pcap")[1]
    assert headers["Content-Disposition"] == "attachment"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_a_folder_without_its_slash_leads_to_the_one_with_it_on_the_same_server(port: int) -> None:
    status, headers, _ = ask(port, "/monday")
    assert (status, headers["Location"]) == (301, "/monday/")


def test_clients_that_say_nothing_do_not_take_the_last_place(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradwire.tools.serving._Handler.timeout", 0.2)
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(2 * MOST_ANSWERS)]
    assert ask(port, "/monday/report.html")[0] == 200
    for each in silent:
        each.close()


@pytest.mark.parametrize("n", [2 * MOST_ANSWERS, 2 * MOST_CONNECTIONS])
@pytest.mark.parametrize("says", [b"", b"GET / HTTP/1.0\r\nHost: 127"])
def test_idle_connections_do_not_delay_an_answer(port: int, says: bytes, n: int) -> None:
    with ExitStack() as stack:
        for _ in range(n):
            stack.enter_context(socket.create_connection(("127.0.0.1", port))).sendall(says)
        started_s = time.monotonic()
        assert ask(port, "/monday/report.html")[0] == 200
        assert time.monotonic() - started_s < 3  # each of the others may take 10 s


# Without giving up root, to whom alone the folders of tests belong.
SERVER = """
import os, sys
from gradwire.tools.serving import FolderServer
from gradwire.tools.work.serve import listing
root = os.open(sys.argv[1], os.O_RDONLY)
server = FolderServer(0, root, lambda fd, names: listing(fd, ("runs", *names)))
print(server.server_port, flush=True)
server.serve_forever()
"""


def test_with_few_open_files_idle_connections_do_not_delay_an_answer(folder: Path) -> None:
    command = shlex.join([sys.executable, "-c", SERVER, str(folder)])
    limited = ["sh", "-c", f"ulimit -n 64; exec {command}"]
    with (
        subprocess.Popen(limited, stdout=subprocess.PIPE, text=True) as process,
        ExitStack() as stack,
    ):
        stack.callback(process.kill)
        assert process.stdout
        port = int(process.stdout.readline())
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        started_s = time.monotonic()
        for path in ("/", "/monday/report.html"):
            assert ask(port, path)[0] == 200
        assert time.monotonic() - started_s < 5  # each of the others may be silent for 10 s


def test_where_no_more_connections_can_be_opened_silent_ones_make_room_and_no_processor_spins(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    def refused(_: object) -> None:
        nonlocal tries
        tries += 1
        raise OSError(errno.EMFILE, "Too many open files")

    with socket.create_connection(("127.0.0.1", port), timeout=5) as silent:
        assert ask(port, "/monday/report.html")[0] == 200  # so the silent one has been accepted
        with monkeypatch.context() as limited:
            limited.setattr(socketserver.TCPServer, "get_request", refused)
            with socket.create_connection(("127.0.0.1", port), timeout=5):
                assert silent.recv(1) == b""
                time.sleep(0.5)
        assert 1 < tries < 20
    assert ask(port, "/monday/report.html")[0] == 200


def test_a_connection_for_which_no_thread_can_be_started_is_closed_and_takes_no_room(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", refused)
        for _ in range(2 * MOST_CONNECTIONS):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
                assert connection.recv(1) == b""
    assert ask(port, "/monday/report.html")[0] == 200


@pytest.mark.parametrize(
    ("address", "names"),
    [
        ("/", ("",)),
        ("/a/b.html?x=/../y", ("a", "b.html")),
        ("/a/", ("a", "")),
        ("/%C3%A9", ("é",)),
        ("/%FF", ("\udcff",)),
        ("/a//b", None),
        ("/a/../b", None),
        ("/a/%2E%2E", None),
        ("/a%2Fb", None),
        ("", None),
        ("*", None),
    ],
)
def test_an_address_is_split_before_it_is_decoded(address: str, names: tuple[str, ...] | None) -> None:
    assert names_of(address) == names


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["nowhere"], "nowhere: there is no such folder; name a folder with results, pages or captures"),
        (["file"], "file: this is a file; name a folder with results, pages or captures"),
    ],
)
def test_what_cannot_be_served_is_refused_in_a_line(
    words: list[str],
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as left:
        cli.main(["serve", *words])
    assert (left.value.code, capsys.readouterr().err) == (1, f"gradwire: {error}\n")


def test_a_port_in_use_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit):
            cli.main(["serve", ".", "--port", str(port)])
    error = f"--port {port}: Address already in use; choose another port, or --port 0 for any free one"
    assert capsys.readouterr().err == f"gradwire: {error}\n"


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
def test_a_page_runs_its_scripts_but_reads_neither_files_beside_it_nor_storage(
    port: int, folder: Path, tmp_path: Path
) -> None:
    nosy = """<script>
fetch('x.pcap').then(() => document.title += ' read', () => document.title += ' refused');
try { localStorage.a = 1; document.title += 'stored' } catch { document.title += 'unstored' }
</script>"""
    (folder / "monday" / "nosy.html").write_text(nosy)
    with browser(tmp_path / "profile") as page:
        page.go(f"http://127.0.0.1:{port}/monday/")
        assert page.complaints == []
        page.go(f"http://127.0.0.1:{port}/monday/report.html")
        page.wait("document.title === 'ran'")
        page.go(f"http://127.0.0.1:{port}/monday/nosy.html")
        page.wait("document.title === 'unstored refused'")
