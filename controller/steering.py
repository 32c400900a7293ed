"""Decides which rules are in force: they change when cables fail or return, and as adaptive routes move."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
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
from gradwire.controller.openflow import SwitchTable
from gradwire.controller.rates import FlowRates
from gradwire.controller.ryu_api import ofp, parser
from gradwire.controller.stages import stages
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
        self.intent = self._first = self._sent = intent  # `_sent`: the last one of which all was sent
        self._fabric = intent.fabric
        self._switches = switches
        self._log = log
        self._reroutes = reroutes
        self._down_ends: set[Egress] = set()
        self._down: frozenset[Link] = frozenset()  # cables that `intent` does not use
        self._returning: frozenset[Link] = frozenset()  # cables that it uses again, but not everywhere yet
        self._since_ns: dict[Link, int] = {}  # when the ends of a cable became what `intent` does not know
        self._number = 0  # of the last change: a step of an earlier one is not taken any more
        self._n_changing = 0  # changes whose barriers are not all answered
        self._rates: FlowRates | None = None
        self.past: defaultdict[str, list[JobCounts]] = defaultdict(list)
        self._looks_left = 0  # until it is known how all ports are
        self._looking: set[str] = set()  # the switches that have not answered the last one

    def unready(self) -> list[str]:
        """The switches that have not, or not for certain, their rules."""
        return [name for name, switch in self._switches.items() if not switch.is_ready]

    def table_of(self, switch: KnownSwitch) -> SwitchTable:
        """What a switch that comes is to have.  During a change that is not all of `intent` yet."""
        return switch.table if switch.table.rules else openflow.table(self.intent.rules[switch.name])

    def is_in_force_at(self, switch: str) -> bool:
        """Whether it has its rules, its cables that are up are used, and no switch is being sent others."""
        returned = self._down - self._reported_down()
        is_used = all(switch not in (link.a, link.b) for link in returned)
        return self._switches[switch].is_ready and is_used and not self._n_changing

    def is_away(self, switch: str) -> bool:
        """Whether it has no connection."""
        return self._switches[switch].datapath is None

    def is_gone(self, switch: str) -> bool:
        """Whether it is away, and all flows have been led around it, if that is what is done."""
        inner = {link for link in self._fabric.inner_links if switch in (link.a, link.b)}
        is_avoided = not self._reroutes or inner <= self._down
        return self.is_away(switch) and is_avoided and not self._n_changing

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
        self._since_ns.setdefault(self._fabric.cables[end], now_ns())
        self._down_ends ^= {end}
        self._log.write("port_down" if is_down else "port_up", switch=switch.name, port=end.port)

    def react(self) -> None:
        """Lead all flows around the cables that are down by now, and back over those that have returned.

        A cable has returned when it is up and the switches at its ends have their rules: one that had no
        power is up before it has any.  Flows are led back in stages, in which no packet is lost.  If another
        cable has failed there is no time for these: all flows are first led around what they do not all use.
        """
        if not self._reroutes:
            return
        reported, unused = self._reported_down(), self._down | self._returning
        unready = {link for link in unused - reported if not self._has_ready_ends(link)}
        failed = (reported | unready) - self._down
        down = unused | reported if failed else reported | unready
        since_ns, up, now = self._since_ns, down - reported, now_ns()
        self._since_ns = {link: ns for link, ns in since_ns.items() if link in up}
        if down == self._down:
            return
        first_ns = min(since_ns.get(link, now) for link in failed or self._down - down)
        self._down, self._returning = down, unused - down
        intent = rerouted_intent(self._first, self.intent, down)
        there = {name: switch.table.rules for name, switch in self._switches.items()}
        via = [] if failed else stages(self._fabric, down, there, intent.rules)
        self._change(intent, "rerouted", first_ns, via, down=self._names(down))
        if failed:
            self.react()  # what has returned

    def _reported_down(self) -> frozenset[Link]:
        return frozenset(self._fabric.cables[end] for end in self._down_ends)

    def _has_ready_ends(self, link: Link) -> bool:
        return all(self._switches[end].is_ready for end in (link.a, link.b) if end in self._switches)

    def _names(self, down: frozenset[Link]) -> list[str]:
        return sorted(link_name(self._fabric, Egress(link.a, link.a_port)) for link in down)

    def _change(
        self, intent: Intent, event: str, since_ns: int, via: Iterable[Rules] = (), **values: object
    ) -> None:
        """Lead all switches from what they have through the stages `via` to the intent's rules.

        It is logged when all have these.  One that another change overtakes in its stages is not: the other
        goes on from there.
        """
        self.intent = intent
        self._number += 1
        self._n_changing += 1
        if self._rates:
            self._rates.forget_links()
        number, left = self._number, list(via)

        def go_on(n_sent: int = 0) -> None:
            if number != self._number:
                self._n_changing -= 1
            elif left:
                self._send_rules(left.pop(0), lambda n_rules: reached(n_sent + n_rules))
            else:
                self._complete(intent, event, since_ns, n_sent, values)

        def reached(n_sent: int) -> None:
            self.react()  # a switch of a cable that returns may be gone, and not have the stage's rules
            go_on(n_sent)

        go_on()

    def _complete(
        self, intent: Intent, event: str, since_ns: int, n_before: int, values: Mapping[str, object]
    ) -> None:
        """Send every switch what is new in the intent, after `n_before` rules, and log it once all have it.

        A tree that moves is gone from every switch before it comes to any: then its slots are free again, and
        nobody adds to half a tree.  All else need not wait for that.
        """
        number = self._number
        moved, trees = moves(self._sent, intent), tree_moves(self._sent, intent)
        self._sent, self._returning = intent, frozenset()
        self._keep_counts({tree["job"] for tree in trees})

        def done(n_rules: int) -> None:
            self._n_changing -= 1
            seconds = (now_ns() - since_ns) / 1e9
            self._log.write(event, flows=len(moved), rules=n_rules, seconds=seconds, **values)
            for tree in trees:
                self._log.write("tree_moved" if tree["to"] else "tree_lost", **tree, **values)

        def send_all(n_sent: int) -> None:
            if number == self._number:
                self._send_rules(intent.rules, lambda n_rules: done(n_sent + n_rules))
            else:  # a later change may have sent its own rules
                done(n_sent)

        if intent.has_trees:
            self._send_rules(self._without_new_trees(intent), lambda n_rules: send_all(n_before + n_rules))
        else:
            send_all(n_before)

    def _keep_counts(self, jobs: Collection[object]) -> None:
        """Ask for what these jobs have counted; switches obey in order, so before their rules can go."""

        def take(name: str, parts: list[Any]) -> None:
            self.past[name] += [counts for counts in job_counts(name, parts) if counts.job in jobs]

        for name, switch in self._switches.items() if jobs else ():
            there = {rule.aggregate.job for rule in switch.table.rules if rule.aggregate}
            if switch.datapath and not there.isdisjoint(jobs):
                switch.ask(counts_request(switch.datapath), partial(take, name))

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


def _without(wanted: tuple[Rule, ...], there: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """`wanted` less the rules that add up and are not there; itself if there are none of these."""
    new = {rule for rule in wanted if rule.aggregate}.difference(rule for rule in there if rule.aggregate)
    return tuple(rule for rule in wanted if not rule.aggregate or rule not in new) if new else wanted
