"""`switches.json` read back: the counts of flows, other rules, ports and trees; other files are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradwire.controller.counters import WireCount, counters_json, load_counters
from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.openflow.extension import JobCounts
from gradwire.planning.openflow.pool import EVENTS
from tests.made_counters import switches_json
from tests.made_plans import messages, schedule_plan

PLAN = schedule_plan("star:hosts=2", messages(2, [(0, 1, 3 * 1448 - 96)]))


def written(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


def test_a_flows_count_is_found_by_its_five_tuple_and_switch(tmp_path: Path) -> None:
    counters = load_counters(written(tmp_path / "switches.json", switches_json(PLAN)))
    (flow,) = [flow for flow in PLAN.flows if flow.src == 0]
    counted = counters.flows[flow.src_ip, flow.dst_ip, flow.sport, flow.dport]
    assert counted == {"switch0": WireCount(4, 74 + 3 * 1514)}  # a SYN and three full frames
    assert counted["switch0"].stream_nbytes == 8 + 3 * 1448


def test_a_port_counts_both_ways_and_a_missing_counter_is_no_zero(tmp_path: Path) -> None:
    value = switches_json(PLAN)
    value["ports"][0]["tx_bytes"] = None
    counters = load_counters(written(tmp_path / "switches.json", value))
    end = Egress(value["ports"][0]["switch"], value["ports"][0]["port"])
    assert end in counters.received
    assert end not in counters.sent


def test_rules_for_destinations_are_no_flows(tmp_path: Path) -> None:
    value = switches_json(PLAN)
    match = {"eth_type": 2048, "ipv4_dst": "10.0.0.1"}
    row = {"switch": "switch0", "match": match, "priority": 100, "output": 1, "packets": 3, "bytes": 300}
    value["flows"] += [row, row]
    counters = load_counters(written(tmp_path / "switches.json", value))
    assert counters.others == {"switch0": WireCount(6, 600)}


def test_rules_of_trees_are_found_by_port_and_udp_port(tmp_path: Path) -> None:
    value = switches_json(PLAN)
    for port, packets in ((1, 3), (2, 5)):
        match = {"in_port": port, "eth_type": 2048, "ip_proto": 17, "udp_dst": 0xBEE0}
        row = {"switch": "switch0", "match": match, "priority": 400, "output": None}
        value["flows"].append({**row, "packets": packets, "bytes": 100 * packets})
    counters = load_counters(written(tmp_path / "switches.json", value))
    assert counters.sums == {
        (Egress("switch0", 1), 0xBEE0): WireCount(3, 300),
        (Egress("switch0", 2), 0xBEE0): WireCount(5, 500),
    }
    assert counters.others == {}


def test_what_a_switch_reports_of_a_job_is_read_back_unchanged(tmp_path: Path) -> None:
    counts = JobCounts(7, 2, 128, 3, {event: number for number, event in enumerate(EVENTS)})
    value = counters_json(PLAN.fabric, {"switch0": []}, {"switch0": []}, {"switch0": [counts]})
    counters = load_counters(written(tmp_path / "switches.json", value))
    assert counters.pools == {("switch0", 7): counts}


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"flows": []},
        {"schema": "else", "flows": [], "ports": []},
        {"flows": [{"switch": "s", "match": {}, "priority": 300, "packets": -1, "bytes": 0}], "ports": []},
        {"flows": [{"switch": "s", "match": [], "priority": 300, "packets": 1, "bytes": 0}], "ports": []},
        {"flows": [], "ports": [{"switch": "s", "port": 1, "rx_bytes": 1 << 64}]},
        {"flows": [], "ports": [], "pools": [{"switch": "s", "job": 1, "counts": {"added": 1}}]},
        {
            "flows": [],
            "ports": [],
            "pools": [
                {"switch": "s", "job": 1, "epoch": 0, "slots": 1, "children": 1, "counts": {"never": 1}}
            ],
        },
    ],
)
def test_what_holds_no_counters_is_one_line_that_names_the_file(tmp_path: Path, value: Any) -> None:
    path = written(tmp_path / "switches.json", value)
    with pytest.raises(ValueError, match="not a counters file") as caught:
        load_counters(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
