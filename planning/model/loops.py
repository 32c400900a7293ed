"""The loops of the fluid model: shares of links, and what happens when.

Plain functions on lists or arrays, which `compile_loops` lets numba compile.  They are in one file since
numba keeps what it compiled by the file of the outermost function: it would not notice new loops in another.
"""

from heapq import heapify, heappop, heapreplace
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwire.planning.model.segments import SAME_TIME_S

Ints = NDArray[np.int64]
Numbers = NDArray[np.int32]
Floats = NDArray[np.float64]
NONE = -1
ROUNDING_NBYTES = 1e-3  # what rounding may leave of bytes that have left
LESS = 1 - 1e-9  # what is less than this of a rate is less, whatever rounding does
N_TOUCHED, N_SHARINGS, N_SHARED = range(3)  # places in `Connections.n`
LOOPS = (  # those that others call come first
    "start", "stop", "lower_bound", "reach", "everything", "settle", "fill", "no_timers",
    "_set_timer", "_take_timer", "_pass", "_touch", "_take", "_leave", "_end_part", "_open", "_release",
    "_begin", "_share", "run",
)  # fmt: skip


def compile_loops() -> None:
    """Put what numba makes of them in the place of all loops, once; numba takes a while to load."""
    from gradwire.traces.packets.jit import compiled

    for name in LOOPS:
        if not hasattr(globals()[name], "py_func"):
            globals()[name] = compiled(globals()[name])


def plain(loop: Any) -> Any:
    """The loop as it is written, for lists."""
    return getattr(loop, "py_func", loop)


class Cabling(NamedTuple):
    """Lists, or arrays of the same: flow i takes `path_links[path_at[i]:path_at[i + 1]]`, and the flows that
    send over link j are the first `n_users[j]` from `user_flows[user_at[j]]` on.  For each place in
    `path_links` `place` says where its flow is among these.
    """

    path_at: Any
    path_links: Any
    user_at: Any
    user_flows: Any
    n_users: Any
    place: Any
    capacity: Any


class State(NamedTuple):
    """Lists, or arrays of the same, one value for each flow or link; see `reach` and `fill`."""

    rates: Any
    fresh: Any
    flows: Any
    flow_mark: Any
    links: Any
    link_mark: Any
    left: Any
    waiting: Any


class Lists(NamedTuple):
    """Row i is `values[at[i]:at[i + 1]]`."""

    at: Ints
    values: Any


class Sending(NamedTuple):
    """Of each send: its flow, its bytes, for how much it waits, and which it releases when it has ended.

    `parts` are those (operations at a rank) that a gate waits for, of which each send is in up to two:
    `src_part` and `dst_part`.
    """

    flow: Numbers
    nbytes: Ints
    waits: Numbers
    releases: Lists
    src_part: Numbers
    dst_part: Numbers


class Gates(NamedTuple):
    """Of each gate: the part that it belongs to, its gap, for how many parts it waits, and the sends that
    wait for it.  `left` is what each part still waits for, `opens` the gates that wait for it.
    """

    part: Ints
    gap_s: Floats
    waits: Ints
    holds: Lists
    left: Ints
    opens: Lists


class Connections(NamedTuple):
    """What is under way of each flow: the first and the last of its sends (NONE: it is idle), all bytes since
    it was, those that had left at `since_s`, its rate, and when its first send will have left.

    Of each send `end` is how many bytes have left with it, `after` the next one of its flow.  `touched` has
    the flows whose next end or rate may have changed; `n` how many they are, how often rates changed, and of
    how many flows they were worked out last.
    """

    head: Ints
    tail: Ints
    queued: Floats
    passed: Floats
    since_s: Floats
    rate: Floats
    due_s: Floats
    is_touched: Ints
    touched: Ints
    end: Floats
    after: Ints
    n: Ints


class Times(NamedTuple):
    """In seconds from the start, NONE for what never happens."""

    ready_s: Floats
    ends_s: Floats
    opened_s: Floats


class Model(NamedTuple):
    """All that the loops read and write; `latency_s` lies between a send's getting ready and its leaving."""

    sending: Sending
    gates: Gates
    flows: Connections
    cabling: Cabling
    state: State
    times: Times
    latency_s: float


def start(flow: int, cabling: Cabling) -> None:
    """The flow is one of those that send over its links."""
    path_at, path_links, user_at, user_flows, n_users, place, _ = cabling
    for at in range(path_at[flow], path_at[flow + 1]):
        link = path_links[at]
        user_flows[user_at[link] + n_users[link]] = flow
        place[at] = n_users[link]
        n_users[link] += 1


def stop(flow: int, cabling: Cabling) -> None:
    """The flow is none of them any more; the last one takes its place."""
    path_at, path_links, user_at, user_flows, n_users, place, _ = cabling
    for at in range(path_at[flow], path_at[flow + 1]):
        link = path_links[at]
        n_users[link] -= 1
        last = user_flows[user_at[link] + n_users[link]]
        user_flows[user_at[link] + place[at]] = last
        for other in range(path_at[last], path_at[last + 1]):
            if path_links[other] == link:
                place[other] = place[at]


def lower_bound(flow: int, most: float, cabling: Cabling, state: State) -> float:
    """No more than the rate that a flow gets which has just started, or `most` if that is less.

    On a link by itself each flow has its share at most, and who had less still has that; the shares of the
    others grow with what these leave.
    """
    path_at, path_links, user_at, user_flows, n_users, _, capacity = cabling
    least = most
    for at in range(path_at[flow], path_at[flow + 1]):
        link = path_links[at]
        share, grown = 0.0, capacity[link] / n_users[link]
        while share < grown < least:
            share, grown, n_others = grown, capacity[link], 0
            for user in range(user_at[link], user_at[link] + n_users[link]):
                rate = state.rates[user_flows[user]]
                if 0 < rate < share:
                    grown -= rate
                else:
                    n_others += 1
            grown /= n_others
        least = min(least, grown)
    return least


def reach(touched: Any, stamp: int, cabling: Cabling, state: State) -> tuple[int, int]:
    """All links and active flows that hang together with the touched flows, into `links` and `flows`.

    Marks equal to `stamp` say what has been found.  Also fills `left` and `waiting`, what each of these
    links can carry and how many flows want it.
    """
    path_at, path_links, user_at, user_flows, n_users, _, capacity = cabling
    flows, flow_mark = state.flows, state.flow_mark
    links, link_mark, left, waiting = state.links, state.link_mark, state.left, state.waiting
    n_links = n_flows = done = 0
    for flow in touched:
        for at in range(path_at[flow], path_at[flow + 1]):
            link = path_links[at]
            if link_mark[link] != stamp:
                link_mark[link] = stamp
                links[n_links] = link
                n_links += 1
    while done < n_links:
        link = links[done]
        done += 1
        left[link] = capacity[link]
        waiting[link] = n_users[link]
        for user in range(user_at[link], user_at[link] + n_users[link]):
            flow = user_flows[user]
            if flow_mark[flow] != stamp:
                flow_mark[flow] = stamp
                flows[n_flows] = flow
                n_flows += 1
                for at in range(path_at[flow], path_at[flow + 1]):
                    other = path_links[at]
                    if link_mark[other] != stamp:
                        link_mark[other] = stamp
                        links[n_links] = other
                        n_links += 1
    return n_links, n_flows


def everything(cabling: Cabling, state: State, is_active: Any) -> tuple[int, int]:
    """As `reach` does, but all links and all flows that send: quicker if nearly all hang together."""
    n_links = n_flows = 0
    for link in range(len(cabling.n_users)):
        if cabling.n_users[link]:
            state.links[n_links] = link
            n_links += 1
            state.left[link] = cabling.capacity[link]
            state.waiting[link] = cabling.n_users[link]
    for flow in range(len(is_active)):
        if is_active[flow]:
            state.flows[n_flows] = flow
            n_flows += 1
    return n_links, n_flows


def settle(n_flows: int, least: float, cabling: Cabling, state: State) -> None:
    """Begin to share links among the first `n_flows` of `flows`: who has less than `least` keeps it.

    `least` is no more than the rate that any flow had which has stopped, or will have which has started: up
    to there links fill as before.
    """
    rates, fresh, left, waiting = state.rates, state.fresh, state.left, state.waiting
    for i in range(n_flows):
        flow = state.flows[i]
        rate = rates[flow]
        fresh[flow] = -1.0
        if 0 < rate < LESS * least:
            fresh[flow] = rate
            for at in range(cabling.path_at[flow], cabling.path_at[flow + 1]):
                left[cabling.path_links[at]] -= rate
                waiting[cabling.path_links[at]] -= 1


def fill(n_links: int, n_flows: int, cabling: Cabling, state: State) -> int:
    """New rates for the first `n_flows` of `flows`; those whose rate changes come first afterwards: how many.

    Of these `fresh` is -1 for those that wait for a rate (`settle`).

    Progressive filling (Bertsekas, Gallager, Data Networks, 6.5.2): the link that has the least for each
    flow that waits for it fixes their rates.  No link has less for each of the others afterwards, so a heap
    of what was last known of each link finds the next.
    """
    path_at, path_links, user_at, user_flows, n_users, _, _ = cabling
    rates, fresh, flows = state.rates, state.fresh, state.flows
    links, left, waiting = state.links, state.left, state.waiting
    shares = [(inf, -1)]
    for i in range(n_links):
        link = links[i]
        if waiting[link]:
            shares.append((left[link] / waiting[link], link))
    heapify(shares)
    while len(shares) > 1:
        known, link = shares[0]
        if not waiting[link]:  # all its flows have their rate
            heappop(shares)
            continue
        least = left[link] / waiting[link]
        if least > known:  # shares only grow: what was known of this link is old
            heapreplace(shares, (least, link))
            continue
        heappop(shares)
        for user in range(user_at[link], user_at[link] + n_users[link]):
            flow = user_flows[user]
            if fresh[flow] < 0:
                fresh[flow] = least
                for at in range(path_at[flow], path_at[flow + 1]):
                    left[path_links[at]] -= least
                    waiting[path_links[at]] -= 1
    n_changed = 0
    for i in range(n_flows):
        flow = flows[i]
        if fresh[flow] != rates[flow]:
            rates[flow] = fresh[flow]
            flows[n_changed] = flow
            n_changed += 1
    return n_changed


class Timers(NamedTuple):
    """A heap of (when, what), as heapq keeps one: first the numbers of gates that open, then those of sends
    that leave.  `n` says how many there are; with none, the first is never due.

    Arrays, since numba counts who holds a list each time that it takes one of its elements.
    """

    due_s: Floats
    what: Ints
    n: Ints


def no_timers(n_room: int) -> Timers:
    """None yet, with room for so many."""
    due_s = np.empty(n_room + 1)
    due_s[0] = inf
    return Timers(due_s, np.empty(n_room + 1, np.int64), np.zeros(1, np.int64))


def _set_timer(timers: Timers, due_s: float, what: int) -> None:
    heap_s, heap_what, n = timers.due_s, timers.what, timers.n
    at = n[0]
    n[0] += 1
    while at:
        above = (at - 1) >> 1
        if heap_s[above] < due_s or (heap_s[above] == due_s and heap_what[above] < what):
            break
        heap_s[at], heap_what[at] = heap_s[above], heap_what[above]
        at = above
    heap_s[at], heap_what[at] = due_s, what


def _take_timer(timers: Timers) -> int:
    """What is due first."""
    heap_s, heap_what, n = timers.due_s, timers.what, timers.n
    n[0] -= 1
    found, due_s, what = heap_what[0], heap_s[n[0]], heap_what[n[0]]
    heap_s[n[0]] = inf
    at, below = 0, 1
    while below < n[0]:
        other = below + 1
        if other < n[0] and (
            heap_s[other] < heap_s[below]
            or (heap_s[other] == heap_s[below] and heap_what[other] < heap_what[below])
        ):
            below = other
        if due_s < heap_s[below] or (due_s == heap_s[below] and what < heap_what[below]):
            break
        heap_s[at], heap_what[at] = heap_s[below], heap_what[below]
        at, below = below, 2 * below + 1
    if n[0]:
        heap_s[at], heap_what[at] = due_s, what
    return int(found)


def run(model: Model) -> None:
    """Go from one thing that happens to the next until nothing will."""
    gates, sending = model.gates, model.sending
    n_gates = len(gates.part)
    timers = no_timers(n_gates + len(sending.waits))
    for gate in range(n_gates):
        if not gates.waits[gate]:
            _set_timer(timers, gates.gap_s[gate], gate)
    for send in range(len(sending.waits)):
        if not sending.waits[send]:
            model.times.ready_s[send] = 0.0
            _set_timer(timers, model.latency_s, n_gates + send)
    ended = np.empty(len(sending.waits), np.int64)
    now_s = 0.0
    while True:
        _begin(model, timers, ended, now_s)
        _share(model, now_s)
        next_s = min(timers.due_s[0], model.flows.due_s.min())
        if next_s == inf:
            return
        now_s = max(now_s, next_s)
        _release(model, timers, ended[: _leave(model.flows, ended, now_s)], now_s)


def _begin(model: Model, timers: Timers, ended: Ints, now_s: float) -> None:
    """Open the gates and let the sends leave whose time has come; sends queue behind those of their flow."""
    flow_of, nbytes, n_gates = model.sending.flow, model.sending.nbytes, len(model.gates.part)
    flows = model.flows
    head, tail, end, after, queued = flows.head, flows.tail, flows.end, flows.after, flows.queued
    passed, since_s, rate = flows.passed, flows.since_s, flows.rate
    while timers.due_s[0] <= now_s + SAME_TIME_S:
        number = _take_timer(timers)
        if number < n_gates:
            _open(model, timers, number, now_s)
            continue
        send = number - n_gates
        flow = flow_of[send]
        if head[flow] == NONE:
            since_s[flow] = now_s
            passed[flow] = queued[flow] = 0.0
            head[flow] = send
        else:
            _pass(flow, passed, queued, since_s, rate, now_s)
            after[tail[flow]] = send
        tail[flow] = send
        queued[flow] += nbytes[send]
        end[send] = queued[flow]
        _touch(flow, flows.is_touched, flows.touched, flows.n)
        if end[head[flow]] <= passed[flow] + ROUNDING_NBYTES:
            _release(model, timers, ended[: _take(flow, head, after, end, passed, ended, 0)], now_s)


def _open(model: Model, timers: Timers, gate: int, now_s: float) -> None:
    gates, waits = model.gates, model.sending.waits
    model.times.opened_s[gate] = now_s
    for at in range(gates.holds.at[gate], gates.holds.at[gate + 1]):
        send = gates.holds.values[at]
        waits[send] -= 1
        if not waits[send]:
            model.times.ready_s[send] = now_s
            _set_timer(timers, now_s + model.latency_s, len(gates.part) + send)
    part = gates.part[gate]
    if part != NONE:
        gates.left[part] -= 1
        if not gates.left[part]:
            _end_part(part, timers, gates, now_s)


def _release(model: Model, timers: Timers, ended: Ints, now_s: float) -> None:
    """Let go on what waits for sends that have ended."""
    ends_s, ready_s, latency_s = model.times.ends_s, model.times.ready_s, model.latency_s
    sending, gates = model.sending, model.gates
    waits, src_part, dst_part, left = sending.waits, sending.src_part, sending.dst_part, gates.left
    first, released, n_gates = sending.releases.at, sending.releases.values, len(gates.part)
    for send in ended:
        ends_s[send] = now_s
        for at in range(first[send], first[send + 1]):
            other = released[at]
            waits[other] -= 1
            if not waits[other]:
                ready_s[other] = now_s
                _set_timer(timers, now_s + latency_s, n_gates + other)
        for part in (src_part[send], dst_part[send]):
            if part != NONE:
                left[part] -= 1
                if not left[part]:
                    _end_part(part, timers, gates, now_s)


def _end_part(part: int, timers: Timers, gates: Gates, now_s: float) -> None:
    """Let go on what waits for a part that is over.  Who calls this counts what it waits for: numba counts
    who holds each array of what a function is given, which takes longer than all else at the end of a send.
    """
    for at in range(gates.opens.at[part], gates.opens.at[part + 1]):
        gate = gates.opens.values[at]
        gates.waits[gate] -= 1
        if not gates.waits[gate]:
            _set_timer(timers, now_s + gates.gap_s[gate], gate)


def _leave(flows: Connections, ended: Ints, now_s: float) -> int:
    """How many sends have left by now, or will have by no more than rounding; these come first in `ended`."""
    head, after, end, queued = flows.head, flows.after, flows.end, flows.queued
    passed, since_s, rate, due_s = flows.passed, flows.since_s, flows.rate, flows.due_s
    n_ended = 0
    for flow in range(len(head)):
        if due_s[flow] < inf and (due_s[flow] - now_s) * rate[flow] <= ROUNDING_NBYTES:
            _pass(flow, passed, queued, since_s, rate, now_s)
            passed[flow] = max(passed[flow], end[head[flow]])
            _touch(flow, flows.is_touched, flows.touched, flows.n)
            n_ended = _take(flow, head, after, end, passed, ended, n_ended)
    return n_ended


def _take(flow: int, head: Ints, after: Ints, end: Floats, passed: Floats, ended: Ints, n_ended: int) -> int:
    """Move a flow's sends that have left to the end of the first `n_ended` of `ended`; how many are there."""
    send = head[flow]
    while send != NONE and end[send] <= passed[flow] + ROUNDING_NBYTES:
        ended[n_ended] = send
        n_ended += 1
        send = after[send]
    head[flow] = send
    return n_ended


def _touch(flow: int, is_touched: Ints, touched: Ints, n: Ints) -> None:
    if not is_touched[flow]:
        is_touched[flow] = 1
        touched[n[N_TOUCHED]] = flow
        n[N_TOUCHED] += 1


def _pass(flow: int, passed: Floats, queued: Floats, since_s: Floats, rate: Floats, now_s: float) -> None:
    passed[flow] = min(queued[flow], passed[flow] + (now_s - since_s[flow]) * rate[flow])
    since_s[flow] = now_s


def _share(model: Model, now_s: float) -> None:
    """Work out the rates again of all whom those concern that began to send or have sent all."""
    flows, state = model.flows, model.state
    head, rate, touched, is_touched, n = flows.head, flows.rate, flows.touched, flows.is_touched, flows.n
    passed, queued, since_s = flows.passed, flows.queued, flows.since_s
    changing = np.empty(n[N_TOUCHED], np.int64)
    n_changing = 0
    least = inf
    for flow in touched[: n[N_TOUCHED]]:
        is_sending = head[flow] != NONE
        if is_sending != (rate[flow] > 0):
            changing[n_changing] = flow
            n_changing += 1
            if is_sending:
                start(flow, model.cabling)
            else:
                stop(flow, model.cabling)
                least = min(least, rate[flow])
                rate[flow] = state.rates[flow] = 0.0
    if n_changing:
        for flow in changing[:n_changing]:
            if head[flow] != NONE:
                least = lower_bound(flow, least, model.cabling, state)
        n[N_SHARINGS] += 1
        if n[N_SHARED] > len(head) // 2:
            n_links, n_flows = everything(model.cabling, state, head != NONE)
        else:
            n_links, n_flows = reach(changing[:n_changing], n[N_SHARINGS], model.cabling, state)
        n[N_SHARED] = n_flows
        settle(n_flows, least, model.cabling, state)
        for flow in state.flows[: fill(n_links, n_flows, model.cabling, state)]:
            _pass(flow, passed, queued, since_s, rate, now_s)
            rate[flow] = state.rates[flow]
            _touch(flow, is_touched, touched, n)
    for flow in touched[: n[N_TOUCHED]]:
        is_touched[flow] = 0
        flows.due_s[flow] = inf
        if head[flow] != NONE:
            flows.due_s[flow] = since_s[flow] + (flows.end[head[flow]] - passed[flow]) / rate[flow]
    n[N_TOUCHED] = 0
