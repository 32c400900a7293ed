"""Searches for paths on which the busiest link of each phase is less busy.

A flow of the busiest link is moved elsewhere; where it does not fit, it may push another aside, and that
one a third.  What does not help is taken back, so no step ever makes a phase worse.
"""

from collections.abc import Collection, Mapping
from random import Random

from gradwire.planning.routing.balance import Balance
from gradwire.planning.routing.links import Way

MOST_MOVES = 30_000  # of one search, tried or taken: about a second
MOST_SHAKES = 30  # of one phase
MOST_MOVES_AT_ONCE = 3_000  # to relieve one link
DEEPEST = 2  # how many flows may be pushed aside, one by the other
SLACK = 1e-9  # times that differ by a smaller share than this count as equal


def improve(balance: Balance, movable: Collection[int] | None = None) -> None:
    """Relieve the busiest link of each phase until it cannot be or enough was tried.

    `movable` are the flows that may be moved, None: all.
    """
    left = MOST_MOVES
    for job in balance.jobs:
        balance.look_at(job)
        limits_s = {phase: balance.least_s(phase) for phase in balance.phases(job)}
        for phase in sorted(limits_s, key=lambda phase: balance.demands[phase].bound_s - limits_s[phase]):
            left -= _relieve_phase(balance, phase, limits_s, movable, left)


def shake(balance: Balance, random: Random) -> None:
    """Where a phase is still above its bound, begin again with its flows on ways drawn at random.

    The best that was found stays.
    """
    left = MOST_MOVES
    for job in balance.jobs:
        balance.look_at(job)
        phases = balance.phases(job)
        for phase in phases:
            choosing = [flow for flow in balance.demands[phase].nbytes if len(balance.links.ways(flow)) > 1]
            for _ in range(MOST_SHAKES):
                if left < len(choosing) or balance.worst(phase)[0] <= _goal_s(balance, phase):
                    break
                before, before_s = dict(balance.ways), sum(map(balance.least_s, phases))
                for flow in choosing:
                    balance.put(flow, random.choice(balance.links.ways(flow)))
                limits_s = {number: balance.least_s(number) for number in phases}
                left -= len(choosing) + _relieve_phase(balance, phase, limits_s, None, left)
                if sum(map(balance.least_s, phases)) >= before_s:
                    for flow, way in before.items():
                        if balance.ways[flow] != way:
                            balance.put(flow, way)


def _relieve_phase(
    balance: Balance,
    phase: int,
    limits_s: dict[int, float],
    movable: Collection[int] | None,
    most_moves: int,
) -> int:
    """Bring a phase as near to its bound as it goes; the number of moves that were tried.

    `limits_s` are the times of all phases of the job, before and after.
    """
    tried = 0
    while limits_s[phase] > _goal_s(balance, phase) and tried < most_moves:
        step = _step(balance, phase, limits_s, movable, most_moves - tried)
        tried += step.tried
        if not step.moved:
            break
        for touched in {number for flow in step.moved for number, _ in balance.sends[flow]}:
            limits_s[touched] = balance.least_s(touched)
    return tried


def _goal_s(balance: Balance, phase: int) -> float:
    return balance.demands[phase].bound_s * (1 + SLACK)


def _step(
    balance: Balance,
    phase: int,
    limits_s: Mapping[int, float],
    movable: Collection[int] | None,
    most_moves: int,
) -> "Relief":
    """Relieve the busiest link of a phase by as few moves as it takes; nothing has moved if that fails."""
    worst_s, link = balance.worst(phase)
    lower = {**limits_s, phase: worst_s * (1 - SLACK)}
    relief = Relief(balance, lower, movable, min(most_moves, MOST_MOVES_AT_ONCE))
    for depth in range(DEEPEST + 1):
        if relief.relieve(phase, link, depth):
            break
    return relief


class Relief:
    """One attempt: the flows moved so far, with the ways that they had, and how many moves were tried."""

    def __init__(
        self,
        balance: Balance,
        limits_s: Mapping[int, float],
        movable: Collection[int] | None,
        most_moves: int,
    ) -> None:
        self._balance = balance
        self._limits_s = limits_s
        self._movable = movable
        self._most_moves = most_moves
        self._before: list[tuple[int, Way]] = []
        self.tried = 0

    @property
    def moved(self) -> set[int]:
        return {flow for flow, _ in self._before}

    def relieve(self, phase: int, link: int, depth: int) -> bool:
        """Bring a link within its limit by moving one flow off it; all else stays within theirs."""
        mark = len(self._before)
        moved = self.moved
        for flow in self._balance.users(phase, link):
            if flow in moved or (self._movable is not None and flow not in self._movable):
                continue
            for way in self._balance.links.ways(flow):
                if link in way:
                    continue
                if self.tried >= self._most_moves:
                    return False
                self._move(flow, way)
                if self._fits(phase, link) and self._settle(flow, way, depth):
                    return True
                self._take_back(mark)
        return False

    def _settle(self, flow: int, way: Way, depth: int) -> bool:
        """Bring the links within their limits that have just got this flow."""
        over = [
            (phase, link)
            for phase, _ in self._balance.sends[flow]
            for link in way
            if not self._fits(phase, link)
        ]
        if len(over) > depth:
            return False
        return all(self._fits(*use) or self.relieve(*use, depth - 1) for use in over)

    def _fits(self, phase: int, link: int) -> bool:
        return self._balance.busy_s(phase, link) <= self._limits_s[phase] * (1 + SLACK / 2)

    def _move(self, flow: int, way: Way) -> None:
        self.tried += 1
        self._before.append((flow, self._balance.ways[flow]))
        self._balance.put(flow, way)

    def _take_back(self, mark: int) -> None:
        while len(self._before) > mark:
            self._balance.put(*self._before.pop())
