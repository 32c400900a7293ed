"""The switch agent and the controller on real cables: what passes, what is counted, what is refused."""

import json
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from scapy.contrib import openflow3 as of3

from gradwire.emu.interpreter import python
from gradwire.emu.switch.ovs import running_ovs
from gradwire.planning.fabrics.fabric import Fabric, interface
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.plan import Flow, Plan, save
from tests.made_plans import messages, schedule_plan
from tests.openflow_talk import dst, flow_mod, to_port
from tests.real import lab
from tests.real.inside import inside
from tests.real.timely import PATIENCE_S

pytestmark = [pytest.mark.real, pytest.mark.untimed]

SPEC = "bigraph:n=2,m=2,rate=100M"  # two switches with a cable, two hosts each
NBYTES = 1_000_000
TCP_HEADERS = 14 + 20 + 20 + 12  # with the timestamps option
SYN_OPTIONS = 20  # what a SYN carries instead of those 12
RECEIVE = """
import socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("listening", flush=True)
connection, _ = server.accept()
n = 0
while octets := connection.recv(1 << 20):
    n += len(octets)
print(n, flush=True)
"""
SEND = """
import socket, sys
source, destination = (sys.argv[1], int(sys.argv[2])), (sys.argv[3], int(sys.argv[4]))
with socket.create_connection(destination, 10, source) as connection:
    connection.sendall(bytes(int(sys.argv[5])))
"""


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/run") as folder:
        yield Path(folder)


def two_flow_plan() -> Plan:
    """Ranks 3 and 2 send to 0 and 1, so senders open the connections; both cross between the switches."""
    return schedule_plan(SPEC, messages(4, [(3, 0, NBYTES), (2, 1, NBYTES)]), routes="direct")


def transfer(plan: Plan, flow: Flow, nbytes: int) -> int:
    """Send `nbytes` over one flow of the plan with its own ports; how many bytes came."""
    receiver = lab.on(plan.placement[flow.dst], sys.executable, "-c", RECEIVE, flow.dst_ip, str(flow.dport))
    sender = [SEND, flow.src_ip, str(flow.sport), flow.dst_ip, str(flow.dport), str(nbytes)]
    with subprocess.Popen(receiver, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "listening\n"
        lab.run(*lab.on(plan.placement[flow.src], sys.executable, "-c", *sender))
        return int(process.stdout.readline())


def data_flows(plan: Plan) -> list[Flow]:
    return [flow for flow in plan.flows if (flow.src, flow.dst) in ((3, 0), (2, 1))]


def sent_by(host: str) -> tuple[int, int]:
    """(bytes, packets) on the wire, by the queueing discipline of the host's interface."""
    shown = lab.run(*lab.on(host, "tc", "-s", "-j", "qdisc", "show", "dev", interface(host, 0), "root"))
    (root,) = [row for row in json.loads(shown) if row.get("root")]
    return root["bytes"], root["packets"]


def interface_sent_nbytes(host: str) -> int:
    """The interface's own counter, as in /sys/class/net."""
    (row,) = json.loads(lab.run(*lab.on(host, "ip", "-s", "-j", "link", "show", interface(host, 0))))
    return int(row["stats64"]["tx"]["bytes"])


def rows_of(stats: dict[str, list[dict[str, Any]]], flow: Flow) -> dict[str, tuple[int, int]]:
    """(packets, bytes) of the flow's rule at each switch."""
    return {
        row["switch"]: (row["packets"], row["bytes"])
        for row in stats["flows"]
        if row["match"].get("tcp_src") == flow.sport and row["match"].get("tcp_dst") == flow.dport
    }


def counted_transfer(segmentation_offload: bool) -> dict[str, Any]:
    plan = two_flow_plan()
    flow = data_flows(plan)[0]
    src = plan.placement[flow.src]
    with scratch() as folder:
        save(plan, folder / "plan.json")
        with lab.programmed(plan.fabric, folder, str(folder / "plan.json")) as controller:
            name = interface(src, 0)
            lab.run(*lab.on(src, "tc", "qdisc", "add", "dev", name, "root", "pfifo", "limit", "1000"))
            # Else TCP sends the last segment again when its answer is late on a busy machine (RFC 8985, 7.2).
            lab.run(*lab.on(src, "sysctl", "-qw", "net.ipv4.tcp_early_retrans=0"))
            if not segmentation_offload:
                lab.run(*lab.on(src, "ethtool", "-K", name, "tso", "off", "gso", "off"))
            before = interface_sent_nbytes(src)
            came = transfer(plan, flow, NBYTES)
            stats = lab.statistics(controller, folder / "stats.json")
            ports = {(row["switch"], row["port"]): row for row in stats["ports"]}
            last = ports[flow.path[-1].node, flow.path[-1].port]
            first = ports[plan.fabric.peers[flow.path[0]].node, plan.fabric.peers[flow.path[0]].port]
            return {
                "came": came,
                "sent": sent_by(src),
                "interface": interface_sent_nbytes(src) - before,
                "rules": rows_of(stats, flow),
                "first port received": [first["rx_packets"], first["rx_bytes"]],
                "last port sent": [last["tx_packets"], last["tx_bytes"]],
                "dropped": sum(row["rx_dropped"] + row["tx_dropped"] for row in stats["ports"]),
            }


@pytest.mark.parametrize("segmentation_offload", [True, False])
def test_a_transfer_is_counted_to_the_byte_at_every_switch(segmentation_offload: bool) -> None:
    found = inside(counted_transfer, segmentation_offload)
    assert found["came"] == NBYTES
    nbytes, n_packets = found["sent"]
    assert found["rules"] == {"upper0": [n_packets, nbytes], "lower0": [n_packets, nbytes]}
    assert found["first port received"] == found["last port sent"] == [n_packets, nbytes]
    # Every packet has the same headers but the SYN: so all payload was carried once, nothing twice.
    assert nbytes - n_packets * TCP_HEADERS - (SYN_OPTIONS - 12) == NBYTES
    assert found["dropped"] == 0
    if segmentation_offload:
        assert found["interface"] < nbytes  # the interface counts a super-segment's headers once
    else:
        assert found["interface"] == nbytes


def used_paths(kind: str) -> list[Any]:
    """Which rules and which ports the plan's transfers used, on either kind of switch."""
    plan = two_flow_plan()
    fabric = plan.fabric
    with scratch() as folder:
        save(plan, folder / "plan.json")
        command = python("gradwire.controller", str(folder / "plan.json"))
        lab.cable_up(fabric)
        for host in fabric.hosts:  # user-space Open vSwitch hands on checksums as it gets them
            off = ["tx", "off", "tso", "off", "gso", "off", "gro", "off"]
            lab.run(*lab.on(host, "ethtool", "-K", interface(host, 0), *off))
        with lab.running(command, folder / "controller.log") as controller:
            if kind == "ovs":
                switches: Any = running_ovs(fabric, folder / "ovs", lab.OPENFLOW_PORT)
            else:
                switches = lab.agent_started(fabric, folder)
            with switches:
                controller.await_line("ready")
                for flow in data_flows(plan):
                    assert transfer(plan, flow, 20_000) == 20_000
                return used(plan, controller, folder)


def used(plan: Plan, controller: lab.Child, folder: Path) -> list[Any]:
    """Both directions of each transfer: Open vSwitch needs up to a second to count them all."""
    n_rules = sum(len(flow.path) - 1 for flow in plan.flows)
    n_ports = len({end for flow in data_flows(plan) for end in flow.path[1:]})
    deadline = time.monotonic() + PATIENCE_S
    while True:
        stats = lab.statistics(controller, folder / "stats.json")
        rules = sorted(
            [row["switch"], *(row["match"][key] for key in ("ipv4_src", "ipv4_dst", "tcp_src", "tcp_dst"))]
            for row in stats["flows"]
            if row["priority"] == 300 and row["packets"]
        )
        ports = sorted([row["switch"], row["port"]] for row in stats["ports"] if row["tx_bytes"] > 20_000)
        if (len(rules), len(ports)) == (n_rules, n_ports) or time.monotonic() > deadline:
            return [rules, ports]
        time.sleep(0.2)


def test_both_kinds_of_switch_use_the_rules_and_the_ports_of_the_plan() -> None:
    plan = two_flow_plan()
    rules = sorted(
        [end.node, flow.src_ip, flow.dst_ip, flow.sport, flow.dport]
        for flow in plan.flows
        for end in flow.path[1:]
    )
    ports = sorted({(end.node, end.port) for flow in data_flows(plan) for end in flow.path[1:]})
    expected = [rules, [list(port) for port in ports]]
    assert inside(used_paths, "gradwire") == expected
    assert inside(used_paths, "ovs") == expected


class PlainController:
    """A controller of one switch that sends what a test gives it and sees every answer."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", lab.OPENFLOW_PORT))
        self._server.settimeout(PATIENCE_S)

    def accept(self) -> None:
        self._link, _ = self._server.accept()
        self._link.settimeout(PATIENCE_S)
        self._link.sendall(bytes(of3.OFPTHello()) + bytes(of3.OFPTFeaturesRequest()))
        assert [kind for kind, _ in (self._receive(), self._receive())] == [0, 6]

    def ask(self, *requests: Any) -> list[str]:
        """The answers in hex (error: type and code only), up to the barrier's."""
        self._link.sendall(b"".join(map(bytes, requests)) + bytes(of3.OFPTBarrierRequest()))
        answers = []
        while (message := self._receive())[0] != 21:
            answers.append(message[1][:4].hex())
        return answers

    def flood(self, octets: bytes) -> None:
        """Write as much as the agent takes, and read nothing."""
        self._link.settimeout(1)
        with suppress(TimeoutError):
            self._link.sendall(octets)

    def cut(self) -> None:
        self._link.close()

    def close(self) -> None:
        self._link.close()
        self._server.close()

    def _receive(self) -> tuple[int, bytes]:
        header = self._exactly(8)
        kind, length = struct.unpack("!xBH4x", header)
        return kind, self._exactly(length - 8)

    def _exactly(self, n: int) -> bytes:
        octets = b""
        while len(octets) < n:
            more = self._link.recv(n - len(octets))
            assert more, "the agent closed the connection"
            octets += more
        return octets


def pings(fabric: Fabric, wait_s: int = int(PATIENCE_S)) -> bool:
    """Whether h1 answers h0 within `wait_s`: a short time where it must not."""
    command = lab.on("h0", "ping", "-c", "1", "-W", str(wait_s), fabric.ip("h1"))
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0


def life_of_a_rule() -> dict[str, Any]:
    fabric = parse_fabric("star:hosts=2,rate=100M")
    there, back = dst(fabric.ip("h1")), dst(fabric.ip("h0"))
    found: dict[str, Any] = {}
    with scratch() as folder:
        lab.cable_up(fabric)
        controller = PlainController()
        with lab.agent_started(fabric, folder) as agent:
            agent.await_line("attached")
            controller.accept()
            agent.await_line("connected")
            found["no rule"] = pings(fabric, wait_s=1)
            controller.ask(
                flow_mod(there, [to_port(2)], priority=10), flow_mod(back, [to_port(1)], priority=10)
            )
            found["two rules"] = pings(fabric)
            controller.ask(flow_mod(there, priority=20))
            found["a higher rule that drops"] = pings(fabric, wait_s=1)
            controller.ask(flow_mod(there, cmd="OFPFC_DELETE_STRICT", priority=20))
            found["the higher one deleted"] = pings(fabric)
            found["refused"] = controller.ask(of3.OFPTMeterMod(), bytes.fromhex("04c8000800000001"))
            controller.cut()
            found["without a controller"] = pings(fabric)
            controller.accept()
            found["the controller came back"] = pings(fabric)
            controller.ask(flow_mod(cmd="OFPFC_DELETE", table_id="ALL"))
            found["all deleted"] = pings(fabric, wait_s=1)
            agent.process.send_signal(signal.SIGTERM)
            found["ended"] = agent.end()
            found["pinned"] = Path("/sys/fs/bpf/gradwire_switch").exists()
    return found


def test_rules_take_effect_when_they_are_added_and_deleted() -> None:
    assert inside(life_of_a_rule) == {
        "no rule": False,
        "two rules": True,
        "a higher rule that drops": False,
        "the higher one deleted": True,
        "refused": ["00010001", "00010001"],  # OFPET_BAD_REQUEST, OFPBRC_BAD_TYPE
        "without a controller": True,  # OpenFlow's fail-secure mode
        "the controller came back": True,
        "all deleted": False,
        "ended": [0, ""],
        "pinned": False,
    }


def greedy_controller() -> list[int]:
    """Memory (kB) of the agent before and after a controller that asks for much and reads nothing."""
    fabric = parse_fabric("star:hosts=2")
    with scratch() as folder:
        lab.cable_up(fabric)
        controller = PlainController()
        with lab.agent_started(fabric, folder) as agent:
            controller.accept()
            controller.ask(*(flow_mod(dst(f"10.1.{i // 256}.{i % 256}"), [to_port(1)]) for i in range(1000)))
            before = resident_kb(agent.process.pid)
            controller.flood(bytes(of3.OFPMPRequestFlow()) * 20_000)  # 2 GB of answers
            return [before, resident_kb(agent.process.pid)]


def resident_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = [line for line in status if line.startswith("VmRSS")]
    return int(line.split()[1])


def test_answers_that_nobody_reads_do_not_pile_up() -> None:
    before, after = inside(greedy_controller)
    assert after - before < 20_000


def hostile_controller() -> list[Any]:
    """Bytes that are not OpenFlow end their connection, and only that one."""
    fabric = parse_fabric("star:hosts=2")
    with scratch() as folder:
        lab.cable_up(fabric)
        server = socket.create_server(("127.0.0.1", lab.OPENFLOW_PORT))
        with lab.agent_started(fabric, folder) as agent:
            for octets in (
                b"GET / HTTP/1.0\r\n\r\n" * 2000,
                b"\0" * 70_000,
                bytes.fromhex("0400000400000001"),
            ):
                link, _ = server.accept()
                with link, suppress(ConnectionError):
                    link.settimeout(PATIENCE_S)
                    link.sendall(octets)
                    while link.recv(65536):
                        pass
            link, _ = server.accept()
            with link:
                link.settimeout(PATIENCE_S)
                link.sendall(bytes(of3.OFPTHello()) + bytes(of3.OFPTEchoRequest(xid=9)))
                answer = b""
                while len(answer) < 24:
                    answer += link.recv(65536)
            return [answer[16:24].hex(), agent.process.poll()]


def test_a_hostile_controller_does_not_end_the_agent() -> None:
    assert inside(hostile_controller) == ["0403000800000009", None]


def fails(missing: str) -> list[Any]:
    """[exit code, stderr] of an agent that cannot start."""
    fabric = parse_fabric("star:hosts=2")
    options = ["--patience", "0.3"]
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        if missing != "interface":
            lab.cable_up(fabric)
        if missing == "speech":
            silent = socket.create_server(("127.0.0.1", lab.OPENFLOW_PORT))
            stack.callback(silent.close)
        if missing == "object":
            options += ["--object", "/nonexistent/switch.o"]
        if missing == "good object":
            (folder / "bad.o").write_bytes(b"\x7fELF nonsense")
            options += ["--object", str(folder / "bad.o")]
        if missing == "bpffs":
            lab.run("umount", "/sys/fs/bpf")
            lab.run("mount", "-t", "tmpfs", "tmpfs", "/sys/fs/bpf")
        with lab.agent_started(fabric, folder, *options) as agent:
            return list(agent.end())


@pytest.mark.parametrize(
    ("missing", "complaint"),
    [
        ("interface", "switch switch0: this namespace has no interface switch0-eth1"),
        ("controller", "no OpenFlow 1.3 controller at 127.0.0.1:6653 for 0.3 s"),
        ("speech", "switch0 without one"),
        ("object", "/nonexistent/switch.o: libbpf cannot open it"),
        ("good object", "bad.o: libbpf cannot open it as a BPF object"),
        ("bpffs", "cannot pin the program"),
    ],
)
def test_an_agent_that_cannot_start_says_why_in_one_line(missing: str, complaint: str) -> None:
    code, said = inside(fails, missing)
    assert code == 1
    assert complaint in said
    assert len(said.splitlines()) == 1


def pinged_everywhere(spec: str) -> list[Any]:
    """Pings that failed between all hosts, with destination rules alone, and what was dropped."""
    fabric = parse_fabric(spec)
    failed = []
    with scratch() as folder, lab.programmed(fabric, folder, "--fabric", spec) as controller:
        for src in fabric.hosts:
            for to in fabric.hosts:
                command = lab.on(src, "ping", "-c", "1", "-W", "10", fabric.ip(to))
                if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
                    failed.append([src, to])
        stats = lab.statistics(controller, folder / "stats.json")
        return [failed, sum(row["rx_dropped"] for row in stats["ports"])]


def test_every_host_reaches_every_other_one_through_select_groups() -> None:
    assert inside(pinged_everywhere, "fat-tree:k=4,levels=2") == [[], 0]
