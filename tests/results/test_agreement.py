"""Counters that are the plan's agree; whatever is dropped, moved or added in them is found."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gradwire.controller.counters import load_counters
from gradwire.planning.plan import Plan
from gradwire.results.audit.agreement import Agreement, agreement, strayed
from tests.made_counters import switches_json, write_counters
from tests.made_plans import MIB, allreduce_plan, messages, schedule_plan

PLAN = allreduce_plan("fat-tree:k=4,levels=2", "halving-doubling", "random", nbytes=MIB)
NONE_RESENT = (0,) * 8
SEGMENT = 1448


def held(
    tmp_path: Path,
    change: Callable[[dict[str, Any]], None] = lambda value: None,
    *,
    plan: Plan = PLAN,
    resent: tuple[int, ...] = NONE_RESENT,
    **more: Any,
) -> Agreement:
    """Perfect counters of two repeats, changed, against the plan."""
    value = switches_json(plan, repeats=2)
    change(value)
    write_counters(tmp_path, value)
    return agreement(plan, load_counters(tmp_path / "switches.json"), resent, 2, **more)


def kinds(found: Agreement) -> set[str]:
    return {finding.kind for finding in found.findings}


def rule_at(value: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The first flow's rule at a switch of a kind."""
    row: dict[str, Any] = next(row for row in value["flows"] if row["switch"].startswith(prefix))
    return row


def port_row(value: dict[str, Any], switch: str, port: int) -> dict[str, Any]:
    return next(row for row in value["ports"] if (row["switch"], row["port"]) == (switch, port))


def test_what_perfect_switches_count_agrees_to_the_byte_on_every_link(tmp_path: Path) -> None:
    found = held(tmp_path)
    assert found.findings == ()
    assert len(found.held) == len(PLAN.fabric.rates) == 32
    assert {link.off_nbytes for link in found.links} == {0}
    assert {count.stream_nbytes for one in found.flows for count in one.counted.values()} == {
        one.expected_nbytes for one in found.flows
    }


def test_the_payload_of_a_hosts_link_is_the_closed_form_in_each_repeat(tmp_path: Path) -> None:
    links = {link.egress.node: link for link in held(tmp_path).links if link.egress.node in PLAN.fabric.hosts}
    assert {link.payload_nbytes for link in links.values()} == {2 * 2 * 7 * MIB // 8}


def test_a_flow_whose_count_is_dropped_is_missing_at_that_switch(tmp_path: Path) -> None:
    def drop(value: dict[str, Any]) -> None:
        rule_at(value, "spine").update(packets=0, bytes=0)

    (finding,) = held(tmp_path, drop).findings
    assert finding.kind == "less"
    assert " at spine" in finding.where


def test_a_rule_that_is_gone_is_a_flow_that_is_missing(tmp_path: Path) -> None:
    assert kinds(held(tmp_path, lambda value: value["flows"].remove(rule_at(value, "spine")))) == {"less"}


def test_a_flow_that_took_the_other_spine_is_astray_there_and_missing_here(tmp_path: Path) -> None:
    def move(value: dict[str, Any]) -> None:
        row = rule_at(value, "spine")
        row["switch"] = "spine1" if row["switch"] == "spine0" else "spine0"

    found = held(tmp_path, move)
    assert [finding.kind for finding in found.findings] == ["less", "astray"]
    assert found.findings[1].what.endswith(("leaf0", "leaf1", "leaf2", "leaf3"))  # the path that it has


def test_one_byte_less_on_a_link_is_found(tmp_path: Path) -> None:
    def lose(value: dict[str, Any]) -> None:
        port_row(value, "leaf0", 3)["tx_bytes"] -= 1
        port_row(value, "spine0", 1)["rx_bytes"] -= 1

    (finding,) = held(tmp_path, lose).findings
    assert (finding.kind, finding.where) == ("less", "leaf0→spine0")


def test_a_cable_whose_ends_differ_is_found(tmp_path: Path) -> None:
    found = held(tmp_path, lambda value: port_row(value, "leaf0", 3).update(tx_packets=1, tx_bytes=66))
    assert kinds(found) == {"ends differ"}


def resend(value: dict[str, Any], segments: int, nbytes: int = SEGMENT, plan: Plan = PLAN) -> None:
    """The first flow's source sends full segments once more, all the way."""
    first = plan.flows[0]
    for row in value["flows"]:
        if (row["match"]["ipv4_src"], row["match"]["tcp_src"]) == (first.src_ip, first.sport):
            row["packets"] += segments
            row["bytes"] += segments * (66 + nbytes)
    for egress in first.path:
        peer = plan.fabric.peers[egress]
        for end, way in ((egress, "tx"), (peer, "rx")):
            if end.node in plan.fabric.switches:
                row = port_row(value, end.node, end.port)
                row[f"{way}_packets"] += segments
                row[f"{way}_bytes"] += segments * (66 + nbytes)


def test_what_tcp_says_that_it_sent_again_is_explained_and_what_it_does_not_say_is_not(
    tmp_path: Path,
) -> None:
    src = PLAN.flows[0].src
    resent = tuple(5 if rank == src else 0 for rank in range(8))
    assert held(tmp_path, lambda value: resend(value, 5), resent=resent).findings == ()
    assert kinds(held(tmp_path, lambda value: resend(value, 1))) == {"more"}


def test_a_segment_that_was_sent_again_is_as_long_as_the_fabrics_mtu_allows(tmp_path: Path) -> None:
    def found(spec: str) -> set[str]:
        plan = allreduce_plan(spec, "halving-doubling", "random", nbytes=MIB)
        resent = tuple(5 if rank == plan.flows[0].src else 0 for rank in range(8))
        return kinds(held(tmp_path, lambda value: resend(value, 5, 8948, plan), plan=plan, resent=resent))

    assert found("fat-tree:k=4,levels=2,mtu=9000") == set()
    assert found("fat-tree:k=4,levels=2,mtu=6000") == {"more"}


def test_a_packet_that_a_destinations_rule_carried_is_no_flows(tmp_path: Path) -> None:
    match = {"eth_type": 2048, "ipv4_dst": "10.0.0.1"}
    row = {"switch": "leaf0", "match": match, "priority": 100, "output": 1, "packets": 3, "bytes": 300}
    (finding,) = held(tmp_path, lambda value: value["flows"].append(row)).findings
    assert (finding.kind, finding.where) == ("no flow's", "leaf0")


def test_a_flow_that_the_plan_has_not_is_found(tmp_path: Path) -> None:
    def add(value: dict[str, Any]) -> None:
        row = rule_at(value, "leaf")
        value["flows"].append({**row, "match": {**row["match"], "tcp_src": 1}})

    assert kinds(held(tmp_path, add)) == {"no flow's"}


def test_where_flows_could_move_only_hosts_links_and_a_flows_ends_are_held(tmp_path: Path) -> None:
    def move(value: dict[str, Any]) -> None:
        row = rule_at(value, "spine")
        row["switch"] = "spine1" if row["switch"] == "spine0" else "spine0"
        port_row(value, "spine0", 1).update(rx_packets=0, rx_bytes=0)

    found = held(tmp_path, move, moved=True)
    assert found.findings == ()
    assert len(found.held) == 2 * len(PLAN.fabric.hosts)
    ((flow, switch),) = strayed(PLAN, found)
    assert switch not in {egress.node for egress in PLAN.flows[flow].path}

    def drop(value: dict[str, Any]) -> None:
        rule_at(value, "leaf").update(packets=0, bytes=0)

    assert kinds(held(tmp_path, drop, moved=True)) == {"less"}


def test_open_vswitch_may_lack_what_it_forwarded_last(tmp_path: Path) -> None:
    """At 100 Mb/s a second is 12.5 MB; a flow that has no count at all is missing whatever the switch."""

    def lose(value: dict[str, Any]) -> None:
        rule_at(value, "spine")["bytes"] -= SEGMENT

    assert kinds(held(tmp_path, lose)) == {"less"}
    assert held(tmp_path, lose, late_s=1.0).findings == ()
    assert kinds(held(tmp_path, lose, late_s=1e-6)) == {"less"}

    def drop(value: dict[str, Any]) -> None:
        rule_at(value, "spine").update(packets=0, bytes=0)

    assert kinds(held(tmp_path, drop, late_s=1.0)) == {"less"}


def test_a_link_that_nobody_counted_is_a_finding(tmp_path: Path) -> None:
    plan = schedule_plan("star:hosts=2", messages(2, [(0, 1, 1000)]))

    def blind(value: dict[str, Any]) -> None:
        value["ports"][0].update(tx_bytes=None)

    found = held(tmp_path, blind, plan=plan, resent=(0, 0))
    assert kinds(found) == {"not counted"}


@pytest.mark.parametrize("spec", ["star:hosts=4", "fat-tree:k=4", "bigraph:n=4,m=2"])
@pytest.mark.parametrize("algorithm", ["ring", "as-captured"])
def test_on_every_family_a_ring_that_perfect_switches_counted_agrees(
    tmp_path: Path, spec: str, algorithm: str
) -> None:
    plan = allreduce_plan(spec, algorithm, nbytes=MIB)
    assert held(tmp_path, plan=plan, resent=(0,) * plan.n_ranks).findings == ()


def test_the_file_of_counters_is_json_as_a_run_leaves_it(tmp_path: Path) -> None:
    write_counters(tmp_path, switches_json(PLAN))
    assert set(json.loads((tmp_path / "switches.json").read_text())) == {"schema", "flows", "ports"}


def acknowledge_selectively(value: dict[str, Any], nbytes: int) -> None:
    """The first flow's packets hold so much more in options, all the way."""
    first = PLAN.flows[0]
    for row in value["flows"]:
        if (row["match"]["ipv4_src"], row["match"]["tcp_src"]) == (first.src_ip, first.sport):
            row["bytes"] += nbytes
    for egress in first.path:
        for end, way in ((egress, "tx"), (PLAN.fabric.peers[egress], "rx")):
            if end.node in PLAN.fabric.switches:
                port_row(value, end.node, end.port)[f"{way}_bytes"] += nbytes


def test_a_moved_flow_may_acknowledge_a_window_selectively_and_no_more(tmp_path: Path) -> None:
    """At most three blocks of 8 bytes, 28 with their header, in each packet, of which the flow has some."""
    packets = next(iter(held(tmp_path).flows[0].counted.values())).packets
    window = 2 * PLAN.transport.rcvbuf_nbytes // SEGMENT + 1
    at_rest = 64 + 28 * (packets // 100 + 1)
    one_move = 64 + 28 * min(packets, packets // 100 + 1 + window)
    assert one_move > at_rest
    for nbytes, n_moves, expected in (
        (at_rest, 0, set()),
        (at_rest + 1, 0, {"more"}),
        (at_rest + 1, 1, set()),
        (one_move, 1, set()),
        (one_move + 1, 1, {"more"}),
        (64 + 28 * packets + 1, 10**6, {"more"}),
    ):
        change = partial(acknowledge_selectively, nbytes=nbytes)
        found = held(tmp_path, change, moved=True, n_moves=n_moves)
        flow_kinds = {one.kind for one in found.findings if one.where.startswith("r")}
        assert flow_kinds == expected
