"""Counters that a plan's trees explain agree to the packet; what is lost, added or forged is found."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gradwire.controller.counters import WireCount, load_counters
from gradwire.planning.fabrics.fabric import link_name
from gradwire.planning.failures import parse_failures
from gradwire.planning.losses import parse_loss
from gradwire.planning.plan import Plan
from gradwire.results.audit.agreement import Agreement, agreement
from gradwire.results.audit.treecounts import Again, due, due_packets
from gradwire.traces.schedules.schedule import Schedule
from gradwire.traces.schedules.sends import Sends
from tests.made_counters import write_counters
from tests.made_plans import allreduce_plan, schedule_plan
from tests.made_sums import Sending, sums_json
from tests.planning.test_addedup import pushes

NBYTES = 5 * 1024 + 16  # five full packets of 256 elements, and one of four
PLAN = allreduce_plan("fat-tree:k=4,levels=2", "ina", nbytes=NBYTES)
REPEATS = 2
PACKETS = 1 + REPEATS * (1 + 6)
Change = Callable[[dict[str, Any]], None]


def held(
    tmp_path: Path,
    change: Change = lambda value: None,
    *,
    plan: Plan = PLAN,
    again: Sequence[Sending] = (),
    lost: Sequence[Sending] = (),
    reported: Again | None = None,
) -> Agreement:
    """Perfect counters, changed, against the plan; `reported` is what ranks say that they repeated."""
    value = sums_json(plan, REPEATS, again, lost)
    change(value)
    write_counters(tmp_path, value)
    repeated = [sum(rank == one for one, _ in (*again, *lost)) for rank in range(plan.n_ranks)]
    counters = load_counters(tmp_path / "switches.json")
    says = Again(repeated, repeated) if reported is None else reported
    return agreement(plan, counters, (0,) * plan.n_ranks, REPEATS, again=says)


def kinds(found: Agreement) -> list[str]:
    return sorted({finding.kind for finding in found.findings})


def rule(value: dict[str, Any], switch: str, port: int) -> dict[str, Any]:
    rows: list[dict[str, Any]] = value["flows"]
    (row,) = [row for row in rows if (row["switch"], row["match"]["in_port"]) == (switch, port)]
    return row


def pool(value: dict[str, Any], switch: str) -> dict[str, Any]:
    (row,) = [row for row in value["pools"] if row["switch"] == switch]
    counts: dict[str, Any] = row["counts"]
    return counts


@pytest.mark.parametrize("spec", ["star:hosts=3", "fat-tree:k=4,levels=2", "fat-tree:k=4", "bigraph:n=4,m=2"])
def test_what_perfect_switches_count_agrees_to_the_packet_on_every_family(tmp_path: Path, spec: str) -> None:
    found = held(tmp_path, plan=allreduce_plan(spec, "ina", nbytes=NBYTES))
    assert found.findings == ()
    assert {link.off_nbytes for link in found.links} == {0}
    expected = WireCount(PACKETS, PACKETS * 66 + REPEATS * NBYTES)
    assert {one.expected for one in found.sums} == {one.counted for one in found.sums} == {expected}


def test_every_link_of_the_tree_carries_the_buffer_each_way_and_the_others_nothing(tmp_path: Path) -> None:
    found = held(tmp_path)
    carried = {link_name(PLAN.fabric, link.egress): link.payload_nbytes for link in found.links}
    root = PLAN.trees[0].nodes[0].switch
    used = {name for name in carried if "spine" not in name or root in name}
    assert {name: nbytes for name, nbytes in carried.items() if nbytes} == dict.fromkeys(
        used, REPEATS * NBYTES
    )


def test_packets_that_are_due_are_those_of_the_stream_of_each_group() -> None:
    assert due(PLAN, 0, REPEATS) == WireCount(15, 15 * 66 + 2 * NBYTES)
    assert [due_packets(PLAN, rank, REPEATS) for rank in (0, 7)] == [15, 15]


def test_bare_packets_are_due_where_nobody_gives_or_takes(tmp_path: Path) -> None:
    plan = schedule_plan("star:hosts=4", _without_sends(pushes(3, NBYTES)))
    found = held(tmp_path, plan=plan)
    assert found.findings == ()
    expected = {one.egress.node: one.expected.nbytes for one in found.sums}
    full = PACKETS * 66 + REPEATS * NBYTES
    assert expected == {"h0": PACKETS * 66, "h1": full, "h2": full, "h3": full}


def test_elements_from_who_does_not_give_are_not_explained_by_packets_sent_again(tmp_path: Path) -> None:
    plan = schedule_plan("star:hosts=4", _without_sends(pushes(3, NBYTES)))

    def fill(value: dict[str, Any]) -> None:
        rule(value, "switch0", 1)["bytes"] += 4

    assert held(tmp_path, plan=plan, again=[(0, 1)]).findings == ()
    assert kinds(held(tmp_path, fill, plan=plan, again=[(0, 1)])) == ["more"]


def _without_sends(schedule: Schedule) -> Schedule:
    return replace(schedule, ops=schedule.ops[:1], sends=Sends.of(()), gates=())


def test_a_packet_that_a_rule_did_not_count_is_missing(tmp_path: Path) -> None:
    def lose(value: dict[str, Any]) -> None:
        row = rule(value, "leaf0", 1)
        row.update(packets=row["packets"] - 1, bytes=row["bytes"] - 66 - 1024)

    found = held(tmp_path, lose)
    assert [(one.kind, one.where) for one in found.findings] == [("less", "sums of tree 1 from h0 at leaf0")]


def test_a_byte_that_a_rule_did_not_count_is_missing(tmp_path: Path) -> None:
    def lose(value: dict[str, Any]) -> None:
        rule(value, "leaf0", 1)["bytes"] -= 1

    assert kinds(held(tmp_path, lose)) == ["less"]


def test_a_byte_too_many_on_a_hosts_link_is_found(tmp_path: Path) -> None:
    def add(value: dict[str, Any]) -> None:
        (row,) = [row for row in value["ports"] if (row["switch"], row["port"]) == ("leaf0", 1)]
        row["tx_bytes"] += 1

    (finding,) = held(tmp_path, add).findings
    assert (finding.kind, finding.where) == ("more", "leaf0→h0")


@pytest.mark.parametrize("chunk", [0, 1, 4, PACKETS - 1])
def test_what_a_rank_says_that_it_sent_again_is_explained_and_what_it_does_not_say_is_not(
    tmp_path: Path, chunk: int
) -> None:
    repeated = [(0, chunk), (5, chunk)]
    assert held(tmp_path, again=repeated).findings == ()
    found = held(tmp_path, again=repeated, reported=Again([0] * 8, [0] * 8))
    assert {one.where for one in found.findings if one.where.startswith("sums")} == {
        "sums of tree 1 from h0 at leaf0",
        "sums of tree 1 from h5 at leaf2",
    }


def test_what_got_lost_and_was_sent_again_is_added_once(tmp_path: Path) -> None:
    plan = replace(PLAN, losses=parse_loss("1%@leaf0-h0", PLAN.fabric))
    assert held(tmp_path, plan=plan, lost=[(0, 2), (0, 9)]).findings == ()


@pytest.mark.parametrize(
    ("event", "kind"),
    [("malformed", "more"), ("early", "more"), ("saturated", "saturated")],
)
def test_what_a_switch_refused_or_could_not_hold_is_found(tmp_path: Path, event: str, kind: str) -> None:
    def count(value: dict[str, Any]) -> None:
        counts = pool(value, "leaf1")
        counts[event] += 3
        counts["contributions"] += 0 if event == "saturated" else 3

    (finding,) = held(tmp_path, count).findings
    assert (finding.kind, finding.where) == (kind, "sums of tree 1 at leaf1")


def test_hosts_may_ask_whether_the_tree_still_exists_and_switches_may_not(tmp_path: Path) -> None:
    def ask(value: dict[str, Any], switch: str) -> None:
        counts = pool(value, switch)
        counts["contributions"] += 1
        counts["other_epoch"] += 1
        row = rule(value, switch, 1)
        row.update(packets=row["packets"] + 1, bytes=row["bytes"] + 66)

    assert held(tmp_path, partial(ask, switch="leaf0")).findings == ()
    root = PLAN.trees[0].nodes[0].switch
    assert kinds(held(tmp_path, partial(ask, switch=root))) == ["more"]


def test_a_contribution_added_twice_is_found(tmp_path: Path) -> None:
    def add(value: dict[str, Any]) -> None:
        counts = pool(value, "leaf1")
        counts["added"] += 1
        counts["duplicates"] -= 1

    (finding,) = held(tmp_path, add, again=[(2, 3)]).findings
    assert finding.what == "contributions added: 31, sums completed: 15; due: 30 and 15"


def test_contributions_that_nothing_became_of_are_found(tmp_path: Path) -> None:
    def lose(value: dict[str, Any]) -> None:
        pool(value, "leaf1")["contributions"] += 1

    assert kinds(held(tmp_path, lose)) == ["ends differ"]


def test_a_switch_that_does_not_tell_what_it_added_is_a_finding(tmp_path: Path) -> None:
    def silence(value: dict[str, Any]) -> None:
        value["pools"] = []

    assert kinds(held(tmp_path, silence)) == ["not counted"]


def test_a_rule_that_is_gone_is_a_finding(tmp_path: Path) -> None:
    def remove(value: dict[str, Any]) -> None:
        value["flows"].remove(rule(value, "leaf3", 2))

    (finding,) = held(tmp_path, remove).findings
    assert (finding.kind, finding.where) == ("not counted", "sums of tree 1 from h7 at leaf3")


def test_packets_of_a_tree_that_the_plan_has_not_are_found(tmp_path: Path) -> None:
    def forge(value: dict[str, Any]) -> None:
        row = rule(value, "leaf0", 1)
        value["flows"].append({**row, "match": {**row["match"], "udp_dst": 0xBEFF}, "packets": 2})

    (finding,) = held(tmp_path, forge).findings
    assert (finding.kind, finding.where) == ("no flow's", "leaf0")


def test_with_failures_only_the_hosts_links_are_held(tmp_path: Path) -> None:
    root = PLAN.trees[0].nodes[0].switch
    plan = replace(PLAN, failures=parse_failures(f"leaf0-{root}@0.1", PLAN.fabric))

    def move(value: dict[str, Any]) -> None:
        value["pools"], value["flows"] = [], []

    write_counters(tmp_path, sums_json(plan, REPEATS))
    value = sums_json(plan, REPEATS, again=[(0, 3)])
    move(value)
    write_counters(tmp_path, value)
    counters = load_counters(tmp_path / "switches.json")
    none, one = (0,) * 8, (1, 0, 0, 0, 0, 0, 0, 0)
    for again, expected in ((Again(one, one), []), (Again(none, none), ["more"])):
        found = agreement(plan, counters, none, REPEATS, moved=True, again=again)
        assert sorted({finding.kind for finding in found.findings}) == expected
    assert {link.egress for link in found.held} == {
        end for end, peer in plan.fabric.peers.items() if {end.node, peer.node} & set(plan.fabric.hosts)
    }


def test_two_trees_on_one_switch_are_counted_apart(tmp_path: Path) -> None:
    pair = (0, 1), (2, 3)
    schedule = allreduce_plan("star:hosts=4", "ina", nbytes=NBYTES).schedule
    both = replace(
        schedule,
        ops=tuple(replace(schedule.ops[0], members=ranks) for ranks in pair),
        aggregations=tuple(
            replace(schedule.aggregations[0], op=op, givers=ranks, takers=ranks)
            for op, ranks in enumerate(pair)
        ),
    )
    plan = schedule_plan("star:hosts=4", both)
    assert len({tree.job for tree in plan.trees}) == 2
    assert held(tmp_path, plan=plan).findings == ()

    def mix(value: dict[str, Any]) -> None:
        for row in value["flows"]:
            if row["match"]["in_port"] == 1:
                row["match"]["in_port"] = 3

    assert kinds(held(tmp_path, mix, plan=plan)) == ["not counted"]
