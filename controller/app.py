"""The SDN controller: tells every switch its rules, once, and checks that it has them.

It learns nothing and sees no data packet.  All it knows comes from the plan, so two runs of one plan
put the same rules on the same switches.  Written against Ryu's API (`controller.ryu_api`).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from controller import openflow
from controller.rules import Rule
from controller.ryu_api import (
    CONFIG_DISPATCHER,
    DEAD_DISPATCHER,
    HANDSHAKE_DISPATCHER,
    MAIN_DISPATCHER,
    App,
    ofp,
    ofp_event,
    parser,
    set_ev_cls,
)
from emu.fabric import Fabric

_ANSWERING = [CONFIG_DISPATCHER, MAIN_DISPATCHER]
_OF_PORTS, _OF_FLOWS, _OF_GROUPS = ofp.OFPMP_PORT_STATS, ofp.OFPMP_FLOW, ofp.OFPMP_GROUP_DESC


Handler = Callable[["FabricController", Any], None]


def keeping(handler: Handler) -> Handler:
    """Keep what a handler raises in `refusals`.

    With its native threads os-ken 4.2.2 drops it without a log line, and the app's thread ends: its
    `hub.TaskExit`, which every thread passes over, is `Exception`.
    """

    @wraps(handler)
    def kept(app: "FabricController", event: Any) -> None:
        try:
            handler(app, event)
        except Exception as error:  # noqa: BLE001 - see above: this is the last place where it is seen
            app.refusals.append(f"{handler.__name__}: {type(error).__name__}: {error}")

    return kept


class FabricController(App):
    """Its public attributes are read by the main thread, which prints, waits and ends the process.

    `unready` are the switches that do not have their rules yet; `refusals` what went wrong, one line each.
    """

    OFP_VERSIONS = (ofp.OFP_VERSION,)

    def __init__(self, fabric: Fabric, rules: Mapping[str, tuple[Rule, ...]]) -> None:
        super().__init__()
        self.unready = set(fabric.switches)
        self.refusals: list[str] = []
        self.flows: dict[str, list[Any]] = {}
        self.ports: dict[str, list[Any]] = {}
        self._fabric = fabric
        self._rules = rules
        self._datapaths: dict[str, Any] = {}
        self._groups: dict[str, list[Any]] = {}
        self._parts: defaultdict[tuple[str, int], list[Any]] = defaultdict(list)

    def ask_statistics(self) -> None:
        """Ask every switch for its counters; they are there when `is_counted`."""
        self.flows.clear()
        self.ports.clear()
        for switch in self._fabric.switches:
            datapath = self._datapaths.get(switch)
            if datapath is None:
                self.refusals.append(f"{switch}: has lost its connection, so its counters cannot be read")
            else:
                datapath.send_msg(parser.OFPFlowStatsRequest(datapath))
                datapath.send_msg(parser.OFPPortStatsRequest(datapath, 0, ofp.OFPP_ANY))

    def is_counted(self) -> bool:
        return len(self.flows) == len(self.ports) == len(self._fabric.switches)

    @set_ev_cls(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])
    @keeping
    def on_connection(self, event: Any) -> None:
        """A switch has come, or gone."""
        datapath = event.datapath
        switch = self._switch(datapath)
        if switch is None:
            if event.state == MAIN_DISPATCHER:
                self.refusals.append(f"a switch with dpid {datapath.id} came, which the fabric has not")
        elif event.state == MAIN_DISPATCHER:
            self._datapaths[switch] = datapath
            datapath.send(openflow.program(datapath, self._rules[switch]))
        elif self._datapaths.get(switch) is datapath:
            del self._datapaths[switch]

    @set_ev_cls(ofp_event.EventOFPBarrierReply, _ANSWERING)
    @keeping
    def on_programmed(self, event: Any) -> None:
        """All is carried out or refused: ask what is there."""
        datapath = event.msg.datapath
        datapath.send_msg(parser.OFPGroupDescStatsRequest(datapath))
        datapath.send_msg(parser.OFPFlowStatsRequest(datapath))

    @set_ev_cls(ofp_event.EventOFPGroupDescStatsReply, _ANSWERING)
    @keeping
    def on_groups(self, event: Any) -> None:
        """Groups are asked for before flows, and answered in order."""
        if (whole := self._whole(event.msg, _OF_GROUPS)) is not None:
            self._groups[whole[0]] = whole[1]

    @set_ev_cls(ofp_event.EventOFPFlowStatsReply, _ANSWERING)
    @keeping
    def on_flows(self, event: Any) -> None:
        """The check of a switch that is not ready, otherwise its counters."""
        if (whole := self._whole(event.msg, _OF_FLOWS)) is None:
            return
        switch, flows = whole
        if switch in self.unready:
            self._check(switch, flows)
        else:
            self.flows[switch] = flows

    @set_ev_cls(ofp_event.EventOFPPortStatsReply, _ANSWERING)
    @keeping
    def on_ports(self, event: Any) -> None:
        """The counters of a switch's ports."""
        if (whole := self._whole(event.msg, _OF_PORTS)) is not None:
            self.ports[whole[0]] = whole[1]

    @set_ev_cls(ofp_event.EventOFPErrorMsg, [HANDSHAKE_DISPATCHER, *_ANSWERING])
    @keeping
    def on_refusal(self, event: Any) -> None:
        """No error is expected, ever."""
        message = event.msg
        switch = self._switch(message.datapath) or "a switch"
        kind, code = message.type, message.code
        self.refusals.append(
            f"{switch} refused a message: {ofp.ofp_error_type_to_str(kind)}, "
            f"{ofp.ofp_error_code_to_str(kind, code)}"
        )

    def _switch(self, datapath: Any) -> str | None:
        number = datapath.id
        known = number is not None and 1 <= number <= len(self._fabric.switches)
        return self._fabric.switch_at(number) if known else None

    def _whole(self, message: Any, kind: int) -> tuple[str, list[Any]] | None:
        """The switch and the body of a reply, once its last part is here."""
        switch = self._switch(message.datapath)
        if switch is None:
            return None
        parts = self._parts[switch, kind]
        parts += message.body
        if message.flags & ofp.OFPMPF_REPLY_MORE:
            return None
        del self._parts[switch, kind]
        return switch, parts

    def _check(self, switch: str, flows: list[Any]) -> None:
        """Ready, if the switch has exactly the rules it was sent."""
        try:
            found = Counter(openflow.installed(flows, self._groups.get(switch, [])))
        except openflow.UnknownRule as error:
            self.refusals.append(f"{switch}: {error}")
            return
        wanted = Counter(self._rules[switch])
        if found == wanted:
            self.unready.discard(switch)
            return
        missing, foreign = wanted - found, found - wanted
        example = next(iter(missing or foreign))
        self.refusals.append(
            f"{switch} has not the rules it was sent: {missing.total()} missing, "
            f"{foreign.total()} that are not ours, such as {example}"
        )
