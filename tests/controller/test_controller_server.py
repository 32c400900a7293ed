"""Where the controller listens, and how long it waits for strangers, and for how many."""

import select
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from gradwire.emu.switch.wire.encode import hello
from tests.controller.test_controller_process import SPEC, Controller, connect, running, switches

# `python -m gradwire.controller` with a shorter patience, and room for fewer strangers.
PATIENCE_S, MOST = 1, 10  # room for all switches of SPEC at once, and some more
IMPATIENT = """
from gradwire.controller import connection
connection.INTRODUCTION_S, connection.MAX_STRANGERS = {patience_s}, {most}
connection.controller_module.CONF.set_override("socket_timeout", 1)  # how often it looks
from gradwire.controller import __main__
__main__._end(__main__.main())
"""


@contextmanager
def listening(patience_s: int, most: int) -> Iterator[Controller]:
    code = IMPATIENT.format(patience_s=patience_s, most=most)
    with running(command=(sys.executable, "-c", code, "--fabric", SPEC, "--port")) as controller:
        yield controller


@pytest.fixture
def impatient() -> Iterator[Controller]:
    with listening(PATIENCE_S, 100) as controller:
        yield controller


def note(controller: Controller) -> str:
    assert controller.process.stderr
    return str(controller.process.stderr.readline())


@pytest.mark.long
def test_who_does_not_introduce_itself_as_a_switch_is_dropped_in_time_and_a_silent_switch_is_kept(
    impatient: Controller,
) -> None:
    with ExitStack() as stack:
        those = stack.enter_context(switches(impatient))
        assert impatient.line() == "ready"
        start_s = time.monotonic()
        for said in (b"", hello()[:5], hello()):
            stack.enter_context(connect(impatient.port, threading.Event())).sendall(said)
        for _ in range(3):
            assert f"did not introduce itself as a switch in {PATIENCE_S} s" in note(impatient)
        assert time.monotonic() - start_s >= PATIENCE_S
        # The switches have been silent for longer than those.
        n_heard = {name: len(heard) for name, heard in those.heard.items()}
        impatient.tell("settle")
        assert impatient.line() == "settled"  # everybody answers
        assert all(len(those.heard[name]) > n for name, n in n_heard.items())


@pytest.mark.long
def test_more_strangers_than_there_is_room_for_are_dropped_and_the_switches_come_later() -> None:
    with listening(60, MOST) as controller:
        with ExitStack() as stack:
            links = [connect(controller.port, threading.Event()) for _ in range(MOST + 1)]
            for link in links:
                stack.enter_context(link)
            assert f"is one of more than {MOST} open connections that have not introduced themselves" in note(
                controller
            )
            assert _n_ended(links) == 1
        _await_room(controller)
        with switches(controller):
            assert controller.line() == "ready"


def _await_room(controller: Controller) -> None:
    """Return when it has seen that the strangers are gone: unlike real ones, these switches try only once."""
    for _ in range(50):
        with connect(controller.port, threading.Event()) as probe:
            if not _n_ended([probe]):
                return
    pytest.fail("there is no room again")


def _n_ended(links: list[socket.socket]) -> int:
    """How many of them the other side has closed, or closes within 0.2 s."""
    ended, deadline_s = set[socket.socket](), time.monotonic() + 0.2
    while readable := _readable([link for link in links if link not in ended], deadline_s):
        ended |= {link for link in readable if not link.recv(4096)}
    return len(ended)


def _readable(links: list[socket.socket], deadline_s: float) -> list[socket.socket]:
    return select.select(links, [], [], max(0.0, deadline_s - time.monotonic()))[0]


# `python -m gradwire.controller` for which the system starts no more threads, from the n-th connection's on.
THREADLESS = """
from gradwire.controller.ryu_api import hub
spawn, n_left = hub.spawn, {n}
def refused(*arguments, **keywords):
    global n_left
    if getattr(arguments[0], "__name__", "") in ("_serve", "_send_loop"):
        n_left -= 1
        if n_left < 0:
            raise RuntimeError("can't start new thread")
    return spawn(*arguments, **keywords)
hub.spawn = refused
from gradwire.controller import __main__
__main__._end(__main__.main())
"""


@pytest.mark.parametrize(
    ("n", "what"),
    [(0, "cannot accept connections any more"), (1, "cannot serve a switch that has connected")],
    ids=["none", "the-connections-alone"],
)
def test_it_ends_with_the_reason_where_no_thread_can_be_started_for_a_switch(n: int, what: str) -> None:
    code = THREADLESS.format(n=n)
    with (
        running(command=(sys.executable, "-c", code, "--fabric", SPEC, "--port")) as controller,
        connect(controller.port, threading.Event()),
    ):
        said = controller.failure()
    assert said == f"controller: {what}: RuntimeError: can't start new thread"


def test_it_listens_at_its_address_and_nowhere_else() -> None:
    with running("--fabric", SPEC, "--listen", "127.0.0.2") as controller:
        for _ in range(400):
            try:
                socket.create_connection(("127.0.0.2", controller.port)).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        else:
            pytest.fail("it does not listen there")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", controller.port))


def test_an_address_that_this_machine_has_not_is_refused() -> None:
    with running("--fabric", SPEC, "--listen", "192.0.2.1") as controller:  # RFC 5737: nobody's
        assert "choose another --listen or --port" in controller.failure()


def test_what_it_says_first_is_ascii_as_mininets_mn_reads_it_through_telnet() -> None:
    """Anything else ends `mn` with a UnicodeDecodeError; 127 is what it takes for the end of a command."""
    with running("--fabric", SPEC) as controller:
        for _ in range(4):
            with connect(controller.port, threading.Event()) as link:
                said = link.recv(8, socket.MSG_WAITALL)  # HELLO without elements
                assert said[:2] == hello()[:2]
                assert max(said) < 127
