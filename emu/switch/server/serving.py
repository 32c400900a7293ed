"""Serves the switches' controllers: connections, messages to them, and timeouts.

Edge module: waits for sockets, reads the clock.
"""

import selectors
import socket
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from gradwire.emu.switch.plane.dataplane import DataPlane
from gradwire.emu.switch.ports import SwitchPorts
from gradwire.emu.switch.server.connection import Address, ControllerConnection
from gradwire.emu.switch.server.management import Management
from gradwire.emu.switch.server.session import Session
from gradwire.emu.switch.server.state import SwitchState
from gradwire.emu.switch.table.aggregationjobs import AggregationJobs, SharedSlots
from gradwire.emu.switch.table.numbers import Numbers
from gradwire.emu.switch.table.planeoperations import EnablePort
from gradwire.emu.switch.table.table import FlowTable
from gradwire.planning.openflow.entries import MAX_FLOWS, MAX_GROUPS, Event, FlowGone
from gradwire.planning.trees.tree import SWITCH_SLOTS
from gradwire.traces.units import show_first

_URGENT_S = 10.0  # so long one tries often to reach the only controller
_RETRY_S = 0.05
_SLOW_RETRY_S = 0.5  # of further controllers, and of any after a while
_CONNECT_S = 1.0
_EXPIRY_S = 0.25
_PACKETS_AT_ONCE = 128
_MAX_STRANGERS = 16  # of them connect at a time: beyond a controller's backlog they would wait for a second


class NoController(OSError):
    """The controller could not be reached, or not again, in time."""


class SwitchAgent:
    """All switches and their connections."""

    def __init__(
        self,
        switches: Iterable[SwitchPorts],
        plane: DataPlane,
        controllers: Iterable[Address],
        patience_s: float,
        slots: int = SWITCH_SLOTS,
        management: Path | None = None,
    ) -> None:
        """`patience_s` 0 waits for ever; each switch has `slots` for its aggregation jobs.

        People reach the switches by sockets in the folder `management`.  Raise OSError.
        """
        flows, groups, shared = Numbers(MAX_FLOWS), Numbers(MAX_GROUPS), SharedSlots()
        self._switches = {
            each.dpid: SwitchState(
                each, FlowTable(flows, groups, AggregationJobs(shared, slots)), plane.now_ns()
            )
            for each in switches
        }
        self._plane = plane
        self._controllers = tuple(dict.fromkeys(controllers))
        self._answering: set[Address] = set()  # the controllers that somebody is connected to
        self._selector = selectors.DefaultSelector()
        self._leaderless = set(self._switches)
        self._patience_s = patience_s
        self._start_s = time.monotonic()
        self._deadline_s = self._start_s + patience_s
        self._next_try_s = self._next_expiry_s = 0.0
        self._has_reported = False
        self._selector.register(plane.watch.socket, selectors.EVENT_READ, self._on_links)
        self._selector.register(plane.ring.fd, selectors.EVENT_READ, self._on_packets)
        self._management = Management(management, self._selector) if management else None
        if self._management:
            self._management.open_agent(self._obey)
            for switch in self._switches.values():
                self._open_to_people(switch)

    def run(self) -> None:
        """Serve for ever; raise NoController."""
        while True:
            now_s = time.monotonic()
            self._connect(now_s)
            self._expire(now_s)
            if not self._leaderless and not self._has_reported:
                self._has_reported = True
                print("connected", flush=True)
            for key, events in self._selector.select(self._pause_s()):
                serve: Callable[[int], None] = key.data
                serve(events)

    def _pause_s(self) -> float | None:
        """How long nothing has to be done if nothing happens."""
        due = [self._next_try_s] if self._is_incomplete() else []
        if any(switch.table.mortals for switch in self._switches.values()):
            due.append(self._next_expiry_s)
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _is_incomplete(self) -> bool:
        n_running = sum(not switch.is_stopped for switch in self._switches.values())
        n_wanted = n_running * len(self._controllers)
        n_open = sum(each.is_open for s in self._switches.values() for each in s.connections.values())
        return n_open < n_wanted or bool(self._leaderless)

    def _connect(self, now_s: float) -> None:
        if now_s < self._next_try_s or not self._is_incomplete():
            return
        if self._leaderless and self._patience_s and now_s > self._deadline_s:
            raise self._lost()
        is_urgent = self._leaderless and now_s < self._start_s + _URGENT_S
        self._next_try_s = now_s + (_RETRY_S if is_urgent else _SLOW_RETRY_S)
        for controller in self._controllers:
            for switch in self._unconnected(controller, now_s):
                if not self._open(switch, controller, now_s):
                    break

    def _unconnected(self, controller: Address, now_s: float) -> list[SwitchState]:
        """The switches that are to connect now; at first one, which tries if anybody is there."""
        n_strangers = 0
        unconnected = []
        for switch in self._switches.values():
            if switch.is_stopped:
                continue
            connection = switch.connections.get(controller)
            if connection and not connection.is_open and now_s > connection.start_s + _CONNECT_S:
                self._end(switch, connection)
                connection = None
            if connection is None:
                unconnected.append(switch)
            elif not connection.session.is_introduced:
                n_strangers += 1
        n_allowed = _MAX_STRANGERS if controller in self._answering else 1
        return unconnected[: max(0, n_allowed - n_strangers)]

    def _open(self, switch: SwitchState, controller: Address, now_s: float) -> bool:
        session = self._session(switch)
        apply = partial(self._plane.apply, switch.ports.dpid)
        connection = ControllerConnection(controller, session, apply, partial(self._announce, switch), now_s)
        if not connection.start():
            connection.close()
            return False
        switch.connections[controller] = connection
        serve = partial(self._serve, switch, connection)
        self._selector.register(connection.socket, connection.wants(), serve)
        return True

    def _session(self, switch: SwitchState) -> Session:
        return Session(switch.ports, switch.table, self._plane, switch.roles, switch.start_ns)

    def _serve(self, switch: SwitchState, connection: ControllerConnection, events: int) -> None:
        if not self._is_there(switch, connection):
            return  # ended by what another did a moment ago
        was_open, was_introduced = connection.is_open, connection.session.is_introduced
        if not connection.serve(events) or not self._is_there(switch, connection):
            self._end(switch, connection)
            return
        self._select(connection)
        if connection.is_open and not was_open and connection.address not in self._answering:
            self._answering.add(connection.address)
            self._next_try_s = 0.0  # so the others are connected at once
        if connection.session.is_introduced and not was_introduced:
            self._leaderless.discard(switch.ports.dpid)
            self._next_try_s = 0.0

    def _select(self, connection: ControllerConnection) -> None:
        key = self._selector.get_key(connection.socket)
        if key.events != connection.wants():
            self._selector.modify(connection.socket, connection.wants(), key.data)

    def _is_there(self, switch: SwitchState, connection: ControllerConnection) -> bool:
        return switch.connections.get(connection.address) is connection

    def _end(self, switch: SwitchState, connection: ControllerConnection) -> None:
        if not self._is_there(switch, connection):
            return
        self._selector.unregister(connection.socket)
        connection.close()
        del switch.connections[connection.address]
        self._answering.discard(connection.address)
        if not switch.is_led() and switch.ports.dpid not in self._leaderless and not switch.is_stopped:
            self._want_controller(switch)

    def _want_controller(self, switch: SwitchState) -> None:
        if not self._leaderless:  # this is the first to lose its controller
            self._start_s = time.monotonic()
            self._deadline_s = self._start_s + self._patience_s
        self._leaderless.add(switch.ports.dpid)

    def _open_to_people(self, switch: SwitchState) -> None:
        assert self._management
        name = switch.ports.name
        apply, announce = partial(self._plane.apply, switch.ports.dpid), partial(self._announce, switch)

        def connection(accepted: socket.socket) -> ControllerConnection:
            session = self._session(switch)
            return ControllerConnection((name, 0), session, apply, announce, time.monotonic(), accepted)

        self._management.open(name, connection)

    def _obey(self, line: str) -> None:
        """`stop NAME`, `start NAME`, or `led NAME`: has it a controller?  Raise ValueError."""
        verb, _, name = line.partition(" ")
        switch = next((each for each in self._switches.values() if each.ports.name == name), None)
        if switch is None or verb not in ("stop", "start", "led"):
            raise ValueError(f"{line!r} is not a command: write stop, start or led, and a switch's name")
        if verb == "stop" and not switch.is_stopped:
            self._stop(switch)
        elif verb == "start" and switch.is_stopped:
            self._start(switch)
        elif verb == "led" and not switch.is_led():
            raise ValueError(f"{name} has no controller")

    def _stop(self, switch: SwitchState) -> None:
        """As if it lost power: no connections, no rules, and its cables are dead."""
        assert self._management
        switch.is_stopped = True
        self._leaderless.discard(switch.ports.dpid)
        self._management.close(switch.ports.name)
        for connection in list(switch.connections.values()):
            self._end(switch, connection)
        ports = switch.ports.ports
        switch.ports_to_start = [p.port for p in ports if self._plane.link(p.interface).is_enabled]
        self._enable(switch, is_enabled=False)
        for result in switch.forget():
            if not isinstance(result, FlowGone):
                self._plane.apply(switch.ports.dpid, result)

    def _start(self, switch: SwitchState) -> None:
        """Its ports as they were; its rules come from its controllers."""
        switch.is_stopped, switch.start_ns = False, self._plane.now_ns()
        self._enable(switch, is_enabled=True)
        self._open_to_people(switch)
        self._want_controller(switch)
        self._next_try_s = 0.0

    def _enable(self, switch: SwitchState, is_enabled: bool) -> None:
        for port in switch.ports_to_start:
            self._plane.apply(switch.ports.dpid, EnablePort(port, is_enabled))

    def _announce(self, switch: SwitchState, event: Event) -> None:
        for connection in list(switch.connections.values()):
            if connection.hear(event):
                self._select(connection)
            else:
                self._end(switch, connection)

    def _on_links(self, _events: int) -> None:
        for dpid, event in self._plane.link_changes():
            self._announce(self._switches[dpid], event)

    def _on_packets(self, _events: int) -> None:
        for dpid, packet in self._plane.packet_ins(_PACKETS_AT_ONCE):
            self._announce(self._switches[dpid], packet)

    def _expire(self, now_s: float) -> None:
        if now_s < self._next_expiry_s:
            return
        self._next_expiry_s = now_s + _EXPIRY_S
        now_ns = self._plane.now_ns()
        for dpid, switch in self._switches.items():
            for result in switch.expire(self._packets, now_ns):
                if isinstance(result, FlowGone):
                    self._announce(switch, result)
                else:
                    self._plane.apply(dpid, result)

    def _packets(self, flow: int) -> int:
        return self._plane.flow_counts(flow)[0]

    def _lost(self) -> NoController:
        names = [self._switches[dpid].ports.name for dpid in self._switches if dpid in self._leaderless]
        where = " or ".join(f"{host}:{port}" for host, port in self._controllers)
        return NoController(
            f"no OpenFlow 1.3 controller at {where} for {self._patience_s:g} s; "
            f"{show_first(names, 3)} without one"
        )
