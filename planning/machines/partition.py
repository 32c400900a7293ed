"""Splits a fabric over machines: which node lives where, so that few cables cross from one to another.

Hosts live with their switch.  Each machine gets hosts in proportion to its cores, as nearly as whole switches
allow; switches without hosts go where most of their cables lead.  From two orders of the switches with hosts
(the fabric's own, and nearest first), exchanges and moves improve the cut as long as one of them does
(Kernighan and Lin, Bell System Technical Journal 49, 1970, with the best exchange at each step).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradwire.planning.fabrics.fabric import Fabric, Link
from gradwire.planning.fabrics.paths import access_switch, distances
from gradwire.planning.machines.machinesfile import Machine
from gradwire.traces.units import show_count

MAX_STEPS = 500

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Partition:
    """The machine of each node, by name, and the cables that join nodes of different machines."""

    machine_of: Mapping[str, str]
    crossing: tuple[Link, ...]


def partition(fabric: Fabric, machines: Sequence[Machine]) -> Partition:
    """Always the same for the same arguments.  Raise ValueError if a machine would have no host."""
    n_at = Counter(access_switch(fabric, host) for host in fabric.hosts)
    if len(n_at) < len(machines):
        instead = f"name at most {len(n_at)}" if len(n_at) > 1 else "leave out --machines"
        raise ValueError(
            f"{fabric.spec} has {show_count(len(n_at), 'switch', 'switches')} with hosts, "
            f"too few for {len(machines)} machines: {instead}, or take a fabric with more"
        )
    n_hosts = np.array([n_at[switch] for switch in fabric.switches], dtype=np.int64)
    cables = _cables(fabric)
    sides = [
        _improved(cables, n_hosts, _begun(cables, n_hosts, order, machines))
        for order in _orders(fabric, list(n_at))
    ]
    side = min(sides, key=lambda each: _n_crossing(cables, each))
    machine_of = {switch: machines[number].name for switch, number in zip(fabric.switches, side, strict=True)}
    machine_of |= {host: machine_of[access_switch(fabric, host)] for host in fabric.hosts}
    for machine in machines:
        if machine.name not in {machine_of[host] for host in fabric.hosts}:
            raise ValueError(
                f"{fabric.spec}: machine {machine.name} would have no host: "
                f"{show_count(machine.cores, 'core')} is too small a share: leave it out, or raise its cores"
            )
    crossing = tuple(link for link in fabric.links if machine_of[link.a] != machine_of[link.b])
    return Partition(machine_of, crossing)


def _cables(fabric: Fabric) -> Numbers:
    """How many join each two switches."""
    number = {switch: i for i, switch in enumerate(fabric.switches)}
    cables = np.zeros((len(number), len(number)), dtype=np.int64)
    for link in fabric.inner_links:
        a, b = number[link.a], number[link.b]
        cables[a, b] += 1
        cables[b, a] += 1
    return cables


def _orders(fabric: Fabric, with_hosts: Sequence[str]) -> tuple[list[int], list[int]]:
    """Two orders of the switches that have hosts, as numbers."""
    number = {switch: i for i, switch in enumerate(fabric.switches)}
    far = distances(fabric, with_hosts[0])
    own = sorted(number[switch] for switch in with_hosts)
    nearest = [number[switch] for switch in far if switch in set(with_hosts)]
    return own, nearest + [i for i in own if i not in set(nearest)]


def _begun(cables: Numbers, n_hosts: Numbers, order: Sequence[int], machines: Sequence[Machine]) -> Numbers:
    """The machine of each switch: by `order` as the cores' shares say, then those without hosts."""
    cores = np.cumsum([machine.cores for machine in machines])
    side = np.full(len(n_hosts), -1, dtype=np.int64)
    total, before = int(n_hosts.sum()), 0
    for i in order:
        middle = 2 * before + int(n_hosts[i])  # twice the place of its middle host
        side[i] = int(np.searchsorted(cores * 2 * total, middle * cores[-1], side="right"))
        before += int(n_hosts[i])
    n_inner = np.zeros(len(machines), dtype=np.int64)
    weights = np.array([machine.cores for machine in machines])
    while (side < 0).any():
        leads = np.stack([cables[:, side == m].sum(axis=1) for m in range(len(machines))], axis=1)
        i = int(np.where(side < 0, leads.sum(axis=1), -1).argmax())
        most = leads[i] == leads[i].max()
        side[i] = int(np.where(most, n_inner / weights, np.inf).argmin())
        n_inner[side[i]] += 1
    return side


def _improved(cables: Numbers, n_hosts: Numbers, side: Numbers) -> Numbers:
    """The best move of a switch without hosts, or exchange of two with as many hosts, until none helps."""
    side, every = side.copy(), np.arange(len(side))
    n_machines = int(side.max()) + 1
    alike = n_hosts[:, None] == n_hosts
    for _ in range(MAX_STEPS):
        leads = np.stack([cables[:, side == m].sum(axis=1) for m in range(n_machines)], axis=1)
        gain = leads - leads[every, side][:, None]  # of a move, by switch and machine
        moves = np.where((n_hosts == 0)[:, None], gain, 0)
        there = gain[:, side]  # of a move to where another one is
        swaps = np.where(alike & (side[:, None] != side), there + there.T - 2 * cables, 0)
        if max(moves.max(), swaps.max()) <= 0:
            break
        if moves.max() >= swaps.max():
            i, machine = divmod(int(moves.argmax()), n_machines)
            side[i] = machine
        else:
            i, j = divmod(int(swaps.argmax()), len(side))
            side[i], side[j] = side[j], side[i]
    return side


def _n_crossing(cables: Numbers, side: Numbers) -> int:
    return int(cables[side[:, None] != side].sum()) // 2
