"""Backup ports: where a switch sends a flow if the next cable on its path is down.

A switch has one rule for a flow, whichever way the packet came, so a packet that is sent back is lost in
a loop.  The other port leads to a *loop-free alternate* (RFC 5286): to a switch on the rest of the path,
or to one no farther from the destination than the failed cable, from which the shortest paths lead on
without coming back.  On the way up a Clos every other uplink does.  On the way down none does, and some
switches off the path are given a rule for the flow: a *detour* through them to the next such switch.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from gradwire.planning.fabrics.fabric import Egress, Fabric
from gradwire.planning.fabrics.paths import distances
from gradwire.planning.routing.shortest import Path

_PORTS = 1 << 32


@dataclass(frozen=True, slots=True)
class Protection:
    """Against the failure of any one cable between the switches of a path.

    `backups` are, for every switch of the path but the last, the ports that are equally good instead of
    its own, the next higher number first; none if there is no way.  `detours` are the ports that
    switches off the path use for this flow.
    """

    backups: tuple[tuple[int, ...], ...] = ()
    detours: tuple[Egress, ...] = ()


class Backups:
    """Protections in one fabric; what was found for one path serves the others that end alike.

    Without detours a cable that only a detour could replace has no backup.
    """

    def __init__(self, fabric: Fabric, has_detours: bool = True) -> None:
        self._fabric = fabric
        self._has_detours = has_detours
        self._switches = frozenset(fabric.switches)
        self._far: dict[str, dict[str, int]] = {}
        self._between: dict[str, list[tuple[Egress, str]]] = {}  # a switch's cables to other switches
        self._beside: dict[tuple[Egress, str, int], list[tuple[int, str]]] = {}
        self._around: dict[_Search, Path] = {}

    def along(self, path: Path) -> Protection:
        """The protection of a path from host to host, which visits no switch twice.

        From its end to its beginning, so that a detour may join those of the cables behind it: they
        lead still nearer to the destination.
        """
        steps, target = path[1:-1], path[-1].node
        far = self._distances(target)
        passed = [step.node for step in steps]
        backups: list[tuple[int, ...]] = []
        detours: Path = ()
        for i in reversed(range(len(steps))):
            near = min(far[switch] for switch in passed)
            passed.pop()
            ports = tuple(
                port for port, peer in self._alternates(steps[i], target, near) if peer not in passed
            )
            if not ports and self._has_detours:
                way = self._way_around(_Search(steps[i:], target, near, detours), passed)
                ports = tuple(step.port for step in way[:1])
                detours += way[1:]
            backups.append(ports)
        return Protection(tuple(reversed(backups)), detours)

    def _distances(self, target: str) -> dict[str, int]:
        if target not in self._far:
            self._far[target] = distances(self._fabric, target)
        return self._far[target]

    def _alternates(self, failed: Egress, target: str, near: int) -> list[tuple[int, str]]:
        """The ports, and switches behind them, from which shortest paths lead on; of the nearest such."""
        key = failed, target, near
        if key not in self._beside:
            far = self._far[target]
            safe = [(step.port, peer) for step, peer in self._cables(failed.node) if far[peer] <= near]
            others = [(port, peer) for port, peer in safe if port != failed.port]
            nearest = min((far[peer] for _, peer in others), default=0)
            chosen = [(port, peer) for port, peer in others if far[peer] == nearest]
            self._beside[key] = sorted(chosen, key=lambda end: (end[0] - failed.port) % _PORTS)
        return self._beside[key]

    def _way_around(self, search: "_Search", passed: Collection[str]) -> Path:
        """Where the packet has come from matters only if the way meets that, so it is left out at first."""
        if search not in self._around:
            self._around[search] = self._found(search)
        way = self._around[search]
        if not any(end.node in passed or self._fabric.peers[end].node in passed for end in way):
            return way
        again = replace(search, passed=tuple(passed))
        if again not in self._around:
            self._around[again] = self._found(again)
        return self._around[again]

    def _found(self, search: "_Search") -> Path:
        """The way that needs the fewest rules at switches without one; empty if there is none."""
        failed = search.steps[0]
        far = self._far[search.target]
        joins = {search.target, *(end.node for end in (*search.steps[1:], *search.detours))}
        seen = {failed.node, *search.passed}
        ring: dict[str, Path] = {failed.node: ()}
        while ring:
            further: dict[str, Path] = {}
            ends: list[tuple[int, list[int], Path]] = []
            for switch, way in ring.items():
                for step, peer in self._cables(switch):
                    if step == failed or peer in seen:
                        continue
                    onward = (*way, step)
                    if peer in joins or far[peer] <= search.near:
                        # From the failed port on, so that not every detour takes the lowest ports.
                        turned = [(taken.port - failed.port) % _PORTS for taken in onward]
                        ends.append((far[peer], turned, onward))
                    else:
                        further.setdefault(peer, onward)
            if ends:
                return min(ends)[2]
            ring = further
            seen |= further.keys()
        return ()

    def _cables(self, switch: str) -> list[tuple[Egress, str]]:
        if switch not in self._between:
            self._between[switch] = [
                (Egress(switch, port), peer)
                for port, peer in self._fabric.neighbours[switch].items()
                if peer in self._switches
            ]
        return self._between[switch]


@dataclass(frozen=True, slots=True)
class _Search:
    """For a way around the first cable of `steps`, to a switch that may be `near` cables from `target`.

    `detours` are rules that there are already, `passed` the switches that the packet must not meet again.
    """

    steps: Path
    target: str
    near: int
    detours: Path
    passed: tuple[str, ...] = ()
