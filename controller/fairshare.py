"""Max-min fair rates: what ideal TCP flows get of the links that they share."""

from collections.abc import Mapping, Sequence
from heapq import heapify, heapreplace
from math import inf


def max_min_rates(paths: Mapping[int, Sequence[int]], capacity: Sequence[float]) -> dict[int, float]:
    """The rate of each flow, by progressive filling (Bertsekas, Gallager, Data Networks, 6.5.2).

    `paths` names the links of each flow, at least one, and `capacity` what each link carries, in any unit
    of rate.  No rate can be raised without lowering one that is not larger.
    """
    users: dict[int, list[int]] = {}
    for flow, path in paths.items():
        for link in path:
            users.setdefault(link, []).append(flow)
    left = {link: capacity[link] for link in users}
    waiting = {link: len(flows) for link, flows in users.items()}
    shares = [(capacity[link] / len(flows), link) for link, flows in users.items()]
    heapify(shares)
    rates: dict[int, float] = {}
    while len(rates) < len(paths) and shares[0][0] < inf:
        share, link = shares[0]
        now = left[link] / waiting[link] if waiting[link] else inf
        if now > share:  # flows that are held up elsewhere left more to the others; it never gets less
            heapreplace(shares, (now, link))
            continue
        for flow in users[link]:
            if flow not in rates:
                rates[flow] = share
                for other in paths[flow]:
                    left[other] -= share
                    waiting[other] -= 1
    return rates
