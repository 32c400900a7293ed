"""The SDN controller: sends every switch its rules, checks that it has them, and reacts to failures.

It sees no data packet.  All it knows comes from the plan, so two runs of one plan put the same rules on
the same switches.  Written against Ryu's API (`controller.ryu_api`), without constructor arguments: what
to do is in the configuration, group `gradwire`, as in

    [gradwire]
    plan = /path/to/plan.json
"""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from threading import RLock
from typing import Any

from gradwire.controller.connection import use_connections
from gradwire.controller.controllog import ControlLog
from gradwire.controller.experimenter import use_whole_parts
from gradwire.controller.intent import Intent, fabric_intent, plan_intent
from gradwire.controller.readback import use_quick_flow_stats
from gradwire.controller.ryu_api import (
    CONFIG_DISPATCHER,
    DEAD_DISPATCHER,
    HANDSHAKE_DISPATCHER,
    MAIN_DISPATCHER,
    App,
    cfg,
    hub,
    ofp,
    ofp_event,
    set_ev_cls,
)
from gradwire.controller.statistics import Statistics
from gradwire.controller.steering import Steering
from gradwire.controller.switch import KnownSwitch
from gradwire.controller.topologycheck import TopologyCheck
from gradwire.planning import plan as plans
from gradwire.planning.fabrics.spec import parse_fabric

GROUP = "gradwire"
POLL_S = 0.25  # between two looks at the counters of adaptive routes
_ANSWERING = [CONFIG_DISPATCHER, MAIN_DISPATCHER]

Handler = Callable[["FabricController", Any], None]

cfg.CONF.register_opts(
    [
        cfg.StrOpt("plan", help="plan.json whose flows are routed"),
        cfg.StrOpt("fabric", help="instead of a plan: the fabric, for routes between all hosts"),
        cfg.StrOpt("routes", default="ecmp", help="the policy for `fabric`"),
        cfg.StrOpt("log", help="file for failures and what was done"),
        cfg.BoolOpt("waits", default=True, help="wait while switches have another topology"),
        cfg.BoolOpt("reroute", default=True, help="answer failures with new routes"),
    ],
    group=GROUP,
)
use_connections()
use_quick_flow_stats()
use_whole_parts()


def keeping(handler: Handler) -> Handler:
    """Run one handler at a time, and keep what it raises in `refusals`.

    With its native threads os-ken 4.2.2 drops it without a log line, and the app's thread ends: its
    `hub.TaskExit`, which every thread passes over, is `Exception`.
    """

    @wraps(handler)
    def kept(app: "FabricController", event: Any) -> None:
        try:
            with app.lock:
                handler(app, event)
                if app.events.empty():  # a cable has two ends, a switch many cables: answer all at once
                    app.steering.react()
        except Exception as error:  # noqa: BLE001 - see above: this is the last place where it is seen
            app.refusals.append(f"{handler.__name__}: {type(error).__name__}: {error}")

    return kept


class FabricController(App):
    """Its public attributes are read by the main thread, which prints, waits and ends the process.

    `refusals` is what went wrong, one line each; `statistics` are there once `is_counted`.
    """

    OFP_VERSIONS = (ofp.OFP_VERSION,)

    def __init__(self, *arguments: Any, **contexts: Any) -> None:
        """Raise BadPlan, Refused, OSError or ValueError for a configuration that cannot be carried out."""
        super().__init__(*arguments, **contexts)
        options = cfg.CONF[GROUP]
        self.lock = RLock()
        self.refusals: list[str] = []
        intent = _configured(options)
        self.fabric = intent.fabric
        self.switches = {name: KnownSwitch(name, self.refusals.append) for name in self.fabric.switches}
        self._log = ControlLog(Path(options.log) if options.log else None)
        self._log.write("rules", text=intent.says, rules=sum(map(len, intent.rules.values())))
        self._fit = TopologyCheck(self.fabric, self._log.note if options.waits else self.refusals.append)
        self.steering = Steering(intent, self.switches, self._log, options.reroute)
        self.statistics = Statistics(self.fabric, self.switches, self.steering.past)

    def start(self) -> Any:
        if self.steering.intent.is_adaptive:
            self.threads.append(hub.spawn(self._poll))
        return super().start()

    def settle(self) -> None:
        """Look at all ports again, before `is_settled`."""
        with self.lock:
            self.steering.settle()

    def is_settled(self) -> bool:
        """True once all cables are up and all switches have the first rules again; leads there."""
        with self.lock:
            return self.steering.is_settled()

    def is_in_force_at(self, switch: str) -> bool:
        """As `Steering` has it, likewise `is_gone` and `is_away`."""
        with self.lock:
            return self.steering.is_in_force_at(switch)

    def is_gone(self, switch: str) -> bool:
        with self.lock:
            return self.steering.is_gone(switch)

    def is_away(self, switch: str) -> bool:
        with self.lock:
            return self.steering.is_away(switch)

    def ask_statistics(self) -> None:
        """Ask every switch for its counters; they are there when `is_counted`."""
        with self.lock:
            for name in self.statistics.ask():
                self.refusals.append(f"{name}: has lost its connection, so its counters cannot be read")

    def is_counted(self) -> bool:
        return self.statistics.is_complete()

    @set_ev_cls(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])
    @keeping
    def on_connection(self, event: Any) -> None:
        """A connection has become a switch's, or has ended."""
        datapath = event.datapath
        switch = self._switch(datapath)
        if event.state == DEAD_DISPATCHER:
            self._gone(datapath, switch)
        elif switch is None:
            self._drop(datapath, f"it says it has dpid {datapath.id}, which no switch of the fabric has")
        elif switch.datapath is not None:
            self._drop(datapath, f"it says it is {switch.name}, which is connected already")
        elif self._fit.admits(switch.name, datapath.ports):  # else it is here, but gets no rules
            self._log.write("switch_came", switch=switch.name)
            switch.come(datapath, self.steering.table_of(switch))
            for port in datapath.ports.values():
                self.steering.look_at(switch, port)

    @set_ev_cls(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)
    @keeping
    def on_port(self, event: Any) -> None:
        """A port has lost its carrier, or has it again."""
        if (switch := self._ours(event.msg)) is not None:
            is_gone = event.msg.reason == ofp.OFPPR_DELETE
            self.steering.look_at(switch, event.msg.desc, is_gone=is_gone)

    @set_ev_cls(ofp_event.EventOFPBarrierReply, _ANSWERING)
    @keeping
    def on_barrier(self, event: Any) -> None:
        """All that was sent before is carried out or refused."""
        if (switch := self._ours(event.msg)) is not None:
            switch.reach_barrier()

    @set_ev_cls(
        [
            ofp_event.EventOFPGroupDescStatsReply,
            ofp_event.EventOFPFlowStatsReply,
            ofp_event.EventOFPPortStatsReply,
            ofp_event.EventOFPPortDescStatsReply,
            ofp_event.EventOFPExperimenterStatsReply,
        ],
        _ANSWERING,
    )
    @keeping
    def on_answer(self, event: Any) -> None:
        """A part of what a switch was asked."""
        if (switch := self._ours(event.msg)) is not None:
            switch.answer(event.msg)

    @set_ev_cls(ofp_event.EventOFPErrorMsg, [HANDSHAKE_DISPATCHER, *_ANSWERING])
    @keeping
    def on_refusal(self, event: Any) -> None:
        """No error is expected, ever."""
        kind, code = event.msg.type, event.msg.code
        refused = (
            f"refused a message: {ofp.ofp_error_type_to_str(kind)}, {ofp.ofp_error_code_to_str(kind, code)}"
        )
        if (switch := self._ours(event.msg)) is not None:
            self.refusals.append(f"{switch.name} {refused}")
        else:
            self._drop(event.msg.datapath, f"it {refused}")

    def _switch(self, datapath: Any) -> KnownSwitch | None:
        """The switch of the fabric that it says it is."""
        number = datapath.id
        known = number is not None and 1 <= number <= len(self.fabric.switches)
        return self.switches[self.fabric.switch_at(number)] if known else None

    def _ours(self, message: Any) -> KnownSwitch | None:
        """The switch that a message came from, if its connection is the one that counts."""
        switch = self._switch(message.datapath)
        return switch if switch is not None and switch.datapath is message.datapath else None

    def _drop(self, datapath: Any, reason: str) -> None:
        self._log.note(f"dropped a connection from {datapath.address[0]}: {reason}")
        datapath.close()

    def _gone(self, datapath: Any, switch: KnownSwitch | None) -> None:
        trouble = getattr(datapath, "trouble", None)
        if switch is None or switch.datapath is not datapath:
            if trouble:
                self._log.note(f"dropped a connection from {datapath.address[0]}: {trouble}")
            return
        switch.go()
        self._log.write("switch_gone", switch=switch.name)
        if trouble:
            self.refusals.append(f"{switch.name}: {trouble}")

    def _poll(self) -> None:
        """Adaptive routes: look at the counters again and again."""
        while self.is_active:
            hub.sleep(POLL_S)
            try:
                with self.lock:
                    self.steering.ask_rates()
            except Exception as error:  # noqa: BLE001 - this thread's end: nobody else would see it
                self.refusals.append(f"adaptive routes: {type(error).__name__}: {error}")
                return


def _configured(options: Any) -> Intent:
    if options.plan:
        return plan_intent(plans.load(Path(options.plan)))
    if options.fabric:
        return fabric_intent(parse_fabric(options.fabric), options.routes)
    raise ValueError(
        f"the controller has nothing to do: set plan or fabric in group {GROUP} of the configuration"
    )
