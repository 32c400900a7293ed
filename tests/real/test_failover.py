"""A cable fails under a stream of packets: the switches' fast failover carries on, without the controller.

What is measured are packets: what TCP makes of the loss, a timeout of at least 200 ms, is another matter
(tests/real/test_failures.py).
"""

import ctypes
import json
import os
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from gradwire.emu.network.cables import failing
from gradwire.planning import plan as plans
from gradwire.planning.fabrics.fabric import interface
from gradwire.planning.failures import Failure, changes
from gradwire.planning.plan import Flow, Plan
from tests.made_plans import messages, schedule_plan
from tests.real.inside import inside
from tests.real.lab import programmed
from tests.real.timely import in_time

pytestmark = pytest.mark.real

CONTINUES_S = 0.05  # after the PORT_STATUS
EVERY_S = 0.001
DOWN_S, UP_S, END_S = 0.5, 1.2, 1.8
_CLONE_NEWNET = 0x40000000
_NUMBER = struct.Struct("!I")


@pytest.mark.parametrize(
    ("spec", "hop"),
    [
        ("leaf-spine:leaves=2,spines=2,hosts=1", 1),  # on the way up: another spine is as near
        ("leaf-spine:leaves=3,spines=2,hosts=1", 2),  # on the way down: by a detour over the third leaf
        ("bigraph:n=4,m=1", 1),  # the only shortest path
        ("fat-tree:k=4", 2),  # aggregation to core
        ("fat-tree:k=4", 3),  # core to aggregation
    ],
)
def test_packets_go_on_within_50_ms_of_the_port_status(spec: str, hop: int, tmp_path: Path) -> None:
    seen = in_time(lambda: inside(_streamed, spec, hop, str(tmp_path), timeout_s=120), _is_in_time)
    assert seen["word_s"] is not None
    assert seen["twice"] == 0
    assert _is_in_time(seen), seen


def _is_in_time(seen: dict[str, Any]) -> bool:
    if seen["word_s"] is None:
        return False
    took_s = seen["went_on_s"] - seen["word_s"]
    beyond_word_s = seen["lost"] * EVERY_S - (seen["word_s"] - DOWN_S)
    return bool(max(took_s, beyond_word_s, seen["lost_after_up"] * EVERY_S) < CONTINUES_S)


def _streamed(spec: str, hop: int, folder_name: str) -> dict[str, Any]:
    """A packet of one flow every EVERY_S, while the cable at a hop of its path goes down and up again.

    Times are seconds after the stream's first packet.
    """
    folder = Path(folder_name)
    n_hosts = len(schedule_plan(spec, messages(2, [(0, 1, 1)])).fabric.hosts)
    plan = schedule_plan(spec, messages(n_hosts, [(0, n_hosts - 1, 1000)]), routes="ecmp")
    flow = next(flow for flow in plan.flows if flow.src == 0)
    plans.save(plan, folder / "plan.json")
    log = folder / "control.jsonl"
    down = Failure(flow.path[hop], int(DOWN_S * 1e9), int(UP_S * 1e9))
    with programmed(plan.fabric, folder, str(folder / "plan.json"), "--no-reroute", "--log", str(log)):
        sending = _socket_on(plan.placement[flow.src])
        receiving = _socket_on(plan.placement[flow.dst])
        arrivals: list[tuple[int, int]] = []
        over = threading.Event()
        receiver = threading.Thread(target=_receive, args=(receiving, arrivals, over))
        receiver.start()
        with failing(changes(plan.fabric, (down,))) as cables:
            start_ns = time.monotonic_ns()
            cables.begin(start_ns)
            n_sent = _send(sending, _frame(plan, flow), start_ns)
            time.sleep(0.2)
            cables.end()
        over.set()
        receiver.join()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    words = [(line["time_ns"] - start_ns) / 1e9 for line in lines if line["event"] == "port_down"]
    return _summed(arrivals, n_sent, start_ns) | {"word_s": min(words, default=None)}


def _summed(arrivals: list[tuple[int, int]], n_sent: int, start_ns: int) -> dict[str, Any]:
    numbers = [number for number, _ in arrivals]
    lost = sorted(set(range(n_sent)) - set(numbers))
    middle = int((DOWN_S + UP_S) / 2 / EVERY_S)
    at_failure = [number for number in lost if number < middle]
    after = max(at_failure, default=int(DOWN_S / EVERY_S)) + 1
    went_on_ns = next(at_ns for number, at_ns in arrivals if number >= after)
    return {
        "lost": len(at_failure),
        "lost_after_up": len(lost) - len(at_failure),
        "twice": len(numbers) - len(set(numbers)),
        "went_on_s": (went_on_ns - start_ns) / 1e9,
    }


def _frame(plan: Plan, flow: Flow) -> bytes:
    """A segment of the flow with room for its number; its checksum is wrong, so no TCP answers it."""
    src, dst = (plan.placement[rank] for rank in (flow.src, flow.dst))
    ends = Ether(src=plan.fabric.mac(src), dst=plan.fabric.mac(dst)) / IP(src=flow.src_ip, dst=flow.dst_ip)
    return bytes(ends / TCP(sport=flow.sport, dport=flow.dport, chksum=1) / bytes(_NUMBER.size))


def _send(sending: socket.socket, frame: bytes, start_ns: int) -> int:
    n_packets = int(END_S / EVERY_S)
    for number in range(n_packets):
        wait_s = number * EVERY_S - (time.monotonic_ns() - start_ns) / 1e9
        if wait_s > 0:
            time.sleep(wait_s)
        sending.send(frame[: -_NUMBER.size] + _NUMBER.pack(number))
    return n_packets


def _receive(receiving: socket.socket, arrivals: list[tuple[int, int]], over: threading.Event) -> None:
    receiving.settimeout(0.1)
    while not over.is_set():
        try:
            frame = receiving.recv(2048)
        except TimeoutError:
            continue
        arrivals.append((_NUMBER.unpack(frame[54:58])[0], time.monotonic_ns()))


def _socket_on(host: str) -> socket.socket:
    """A packet socket in a host's namespace: the thread that opens it goes there, and is not used again."""
    with ThreadPoolExecutor(1) as other:
        return other.submit(_opened, host).result()


def _opened(host: str) -> socket.socket:
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(f"/run/netns/{host}", os.O_RDONLY)
    try:
        assert libc.setns(fd, _CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
    finally:
        os.close(fd)
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    made.bind((interface(host, 0), 0x0800))
    return made
