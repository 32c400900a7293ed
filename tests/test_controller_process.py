"""The controller as a process on loopback, with switches of ours that have no data plane."""

import json
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from controller.app import FabricController
from controller.rules import destination_rules
from emu.fabric import Fabric, interface
from emu.plan import save
from emu.spec import parse_fabric
from emu.switch.encode import hello
from emu.switch.ports import Port, SwitchPorts
from emu.switch.session import Session
from emu.switch.table import FlowNumbers, FlowTable, Room
from tests.made_plans import allreduce_plan
from tests.openflow_talk import FakeInstruments

ROOT = Path(__file__).parents[1]
SPEC = "leaf-spine:leaves=2,spines=2,hosts=1"
READY_S = 20


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Controller:
    """A running `python -m controller`."""

    def __init__(self, *what: str, port: int | None = None) -> None:
        self.port = port or free_port()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "controller", *what, "--port", str(self.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def line(self) -> str:
        assert self.process.stdout
        readable, _, _ = select.select([self.process.stdout], [], [], READY_S)
        return self.process.stdout.readline().strip() if readable else "nothing in time"

    def tell(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def failure(self) -> str:
        """Its one line on stderr, once it has ended with exit code 1."""
        assert self.process.stderr
        assert self.process.wait(READY_S) == 1
        (line,) = self.process.stderr.read().splitlines()
        return str(line)


@contextmanager
def running(*what: str, port: int | None = None) -> Iterator[Controller]:
    controller = Controller(*what, port=port)
    try:
        yield controller
    finally:
        process = controller.process
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()


def connect(port: int, ended: threading.Event) -> socket.socket:
    """Raise ConnectionError if nobody listens, in time or until `ended`."""
    for _ in range(READY_S * 20):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            if ended.wait(0.05):
                break
    raise ConnectionError("the controller does not listen")


@dataclass(frozen=True)
class Switches:
    """All switches of a fabric, each in a thread; `censor` sees all they are told, and may change it."""

    fabric: Fabric
    port: int
    censor: Callable[[bytes], bytes]
    ended: threading.Event = field(default_factory=threading.Event)

    def serve(self, switch: str, dpid: int) -> None:
        """One switch until the controller goes away."""
        ports = tuple(Port(n, interface(switch, n), 10**8) for n in self.fabric.ports[switch])
        table = FlowTable(FlowNumbers(999), Room(9))
        session = Session(SwitchPorts(switch, dpid, ports), table, FakeInstruments())
        with suppress(ConnectionError), connect(self.port, self.ended) as link:
            link.sendall(hello())
            while octets := link.recv(1 << 20):
                for reply in session.receive(self.censor(octets)):
                    if isinstance(reply, bytes):
                        link.sendall(reply)


@contextmanager
def switches(
    controller: Controller, censor: Callable[[bytes], bytes] = bytes, first_dpid: int = 1
) -> Iterator[None]:
    """Connected to the controller, which is killed at the end, so that they end as well."""
    fabric = parse_fabric(SPEC)
    those = Switches(fabric, controller.port, censor)
    threads = [
        threading.Thread(target=those.serve, args=(switch, dpid))
        for dpid, switch in enumerate(fabric.switches, start=first_dpid)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        those.ended.set()
        controller.process.kill()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("what", ["fabric", "plan"])
def test_it_is_ready_tells_counters_and_ends_with_its_stdin(what: str, tmp_path: Path) -> None:
    fabric = parse_fabric(SPEC)
    plan = tmp_path / "plan.json"
    save(allreduce_plan(SPEC), plan)
    arguments = ["--fabric", SPEC] if what == "fabric" else [str(plan)]
    with running(*arguments) as controller, switches(controller):
        assert controller.line() == "ready"
        for path in (tmp_path / "one.json", tmp_path / "two.json"):
            controller.tell(f"stats {path}")
            assert controller.line() == "stats"
            value = json.loads(path.read_text())
            assert {row["switch"] for row in value["flows"]} == set(fabric.switches)
            assert len(value["ports"]) == sum(len(fabric.ports[s]) for s in fabric.switches)
        assert controller.process.stdin
        controller.process.stdin.close()
        assert controller.process.wait(5) == 0
        assert sorted(p.name for p in tmp_path.iterdir()) == ["one.json", "plan.json", "two.json"]


def without_the_last_rule(octets: bytes) -> bytes:
    """Drop the last FLOW_MOD before the barrier, as a switch that loses one would."""
    barrier = octets[-8:]
    if barrier[1] != 20:
        return octets
    at = last = 0
    while at < len(octets) - 8:
        last = at
        at += int.from_bytes(octets[at + 2 : at + 4], "big")
    return octets[:last] + barrier


def test_a_switch_that_lost_a_rule_is_found_out() -> None:
    with (
        running("--fabric", SPEC) as controller,
        switches(controller, without_the_last_rule),
    ):
        assert "has not the rules it was sent: 1 missing, 0 that are not ours" in controller.failure()


def test_what_a_handler_raises_is_kept() -> None:
    fabric = parse_fabric(SPEC)
    app = FabricController(fabric, destination_rules(fabric))
    app.on_programmed("no event at all")
    assert app.refusals == ["on_programmed: AttributeError: 'str' object has no attribute 'msg'"]


def with_an_unknown_message(octets: bytes) -> bytes:
    """As if the controller had sent a type 200 as well."""
    return octets + bytes.fromhex("04c8000800000001") if octets[-7] == 20 else octets


def test_a_refused_message_is_named() -> None:
    with (
        running("--fabric", SPEC) as controller,
        switches(controller, with_an_unknown_message),
    ):
        assert "refused a message: OFPET_BAD_REQUEST" in controller.failure()


def test_a_switch_of_another_fabric_is_named() -> None:
    with running("--fabric", SPEC) as controller, switches(controller, first_dpid=2):
        assert "a switch with dpid 5 came, which the fabric has not" in controller.failure()


def test_a_reply_that_cannot_be_read_is_told() -> None:
    """os-ken logs the parser's exception and goes on."""
    with running("--fabric", SPEC) as controller, connect(controller.port, threading.Event()) as link:
        link.sendall(hello() + bytes.fromhex("040600090000000100"))  # FEATURES_REPLY cut short
        assert "error" in controller.failure()


def test_switches_that_do_not_come_are_named() -> None:
    with running("--fabric", SPEC, "--timeout", "0.2") as controller:
        assert "not connected or not programmed in time: leaf0, leaf1, spine0" in controller.failure()


def test_a_port_that_is_taken_is_told() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        running("--fabric", SPEC, port=taken.getsockname()[1]) as controller,
    ):
        assert "Address already in use" in controller.failure()


@pytest.mark.parametrize(
    ("what", "complaint"),
    [
        (["--fabric", "torus:k=4"], "torus"),
        (["/nonexistent/plan.json"], "/nonexistent/plan.json"),
        ([str(ROOT / "pyproject.toml")], "no plan"),
    ],
)
def test_input_that_is_no_plan_and_no_fabric_is_refused(what: list[str], complaint: str) -> None:
    with running(*what) as controller:
        assert complaint in controller.failure()
