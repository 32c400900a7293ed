"""The counters of all switches, requested at the same time and returned as one value."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from gradwire.controller.counters import counters_json
from gradwire.controller.experimenter import counts_request, job_counts, summed
from gradwire.controller.ryu_api import ofp, parser
from gradwire.controller.switch import KnownSwitch
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.openflow.extension import JobCounts


class Statistics:
    """Its caller lets one thread in at a time."""

    def __init__(
        self, fabric: Fabric, switches: Mapping[str, KnownSwitch], past: Mapping[str, Iterable[JobCounts]]
    ) -> None:
        """`past` are, by switch, the counters that trees left behind when they moved."""
        self._fabric = fabric
        self._switches = switches
        self._past = past
        self._entries: dict[str, list[Any]] = {}
        self._ports: dict[str, list[Any]] = {}
        self._jobs: dict[str, list[Any]] = {}

    def ask(self) -> list[str]:
        """Ask every switch for its counters; return the names of those that are not connected."""
        self._entries, self._ports, self._jobs = {}, {}, {}
        connected = {name: switch for name, switch in self._switches.items() if switch.datapath is not None}
        for name, switch in connected.items():
            datapath = switch.datapath
            switch.ask(parser.OFPFlowStatsRequest(datapath), partial(self._entries.__setitem__, name))
            request = parser.OFPPortStatsRequest(datapath, 0, ofp.OFPP_ANY)
            switch.ask(request, partial(self._ports.__setitem__, name))
            if any(rule.aggregate for rule in switch.table.rules):
                switch.ask(counts_request(datapath), partial(self._jobs.__setitem__, name))
            else:  # Open vSwitch knows of no jobs
                self._jobs[name] = []
        return [name for name in self._switches if name not in connected]

    def is_complete(self) -> bool:
        return len(self._entries) == len(self._ports) == len(self._jobs) == len(self._switches)

    def to_json(self) -> dict[str, Any]:
        """What `switches.json` holds.  Raise ValueError for an answer that cannot be read."""
        jobs = {
            name: summed([*self._past.get(name, ()), *job_counts(name, parts)])
            for name, parts in self._jobs.items()
        }
        return counters_json(self._fabric, self._entries, self._ports, jobs)
