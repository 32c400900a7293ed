"""The rates of flows and ports, from two readings of counters as they are on the wire."""

import struct
from typing import Any

import pytest

from gradwire.controller.rates import FlowRates
from gradwire.controller.readback import FlowStats
from gradwire.controller.ryu_api import ofp, parser
from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.plan import Flow, Plan
from tests.made_plans import allreduce_plan

NS = 10**9


def plan() -> Plan:
    return allreduce_plan("leaf-spine:leaves=2,spines=2,hosts=2", "ring")


def entry(flow: Flow, age_ns: int, nbytes: int) -> FlowStats:
    """What a switch says of the flow's rule `age_ns` after it was added (OpenFlow 1.3.5, 7.3.5.2)."""
    match = parser.OFPMatch(
        eth_type=0x800, ip_proto=6, ipv4_src=flow.src_ip, ipv4_dst=flow.dst_ip,
        tcp_src=flow.sport, tcp_dst=flow.dport,
    )  # fmt: skip
    octets = bytearray()
    match.serialize(octets, 0)
    seconds, rest_ns = divmod(age_ns, NS)
    fixed = struct.pack("!HBxIIHHHH4xQQQ", 48 + len(octets), 0, seconds, rest_ns, 300, 0, 0, 0, 0, 1, nbytes)
    return FlowStats.parser(fixed + bytes(octets), 0)


def test_a_rate_is_the_bits_between_two_readings_over_the_time_between_them() -> None:
    made = plan()
    rates, flow = FlowRates(made), made.flows[0]
    first = flow.path[1].node
    assert rates.taken({first: [entry(flow, 1 * NS, 1_000)]}) == {}
    assert rates.taken({first: [entry(flow, 3 * NS + NS // 2, 2_501_000)]}) == {0: 8e6}  # 2.5 MB in 2.5 s
    assert rates.taken({first: [entry(flow, 4 * NS, 2_501_000)]}) == {0: 0.0}


def test_a_flow_counts_at_its_first_switch_alone() -> None:
    made = plan()
    number, flow = next((i, flow) for i, flow in enumerate(made.flows) if len(flow.path) == 4)
    rates = FlowRates(made)
    first, last = flow.path[1].node, flow.path[-1].node
    assert {first, last} <= set(rates.switches)  # each is another flow's first
    for age in (1, 2):
        read = rates.taken({first: [entry(flow, age * NS, age * 125)], last: [entry(flow, age * NS, age)]})
    assert read == {number: 1000.0}


def test_only_the_switches_at_which_flows_begin_are_asked() -> None:
    assert FlowRates(plan()).switches == ("leaf0", "leaf1")


@pytest.mark.parametrize("age_s", [1, 6])
def test_a_counter_that_began_again_gives_no_rate_until_the_next_reading(age_s: int) -> None:
    """With the rule, or without it (OFPFF_RESET_COUNTS)."""
    made = plan()
    rates, flow = FlowRates(made), made.flows[0]
    first = flow.path[1].node
    readings = [(5 * NS, 5_000), (age_s * NS, 100), ((age_s + 1) * NS, 225)]
    found = [rates.taken({first: [entry(flow, *reading)]}) for reading in readings]
    assert found == [{}, {}, {0: 1000.0}]


def test_two_readings_at_one_instant_give_no_rate() -> None:
    made = plan()
    rates, flow = FlowRates(made), made.flows[0]
    for _ in range(2):
        assert rates.taken({flow.path[1].node: [entry(flow, NS, 5)]}) == {}


def test_rules_that_are_no_flow_of_the_plan_are_passed_over() -> None:
    made = plan()
    rates, flow = FlowRates(made), made.flows[0]
    match = parser.OFPMatch(eth_type=0x800, ipv4_dst=flow.dst_ip)
    octets = bytearray()
    match.serialize(octets, 0)
    for age in (1, 2):
        fixed = struct.pack("!HBxIIHHHH4xQQQ", 48 + len(octets), 0, age, 0, 100, 0, 0, 0, 0, 1, age * 1000)
        assert rates.taken({flow.path[1].node: [FlowStats.parser(fixed + bytes(octets), 0)]}) == {}


def port_entry(number: int, age_ns: int, nbytes: int) -> Any:
    """OpenFlow 1.3.5, 7.3.5.6: transmitted bytes are the fourth counter."""
    seconds, rest_ns = divmod(age_ns, NS)
    fixed = struct.pack("!I4x12QII", number, 0, 0, 0, nbytes, *[0] * 8, seconds, rest_ns)
    return parser.OFPPortStats.parser(fixed, 0)


def test_a_ports_rate_is_what_it_sent_between_two_readings_none_of_them_before_a_move() -> None:
    rates = FlowRates(plan())
    end = Egress("leaf0", 1)

    def taken(age_ns: int, nbytes: int) -> dict[Egress, float]:
        others = (port_entry(ofp.OFPP_LOCAL, age_ns, nbytes), port_entry(99, age_ns, nbytes))
        return rates.links_taken({"leaf0": [port_entry(1, age_ns, nbytes), *others]})

    assert taken(NS, 1_000) == {}
    assert taken(3 * NS + NS // 2, 2_501_000) == {end: 8e6}
    rates.forget_links()
    assert taken(4 * NS, 9_000_000) == {}
    assert taken(5 * NS, 10_000_000) == {end: 8e6}
