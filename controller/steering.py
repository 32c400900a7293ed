"""Decides which rules are in force: they change when cables fail or return, and as adaptive routes move."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from gradwire.controller import openflow
from gradwire.controller.controllog import ControlLog, now_ns
from gradwire.controller.experimenter import counts_request, job_counts
from gradwire.controller.intent import (
    Intent,
    home_intent,
    moves,
    rebalanced_intent,
    rerouted_intent,
    tree_moves,
)
from gradwire.controller.rates import FlowRates
from gradwire.controller.ryu_api import ofp, parser
from gradwire.controller.switch import KnownSwitch
from gradwire.planning.fabrics.fabric import Egress, Link, link_name
from gradwire.planning.openflow.extension import JobCounts
from gradwire.planning.openflow.rules import Rule, Rules

# Open vSwitch may answer from what it knew before its kernel reported a change; it has read that by the next
# question (its main loop serves controllers first, then reads rtnetlink).
_LOOKS = 2


class Steering:
    """Leads the switches from one intent to the next; `intent` is the present one.  Its caller lets one
    thread in at a time.
    """

    def __init__(
        self, intent: Intent, switches: Mapping[str, KnownSwitch], log: ControlLog, reroutes: bool
    ) -> None:
        """Without `reroutes`, failures are only logged.

        `past` is, by switch, what trees had counted when they were taken away.
        """
        self.intent = self._first = intent
        self._fabric = intent.fabric
        self._switches = switches
        self._log = log
        self._reroutes = reroutes
        self._down_ends: set[Egress] = set()
        self._down: frozenset[Link] = frozenset()  # as `intent` knows it
        self._since_ns = 0  # the first change of `_down_ends` that it does not know
        self._n_changing = 0  # changes whose barriers are not all answered
        self._rates: FlowRates | None = None
        self.past: defaultdict[str, list[JobCounts]] = defaultdict(list)
        self._looks_left = 0  # until it is known how all ports are
        self._looking: set[str] = set()  # the switches that have not answered the last one

    def unready(self) -> list[str]:
        """The switches that have not, or not for certain, their rules."""
        return [name for name, switch in self._switches.items() if not switch.is_ready]

    def is_in_force_at(self, switch: str) -> bool:
        """Whether it has its rules, and no switch is being sent others."""
        return self._switches[switch].is_ready and not self._n_changing

    def is_away(self, switch: str) -> bool:
        """Whether it has no connection."""
        return self._switches[switch].datapath is None

    def settle(self) -> None:
        """From now on `is_settled` counts only what the switches say of their ports when asked again.

        A PORT_STATUS of a cable that failed a moment ago may be on its way, and the switch itself may not
        have heard of it from its kernel.
        """
        self._looks_left, self._looking = _LOOKS, set()

    def is_settled(self) -> bool:
        """True once all cables are up and all switches have the first rules again; leads there."""
        self.react()
        if self.unready():
            self.settle()  # who comes again is asked again
            return False
        if self._looking or self._looks_left:
            if not self._looking:
                self._look_again()
            return False
        if self._down_ends or self._n_changing:
            return False
        self._rates = None
        self._first = home_intent(self._first, self.intent)
        if self.intent is self._first:
            self._log.write("settled")
            return True
        self._change(self._first, "rerouted", now_ns(), down=[])
        return False

    def _look_again(self) -> None:
        """Ask every switch how its ports are."""
        self._looks_left -= 1
        self._looking = looking = set(self._switches)

        def take(switch: KnownSwitch, ports: list[Any]) -> None:
            for port in ports:
                self.look_at(switch, port)
            looking.discard(switch.name)

        for switch in self._switches.values():
            switch.ask(parser.OFPPortDescStatsRequest(switch.datapath), partial(take, switch))

    def look_at(self, switch: KnownSwitch, port: Any, is_gone: bool = False) -> None:
        """Is this port of the fabric up or down, and was it so before?"""
        end = Egress(switch.name, port.port_no)
        if end not in self._fabric.peers:
            return  # Open vSwitch has a port of its own besides
        is_down = is_gone or bool(port.state & ofp.OFPPS_LINK_DOWN or port.config & ofp.OFPPC_PORT_DOWN)
        if is_down == (end in self._down_ends):
            return
        self._since_ns = self._since_ns or now_ns()
        self._down_ends ^= {end}
        self._log.write("port_down" if is_down else "port_up", switch=switch.name, port=end.port)

    def react(self) -> None:
        """Lead all flows around the cables that are down by now."""
        since_ns, self._since_ns = self._since_ns, 0
        down = frozenset(self._fabric.cables[each] for each in self._down_ends)
        if down == self._down or not self._reroutes:
            return
        only_returned, self._down = down < self._down, down
        intent = rerouted_intent(self._first, self.intent, down)
        self._change(intent, "rerouted", since_ns, adds_first=only_returned, down=self._names(down))

    def _names(self, down: frozenset[Link]) -> list[str]:
        return sorted(link_name(self._fabric, Egress(link.a, link.a_port)) for link in down)

    def _change(
        self, intent: Intent, event: str, since_ns: int, *, adds_first: bool = False, **values: object
    ) -> None:
        """Send every switch what is new, and log it once all have carried it out.

        If it `adds_first`, no rule sends packets elsewhere than before until all switches have the rules that
        they had nothing for: a switch that comes back could not forward what the others send it at once.
        Where cables failed there is no time for that, and packets are lost anyway.

        A tree that moves is gone from every switch before it comes to any: then its slots are free again, and
        nobody adds to half a tree.  All else need not wait for that.
        """
        moved, trees = moves(self.intent, intent), tree_moves(self.intent, intent)
        self.intent = intent

        def done(n_rules: int) -> None:
            self._n_changing -= 1
            seconds = (now_ns() - since_ns) / 1e9
            self._log.write(event, flows=len(moved), rules=n_rules, seconds=seconds, **values)
            for tree in trees:
                self._log.write("tree_moved" if tree["to"] else "tree_lost", **tree, **values)

        steps = [self._with_new] if adds_first else []
        if intent.has_trees:
            steps.append(self._without_new_trees)
        steps.append(lambda intent: intent.rules)

        def go_on(n_before: int = 0) -> None:
            if steps and self.intent is intent:
                self._send_rules(steps.pop(0)(intent), lambda n_rules: go_on(n_before + n_rules))
            else:  # a later intent may have sent its own rules
                done(n_before)

        self._n_changing += 1
        if self._rates:
            self._rates.forget_links()
        self._keep_counts({tree["job"] for tree in trees})
        go_on()

    def _keep_counts(self, jobs: Collection[object]) -> None:
        """Ask for what these jobs have counted; switches obey in order, so before their rules can go."""

        def take(name: str, parts: list[Any]) -> None:
            self.past[name] += [counts for counts in job_counts(name, parts) if counts.job in jobs]

        for name, switch in self._switches.items() if jobs else ():
            there = {rule.aggregate.job for rule in switch.table.rules if rule.aggregate}
            if switch.datapath and not there.isdisjoint(jobs):
                switch.ask(counts_request(switch.datapath), partial(take, name))

    def _with_new(self, intent: Intent) -> Rules:
        """What the switches have, and the intent's rules that they have nothing for; none that adds up."""
        return {
            name: _with(switch_rules, self._switches[name].table.rules)
            for name, switch_rules in intent.rules.items()
        }

    def _without_new_trees(self, intent: Intent) -> Rules:
        """The intent's rules, those left out that add up and are not at their switches yet."""
        return {
            name: _without(switch_rules, self._switches[name].table.rules)
            for name, switch_rules in intent.rules.items()
        }

    def _send_rules(self, rules: Rules, done: Callable[[int], None]) -> None:
        """Send every switch what is new in `rules`; call `done` with their number once all have them."""
        n_waiting, n_rules = 1, 0  # one of them until all have been sent theirs

        def one_is_done() -> None:
            nonlocal n_waiting
            n_waiting -= 1
            if not n_waiting:
                done(n_rules)

        for name, switch in self._switches.items():
            n_waiting += 1
            if switch.table.rules is rules[name]:  # to look for what differs takes its time
                switch.when_done(one_is_done)
            else:
                n_rules += switch.update(openflow.table(rules[name], switch.table), one_is_done)
        one_is_done()

    def ask_rates(self) -> None:
        """Ask for the counters of flows and ports; when all have come, move large flows off full links."""
        if self.unready() or self._n_changing or self.intent.plan is None:
            return
        rates = self._rates = self._rates or FlowRates(self.intent.plan)
        since_ns = now_ns()
        flows: dict[str, list[Any]] = {}
        ports: dict[str, list[Any]] = {}

        def take(answers: dict[str, list[Any]], name: str, answer: list[Any]) -> None:
            answers[name] = answer
            all_answered = len(flows) == len(rates.switches) and len(ports) == len(self._switches)
            if all_answered and self._rates is rates and not self._n_changing:
                self._rebalance(rates.taken(flows), rates.links_taken(ports), since_ns)

        for name, switch in self._switches.items():
            if name in rates.switches:
                switch.ask(parser.OFPFlowStatsRequest(switch.datapath), partial(take, flows, name))
            request = parser.OFPPortStatsRequest(switch.datapath, 0, ofp.OFPP_ANY)
            switch.ask(request, partial(take, ports, name))

    def _rebalance(self, rate_bps: dict[int, float], link_bps: dict[Egress, float], since_ns: int) -> None:
        intent = rebalanced_intent(self.intent, rate_bps, link_bps, self._down)
        if intent is not self.intent:
            self._change(intent, "rebalanced", since_ns, moves=moves(self.intent, intent))


def _with(wanted: tuple[Rule, ...], there: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """`there` and what of `wanted` matches what nothing there matches; itself if there is nothing."""
    if wanted is there:
        return there
    known = {(rule.match, rule.priority) for rule in there}
    new = tuple(rule for rule in wanted if not rule.aggregate and (rule.match, rule.priority) not in known)
    return there + new if new else there


def _without(wanted: tuple[Rule, ...], there: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """`wanted` less the rules that add up and are not there; itself if there are none of these."""
    new = {rule for rule in wanted if rule.aggregate}.difference(rule for rule in there if rule.aggregate)
    return tuple(rule for rule in wanted if not rule.aggregate or rule not in new) if new else wanted
