"""Hosts that lie, in the job and outside it, and packets that come again, late or never: no sum is wrong."""

from contextlib import ExitStack
from random import Random
from typing import Any

import pytest

from gradwire.traces.framing.aggregation import FIRST_PORT, PacketKind
from tests.real.forged import (
    ELEMENTS,
    HOSTS,
    OUTSIDE,
    N,
    Replayed,
    data,
    forgeries,
    frame,
    header,
    lies,
    two_level_plan,
)
from tests.real.inside import inside
from tests.real.members import raw, summing

pytestmark = [pytest.mark.real, pytest.mark.untimed]


def from_outside() -> dict[str, Any]:
    """Hosts that are not members send into the job, from their own ports, while it adds up."""
    random = Random(1)
    with summing(two_level_plan()) as members:
        links = [raw(host) for host in OUTSIDE]
        n_sent = 0

        def disturb(turn: int) -> None:
            nonlocal n_sent
            for link in links:
                for each in forgeries(members, random):
                    link.send(each)
                    n_sent += 1

        complaints = [members.add_up(data(seed), disturb) for seed in range(3)]
        counted = members.counted()
        n_chunks = 1 + 3 * (1 + N // ELEMENTS)
        return {
            "complaints": complaints,
            "moves": sum(worker.counts().moves for worker in members.workers.values()),
            "beyond what is due": {name: pool["added"] - 2 * n_chunks for name, pool in counted.items()},
            "tried": n_sent > 2000 and counted["spine0"]["malformed"] > 100,
        }


def test_nothing_that_a_host_outside_the_job_sends_gets_into_a_sum() -> None:
    assert inside(from_outside) == {
        "complaints": [{}] * 3,
        "moves": 0,
        "beyond what is due": {"spine0": 0, "leaf0": 0, "leaf1": 0},
        "tried": True,
    }


def by_a_member() -> dict[str, Any]:
    """A member's port sends all that a member must not."""
    random = Random(2)
    with summing(two_level_plan()) as members:
        link = raw("h0")

        def disturb(turn: int) -> None:
            for each in lies(members, random):
                link.send(each)

        complaints = [members.add_up(data(seed), disturb) for seed in range(3)]
        counts = members.counted()
        n_chunks = 1 + 3 * (1 + N // ELEMENTS)
        moves = sum(worker.counts().moves for worker in members.workers.values())
        return {
            "complaints": complaints,
            "moves": moves,
            "added": [counts[name]["added"] - 2 * n_chunks for name in sorted(counts)],
            "refused": [counts["leaf0"][event] > 100 for event in ("malformed", "other_epoch", "early")],
            "elsewhere": counts["leaf1"]["malformed"] + counts["spine0"]["malformed"],
        }


def test_a_member_that_breaks_the_rules_changes_no_sum() -> None:
    assert inside(by_a_member) == {
        "complaints": [{}] * 3,
        "moves": 0,
        "added": [0, 0, 0],
        "refused": [True] * 3,
        "elsewhere": 0,
    }


def in_anothers_name() -> dict[str, Any]:
    """One member is silent; another one sends what is the silent one's, with its addresses."""
    with summing(two_level_plan()) as members:
        link, fabric = raw("h0"), members.plan.fabric
        members.stopped = {1}
        genuine = frame(header(PacketKind.CONTRIBUTION, 0), udp_port=FIRST_PORT, source=fabric.ip("h1"))
        as_h1 = bytes.fromhex(fabric.mac("h1").replace(":", ""))
        forged = genuine[:6] + as_h1 + genuine[12:]
        n_sent = 0

        def disturb(turn: int) -> None:
            nonlocal n_sent
            link.send(forged)
            n_sent += 1
            if n_sent == 300:
                members.stopped |= {0, 2, 3}

        members.add_up(data(1), disturb)
        counts = members.counted()["leaf0"]
        received = [members.workers[rank].counts().received for rank in range(4)]
        return {
            "sums": received,
            "added": counts["added"],
            "duplicates": counts["duplicates"] >= n_sent - 1,
        }


def test_a_member_cannot_contribute_in_the_name_of_another() -> None:
    assert inside(in_anothers_name) == {"sums": [0] * 4, "added": 1, "duplicates": True}


def repeated() -> list[Any]:
    """5 % are lost each way, and what hosts sent and got comes again, late, in another order."""
    random = Random(3)
    with summing(two_level_plan("5%")) as members, ExitStack() as stack:
        taps = [stack.enter_context(Replayed(members.plan, host, random)) for host in HOSTS]

        def disturb(turn: int) -> None:
            for tap in taps:
                tap.again(20)

        complaints = [members.add_up(data(seed, N + 5), disturb) for seed in range(3)]
        counts = members.counted()
        events = ("duplicates", "stale")
        return [complaints, [counts["leaf0"][event] > 100 for event in events]]


def test_with_losses_repetitions_and_another_order_every_sum_is_right() -> None:
    assert inside(repeated) == [[{}] * 3, [True, True]]
