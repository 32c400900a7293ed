"""The controller as a process on loopback, with switches of ours that have no data plane."""

import json
import re
import select
import socket
import struct
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from gradwire.emu.interpreter import python
from gradwire.emu.switch.plane.counters import InterfaceState
from gradwire.emu.switch.ports import SwitchPort, SwitchPorts
from gradwire.emu.switch.server.session import Session
from gradwire.emu.switch.table.numbers import Numbers
from gradwire.emu.switch.table.table import FlowTable
from gradwire.emu.switch.wire.encode import hello
from gradwire.planning.fabrics.fabric import Fabric, interface
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.plan import save
from tests.made_plans import allreduce_plan
from tests.openflow_talk import FakeInstruments

ROOT = Path(__file__).parents[2]
SPEC = "leaf-spine:leaves=2,spines=2,hosts=1"
READY_S = 20


class Live(FakeInstruments):
    """All ports are up but those in `down`."""

    def __init__(self, down: set[str]) -> None:
        self._down = down

    def link(self, interface: str) -> InterfaceState:
        return replace(super().link(interface), is_up=interface not in self._down, is_enabled=True)


def features(dpid: int) -> bytes:
    """A FEATURES_REPLY, asked for or not."""
    return struct.pack("!BBHIQIBB2xII", 4, 6, 32, 0, dpid, 0, 1, 0, 0, 0)


NO_PORTS = struct.pack("!BBHIHH4x", 4, 19, 16, 0, 13, 0)  # an empty reply to OFPMP_PORT_DESC


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Controller:
    """A running `python -m gradwire.controller`."""

    def __init__(self, *what: str, port: int | None = None, command: Sequence[str] = ()) -> None:
        """`command` ends with the option for the port, whose value is added."""
        self.port = port or free_port()
        self.process = subprocess.Popen(
            [*(command or python("gradwire.controller", *what, "--port")), str(self.port)],
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

    def is_silent(self, seconds: float) -> bool:
        assert self.process.stdout
        readable, _, _ = select.select([self.process.stdout], [], [], seconds)
        return not readable

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
def running(*what: str, port: int | None = None, command: Sequence[str] = ()) -> Iterator[Controller]:
    controller = Controller(*what, port=port, command=command)
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
    """All switches of a fabric, each in a thread; `censor` sees all they are sent, and may change it.

    `heard` is what each was sent, before that.  `down` are interfaces, which they report when asked.
    """

    fabric: Fabric
    port: int
    censor: Callable[[bytes], bytes]
    heard: defaultdict[str, bytearray] = field(default_factory=lambda: defaultdict(bytearray))
    links: dict[str, socket.socket] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    ended: threading.Event = field(default_factory=threading.Event)

    def serve(self, switch: str, dpid: int) -> None:
        """One switch until the controller goes away."""
        ports = tuple(SwitchPort(n, interface(switch, n), 10**8) for n in self.fabric.ports[switch])
        table = FlowTable(Numbers(9999), Numbers(99))
        session = Session(SwitchPorts(switch, dpid, ports), table, Live(self.down))
        with suppress(ConnectionError), connect(self.port, self.ended) as link:
            self.links[switch] = link
            link.sendall(hello())
            while octets := link.recv(1 << 20):
                self.heard[switch] += octets
                for reply in session.receive(self.censor(octets)):
                    if isinstance(reply, bytes):
                        link.sendall(reply)


@contextmanager
def switches(
    controller: Controller,
    censor: Callable[[bytes], bytes] = bytes,
    spec: str = SPEC,
) -> Iterator[Switches]:
    """Connected to the controller, which is killed at the end, so that they end as well."""
    fabric = parse_fabric(spec)
    those = Switches(fabric, controller.port, censor)
    threads = [
        threading.Thread(target=those.serve, args=(switch, dpid))
        for dpid, switch in enumerate(fabric.switches, start=1)
    ]
    for thread in threads:
        thread.start()
    try:
        yield those
    finally:
        those.ended.set()
        controller.process.kill()
        for thread in threads:
            thread.join()


@pytest.mark.broad(2)
@pytest.mark.parametrize("what", ["fabric", "plan"])
def test_it_is_ready_writes_counters_and_ends_with_its_stdin(what: str, tmp_path: Path) -> None:
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


@pytest.mark.long
def test_a_switch_that_lost_a_rule_is_found_out() -> None:
    with (
        running("--fabric", SPEC) as controller,
        switches(controller, without_the_last_rule),
    ):
        assert (
            "did not install the rules it was sent: 1 missing, 0 that were not sent" in controller.failure()
        )


def with_an_unknown_message(octets: bytes) -> bytes:
    """As if the controller had sent a type 200 as well."""
    return octets + bytes.fromhex("04c8000800000001") if octets[-7] == 20 else octets


def test_a_refused_message_is_named() -> None:
    with (
        running("--fabric", SPEC) as controller,
        switches(controller, with_an_unknown_message),
    ):
        assert "refused a message: OFPET_BAD_REQUEST" in controller.failure()


def test_another_topology_ends_a_run_with_a_line_that_names_both() -> None:
    started = "leaf-spine:leaves=4,spines=2,hosts=2"
    with running("--fabric", "bigraph:n=8,m=2") as controller, switches(controller, spec=started):
        line = controller.failure()
        assert re.search(
            r"dpid \d has ports 1-4, but \w+ of bigraph:n=8,m=2 has ports 1-6: another topo", line
        )


@pytest.mark.long
def test_another_topology_is_reported_to_people_and_gets_no_rules() -> None:
    arguments = ("--fabric", "bigraph:n=4,m=2", "--people", "--timeout", "inf")
    started = "leaf-spine:leaves=2,spines=2,hosts=3"
    with running(*arguments) as controller, switches(controller, spec=started) as those:
        assert controller.process.stderr
        lines = sorted(controller.process.stderr.readline().strip() for _ in range(4))
        assert lines == [
            f"controller: dpid {dpid} has ports 1-{n}, but {name} of bigraph:n=4,m=2 has ports 1-4: "
            "another topology was started"
            for dpid, (n, name) in enumerate(((5, "upper0"), (5, "upper1"), (2, "lower0"), (2, "lower1")), 1)
        ]
        assert controller.process.poll() is None
        flow_mod = bytes((4, 14))
        assert not any(flow_mod in bytes(heard) for heard in those.heard.values())


def port_status(dpid_port: int, is_down: bool) -> bytes:
    """OFPPR_MODIFY of a port."""
    state = 1 if is_down else 4  # OFPPS_LINK_DOWN, OFPPS_LIVE
    port = struct.pack("!I4x6s2x16sII24x", dpid_port, bytes(6), b"port", 0, state)
    return struct.pack("!BBHIB7x", 4, 12, 16 + len(port), 0, 2) + port


@pytest.mark.long
def test_a_cable_that_fails_is_led_around_and_forgotten_once_it_is_up(tmp_path: Path) -> None:
    """leaf0's port to spine0 goes down and comes up; `settle` waits for that."""
    fabric, log = parse_fabric(SPEC), tmp_path / "control.jsonl"
    (port,) = [number for number, peer in fabric.neighbours["leaf0"].items() if peer == "spine0"]
    with running("--fabric", SPEC, "--log", str(log)) as controller, switches(controller) as those:
        assert controller.line() == "ready"
        those.down.add(interface("leaf0", port))
        those.links["leaf0"].sendall(port_status(port, is_down=True))
        while "rerouted" not in log.read_text():
            assert controller.process.poll() is None
            time.sleep(0.01)
        controller.tell("settle")
        assert controller.is_silent(0.5), "settled while a cable is down"
        those.down.clear()
        those.links["leaf0"].sendall(port_status(port, is_down=False))
        assert controller.line() == "settled"
    events = [json.loads(line) for line in log.read_text().splitlines()]
    logged = [event for event in events if event["event"] in ("port_down", "port_up", "rerouted", "settled")]
    assert [event["event"] for event in logged] == ["port_down", "rerouted", "port_up", "rerouted", "settled"]
    down, around, _, back, _ = logged
    assert (down["switch"], down["port"]) == ("leaf0", port)
    assert around["down"] == ["leaf0→spine0"]
    # leaf0 and leaf1 spread over both spines before, over one then; spine0 has lost its way to h0.
    assert around["rules"] == back["rules"] == 3
    assert back["down"] == []
    assert [event["time_ns"] for event in logged] == sorted(event["time_ns"] for event in logged)


@pytest.mark.long
def test_a_switch_is_away_once_its_connection_has_ended_and_gone_once_flows_are_led_around_it() -> None:
    fabric = parse_fabric(SPEC)
    with running("--fabric", SPEC) as controller, switches(controller) as those:
        assert controller.line() == "ready"
        controller.tell("await-away spine0")
        assert controller.is_silent(0.3), "away while it is connected"
        those.links["spine0"].shutdown(socket.SHUT_RDWR)
        assert controller.line() == "away spine0"
        controller.tell("await-gone spine0")
        assert controller.is_silent(0.3), "gone while flows are led to it"
        for leaf in ("leaf0", "leaf1"):
            (port,) = [number for number, peer in fabric.neighbours[leaf].items() if peer == "spine0"]
            those.links[leaf].sendall(port_status(port, is_down=True))
        assert controller.line() == "gone spine0"


@pytest.mark.long
def test_a_failure_without_a_message_keeps_it_from_being_settled(tmp_path: Path) -> None:
    """The PORT_STATUS may be on its way: the switches are asked."""
    fabric, log = parse_fabric(SPEC), tmp_path / "control.jsonl"
    (port,) = [number for number, peer in fabric.neighbours["leaf0"].items() if peer == "spine0"]
    with running("--fabric", SPEC, "--log", str(log)) as controller, switches(controller) as those:
        assert controller.line() == "ready"
        those.down.add(interface("leaf0", port))
        controller.tell("settle")
        while "rerouted" not in log.read_text():
            assert "settled" not in log.read_text()
            time.sleep(0.01)
        those.down.clear()
        those.links["leaf0"].sendall(port_status(port, is_down=False))
        assert controller.line() == "settled"


GARBAGE = {
    "noise": (b"\x00" * 64, "sent a message with an impossible length of 0 bytes"),
    "HTTP": (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "began with a message of type 69"),
    "a message shorter than its header": (
        bytes.fromhex("0400000400000001"),
        "sent a message with an impossible length of 4 bytes",
    ),
    "an unknown version": (bytes.fromhex("7700000800000001"), "Unknown"),
    "OpenFlow 1.0": (bytes.fromhex("0100000800000001"), "unsupported version 0x1"),
    "FEATURES_REPLY cut short": (hello() + bytes.fromhex("040600090000000100"), "type 6 that cannot be read"),
    "an unknown message": (hello() + bytes.fromhex("04c8000800000001"), "type 200 that cannot be read"),
    "a switch of another fabric": (hello() + features(99) + NO_PORTS, "it says it has dpid 99"),
    "a switch that is there already": (hello() + features(1) + NO_PORTS, "leaf0, which is connected already"),
}


@pytest.fixture(scope="module")
def serving() -> Iterator[Controller]:
    """One controller with its switches, for all the garbage one after the other."""
    with running("--fabric", SPEC) as controller, switches(controller):
        assert controller.line() == "ready"
        yield controller


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_on_the_port_is_dropped_and_the_switches_are_served_on(
    what: str, serving: Controller, tmp_path: Path
) -> None:
    octets, complaint = GARBAGE[what]
    with socket.create_connection(("127.0.0.1", serving.port), timeout=READY_S) as stranger:
        stranger.sendall(octets)
        while stranger.recv(4096):
            pass  # until we are thrown out
    assert serving.process.stderr
    assert complaint in serving.process.stderr.readline()
    serving.tell(f"stats {tmp_path / 'counters.json'}")
    assert serving.line() == "stats"


@pytest.mark.long
def test_half_a_message_and_silence_do_not_keep_switches_waiting() -> None:
    with running("--fabric", SPEC) as controller:
        silent = [connect(controller.port, threading.Event()) for _ in range(50)]
        for link in silent:
            link.sendall(hello()[:5])
        with switches(controller):
            assert controller.line() == "ready"
        for link in silent:
            link.close()


@pytest.mark.long
def test_switches_that_do_not_come_are_named() -> None:
    with running("--fabric", SPEC, "--timeout", "0.2") as controller:
        assert (
            "these switches are not connected or not programmed: leaf0, leaf1, spine0" in controller.failure()
        )


@pytest.mark.broad(2)
@pytest.mark.parametrize(("options", "who"), [(["--people"], "gradwire"), ([], "controller")])
def test_a_port_that_is_taken_is_reported_to_people_by_gradwire_and_to_a_run_by_the_controller(
    options: list[str], who: str
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        running("--fabric", SPEC, *options, port=taken.getsockname()[1]) as controller,
    ):
        line = controller.failure()
    assert line.startswith(f"{who}: 127.0.0.1:")
    assert "Address already in use" in line


@pytest.mark.broad(3)
@pytest.mark.parametrize(
    ("what", "complaint"),
    [
        (["--fabric", "torus:k=4"], "torus"),
        (["/nonexistent/plan.json"], "/nonexistent/plan.json"),
        ([str(ROOT / "pyproject.toml")], "not a plan"),
    ],
)
def test_input_that_is_no_plan_and_no_fabric_is_refused(what: list[str], complaint: str) -> None:
    with running(*what) as controller:
        assert complaint in controller.failure()
