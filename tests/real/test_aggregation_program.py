"""The switch's aggregation in the kernel, packet by packet, against the model (planning/openflow/pool.py)."""

import os
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from gradwire.emu.project import SWITCH_OBJECT
from gradwire.emu.switch.plane.bpf import BpfObject
from gradwire.emu.switch.table.planeoperations import SetRule
from gradwire.planning.openflow.entries import FROM_PARENT, Aggregate
from gradwire.planning.openflow.match import Match
from gradwire.planning.openflow.pool import EVENTS, LEAST, MOST, Event, Pool
from gradwire.traces.framing.aggregation import FIRST_PORT, Header, PacketKind, encode
from tests.real.aggregation_bench import SHOT, STOLEN, Bench, contribution, frame_of, host_frame
from tests.real.drawn_contributions import EPOCH, JOB, PARENT_PORT, RULES, STEPS, Step, packet
from tests.real.inside import inside

pytestmark = [pytest.mark.real, pytest.mark.untimed]

N_PORTS = 5
DROPPED: tuple[Event, ...] = ("malformed", "stale", "early", "other_epoch")


def differences(bench: Bench, pool: Pool, number: int, steps: list[Step]) -> list[str]:
    """The first step after which the program has not done what the model does, in words."""
    bench.grant(number, pool.rule)
    for at, step in enumerate(steps):
        child, header, elements, frame = packet(pool, step)
        port = PARENT_PORT if child == FROM_PARENT else pool.rule.ports[child]
        before = pool.counted.copy()
        expected = [frame_of(sent) for sent in pool.receive(child, header, elements)]
        returned = bench.receive(port, frame)
        found = bench.sent(len(expected))
        where = f"step {at}: child {child}, {header}, {pool.rule}"
        if found != expected:
            return [f"{where}: sent {found}, not {expected}"]
        counts = bench.maps.pool_counts(number)
        if counts != {event: pool.counted[event] for event in EVENTS}:
            return [f"{where}: counted {counts}, not {pool.counted}"]
        is_dropped = any(pool.counted[event] != before[event] for event in DROPPED)
        if returned != (SHOT if is_dropped else STOLEN):
            return [f"{where}: returned {returned}"]
    return []


def model_and_program(n_examples: int) -> list[Any]:
    """The first difference, if any, and what has been counted in all."""
    total: Counter[str] = Counter()
    with BpfObject(SWITCH_OBJECT) as loaded:
        bench = Bench(loaded, N_PORTS)

        @settings(
            max_examples=n_examples,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],  # a packet that does not come is waited for each time
            suppress_health_check=list(HealthCheck),
        )
        @given(RULES, STEPS)
        def agree(rule: Aggregate, steps: list[Step]) -> None:
            pool, number = Pool(rule), 4000
            try:
                assert differences(bench, pool, number, steps) == []
            finally:
                bench.revoke(number, rule)
                bench.sent(0)
            total.update(pool.counted)

        agree()
    return sorted(event for event in EVENTS if total[event] < n_examples // 20)


def test_the_program_sends_and_counts_what_the_model_does_whatever_comes() -> None:
    """The result names events that the drawn packets have hardly brought about: there must be none."""
    assert inside(model_and_program, 300) == []


RULE = Aggregate(JOB, EPOCH, 0, 4, 256, None, (1, 2, 3), 0b111, 0b111)


def header_of(rule: Aggregate, chunk: int, count: int, peak: int = 0) -> Header:
    return Header(PacketKind.CONTRIBUTION, rule.job, rule.epoch, count, chunk, peak)


def wrong_headers() -> list[str]:
    """Frames that are not contributions for reasons below the model's level, and were not refused."""
    whole = contribution(header_of(RULE, 0, 2), (1, 2))
    payload = encode(header_of(RULE, 0, 2)) + bytes(8)
    bad = {
        "IP options": whole[:14] + b"\x46" + whole[15:34] + bytes([1] * 4) + whole[34:],
        "IP length": whole[:16] + b"\x00\x3d" + whole[18:],
        "UDP length": whole[:38] + b"\x00\x27" + whole[40:],
        "UDP length beyond the frame": whole[:-1],
        "three octets too many": host_frame(payload + bytes(3)),
        "no header": host_frame(b""),
        "a header cut short": host_frame(payload[:23]),
        "to a host": host_frame(payload, to="10.0.0.2"),
        "to all hosts, as if from above": host_frame(payload, to="10.0.255.255"),
        "65,535 elements": whole[:48] + b"\xff\xff" + whole[50:],
    }
    with BpfObject(SWITCH_OBJECT) as loaded:
        bench = Bench(loaded, N_PORTS)
        bench.grant(1, RULE)
        taken = [name for name, frame in bad.items() if bench.receive(1, frame) != SHOT]
        counts = bench.maps.pool_counts(1)
        if counts["malformed"] != len(bad) or counts["contributions"] != len(bad):
            taken.append(f"counted {counts}")
        if bench.maps.received(1).dropped_packets != len(bad):
            taken.append("not counted as dropped")
        if bench.receive(1, whole) != STOLEN:
            taken.append(f"the good one: {bench.maps.pool_counts(1)}")
    return taken


def test_frames_whose_lengths_or_headers_lie_are_refused() -> None:
    assert inside(wrong_headers) == []


def sums(elements: int, n_children: int, most: int) -> list[str]:
    """Two jobs by turns through the same ports: results that are not int64's sum, held within an int32."""
    random = np.random.default_rng(1)
    ports = tuple(range(1, n_children + 1))
    rule = RULE._replace(elements=elements, ports=ports, gives=2**n_children - 1, takes=2**n_children - 1)
    jobs = [rule._replace(job=job) for job in (1, 2)]
    wrong = []
    with BpfObject(SWITCH_OBJECT) as loaded:
        bench = Bench(loaded, N_PORTS)
        bench.attach()
        for job, rule in enumerate(jobs):
            bench.grant(job, rule, FIRST_PORT + job)
        for chunk in range(12):
            numbers = random.integers(-most, most, (n_children, 2, elements), endpoint=True)
            for child in random.permutation(n_children):
                for job, rule in enumerate(jobs):
                    own = (int(number) for number in numbers[child][job])
                    frame = contribution(header_of(rule, chunk, elements), own, FIRST_PORT + job)
                    bench.carry(rule.ports[child], frame)
            expected = np.clip(numbers.sum(axis=0), LEAST, MOST)
            found = bench.sent(2 * n_children)
            for job in range(2):
                results = [seen.frame[66:] for seen in found if seen.frame[45] == jobs[job].job]
                if results != [expected[job].astype(">i4").tobytes()] * n_children:
                    wrong.append(f"chunk {chunk} of job {job}")
        saturated = [bench.maps.pool_counts(job)["saturated"] for job in range(2)]
    return [*wrong, f"saturated: {all(saturated)}"]


@pytest.mark.parametrize("elements", [64, 256, 2048])
def test_two_jobs_at_once_have_sums_of_their_own_at_all_sizes(elements: int) -> None:
    assert inside(sums, elements, 4, MOST // 4) == ["saturated: False"]


@pytest.mark.parametrize("elements", [256, 2048])
def test_sums_that_an_int32_cannot_hold_end_at_its_limits(elements: int) -> None:
    """Of two random numbers of 32 bits each fourth sum is beyond."""
    assert inside(sums, elements, 2, MOST) == ["saturated: True"]


def long_then_short() -> int:
    """Saturated sums of packets with 7 elements, where one with 8 of the largest has been before."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # each processor has a buffer of its own
    with BpfObject(SWITCH_OBJECT) as loaded:
        bench = Bench(loaded, N_PORTS)
        bench.grant(0, RULE)
        bench.receive(1, contribution(header_of(RULE, 0, 8), [MOST] * 8))
        bench.grant(1, RULE)
        for port in RULE.ports:
            bench.receive(port, contribution(header_of(RULE, 0, 7), [1] * 7))
        return bench.maps.pool_counts(1)["saturated"]


def test_nothing_of_a_longer_packet_is_added_to_a_shorter_one() -> None:
    assert inside(long_then_short) == 0


def pools_replaced() -> list[Any]:
    """Counters and slots of a pool that is set again are new; a removed one takes nothing in."""
    frame = contribution(header_of(RULE, 0, 1), (7,))
    with BpfObject(SWITCH_OBJECT) as loaded:
        bench = Bench(loaded, N_PORTS)
        found: list[Any] = []
        for _ in range(3):
            bench.grant(9, RULE)
            found += [bench.receive(1, frame), bench.maps.pool_counts(9)["added"]]
        bench.revoke(9, RULE)
        other = RULE._replace(elements=2048)
        bench.grant(10, other)
        bench.maps.apply(0, bench.ifindex, SetRule(FIRST_MATCH, 400, (RULE._replace(child=0),), 9, pool=9))
        return [*found, bench.receive(1, frame)]


FIRST_MATCH = Match(0x800, ip_proto=17, dport=FIRST_PORT, in_port=1)


def test_a_pool_that_is_set_again_begins_anew_and_one_that_is_gone_takes_nothing_in() -> None:
    assert inside(pools_replaced) == [STOLEN, 1] * 3 + [SHOT]
