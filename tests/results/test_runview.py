"""A link's share of the time busy comes from counters first, and from the plan where there are none."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.planning.fabrics.fabric import Egress, link_name
from gradwire.planning.failures import parse_failures
from gradwire.planning.plan import BadPlan
from gradwire.planning.runfiles import BadRun
from gradwire.results.runview import MOST_TIMES, RunView, links_over_time, load_run
from tests.made_plans import MIB, PAYLOAD_EFFICIENCY, allreduce_plan
from tests.made_runs import CALIBRATED, made_run, sample_ports

STAR = "star:hosts=2,rate=100M"
TO_H0 = Egress("switch0", 1)
FROM_H0 = Egress("h0", 0)


def busy(view: RunView, egress: Egress) -> tuple[float, str]:
    (use,) = [use for use in view.links if use.egress == egress]
    return use.busy, use.origin


def count_received(folder: Path, rx_bytes: int | None) -> None:
    """`switches.json` with what came in from h0."""
    counted = {"rx_packets": 1, "rx_bytes": rx_bytes, "tx_packets": None, "tx_bytes": None}
    ports = [{"switch": "switch0", "port": 1, **counted}]
    (folder / "switches.json").write_text(json.dumps({"flows": [], "ports": ports}))


def test_a_port_counter_of_the_middle_repeat_says_how_busy_its_link_was(tmp_path: Path) -> None:
    made_run(tmp_path / "run", allreduce_plan(STAR), times_s=(2.0, 8.0, 1.0))
    half_of_2_s = 100_000_000 // 8
    frames = half_of_2_s // 1514
    counts = [(frames * 1514, frames), (90 * 1514, 90), (10 * 1514, 10)]
    sample_ports(tmp_path / "run", [{TO_H0: count} for count in counts])
    share, origin = busy(load_run(tmp_path / "run"), TO_H0)
    assert origin == "port"
    assert share == pytest.approx(0.5, abs=1e-4)


def test_what_a_host_sends_is_counted_by_its_switch_over_all_repeats(tmp_path: Path) -> None:
    made_run(tmp_path / "run", allreduce_plan(STAR), times_s=(1.0, 1.0))
    count_received(tmp_path / "run", 2 * 100_000_000 // 8 // 4)  # two repeats of a quarter of a second
    assert busy(load_run(tmp_path / "run"), FROM_H0) == (0.25, "switch")


def test_without_counters_the_plans_own_bytes_are_used(tmp_path: Path) -> None:
    made_run(tmp_path / "run", allreduce_plan(STAR, nbytes=8 * MIB), times_s=(1.0,))
    share, origin = busy(load_run(tmp_path / "run"), FROM_H0)
    assert origin == "plan"
    assert share == pytest.approx(8 * MIB * 8 / 100e6 / PAYLOAD_EFFICIENCY)  # 2 (p-1)/p = 1 for two ranks


def test_on_a_fabric_with_jumbo_frames_they_are_what_bytes_travel_in(tmp_path: Path) -> None:
    plan = allreduce_plan(f"{STAR},mtu=9000", nbytes=8 * MIB)
    made_run(tmp_path / "run", plan, times_s=(1.0,))
    assert busy(load_run(tmp_path / "run"), FROM_H0)[0] == pytest.approx(8 * MIB * 8 / 100e6 * 9014 / 8948)
    sample_ports(tmp_path / "run", [{TO_H0: (66 + 700 * 8948, 1)}])  # a count of one header for 700 frames
    share, _ = busy(load_run(tmp_path / "run"), TO_H0)
    assert share == pytest.approx(700 * 9014 * 8 / 100e6)


def test_a_counter_that_the_switch_does_not_have_leaves_it_to_the_plan(tmp_path: Path) -> None:
    made_run(tmp_path / "run", allreduce_plan(STAR))
    count_received(tmp_path / "run", None)
    assert busy(load_run(tmp_path / "run"), FROM_H0)[1] == "plan"


def test_no_link_is_busy_for_longer_than_the_repeat(tmp_path: Path) -> None:
    made_run(tmp_path / "run", allreduce_plan(STAR), times_s=(0.001,))
    assert {use.busy for use in load_run(tmp_path / "run").links} == {1.0}


def test_the_busiest_link_comes_first_with_its_flows(tmp_path: Path) -> None:
    plan = allreduce_plan("leaf-spine:leaves=2,spines=1,hosts=4", "halving-doubling", placement="random")
    made_run(tmp_path / "run", plan, times_s=(10.0,))
    links = load_run(tmp_path / "run").links
    assert {use.name for use in links[:4]} == {"leaf0→spine0", "spine0→leaf0", "leaf1→spine0", "spine0→leaf1"}
    assert [use.busy for use in links] == sorted((use.busy for use in links), reverse=True)
    assert links[0].n_flows >= links[0].together > 1


def test_calibration_and_manifest_are_read_if_they_are_there(tmp_path: Path) -> None:
    made_run(tmp_path / "run", allreduce_plan(STAR))
    view = load_run(tmp_path / "run")
    assert (view.calibration, view.manifest["kernel"]) == (CALIBRATED, "6.1.0")
    (tmp_path / "run" / "verdict.json").unlink()
    (tmp_path / "run" / "manifest.json").unlink()
    view = load_run(tmp_path / "run")
    assert (view.calibration, view.manifest) == (None, {})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("repeats.json", b"[]"),
        ("repeats.json", b"[{}]"),
        ("repeats.json", b"\xff"),
        ("verdict.json", b"[1]"),
        ("verdict.json", b'{"calibration": {"eta": "much"}}'),
        ("manifest.json", b"{"),
        ("links.parquet", b"PAR1 and no more"),
        ("switches.json", b'{"ports": [{"port": 1}]}'),
    ],
)
def test_a_file_that_is_spoilt_is_one_line_that_names_the_file(
    tmp_path: Path, name: str, content: bytes
) -> None:
    made_run(tmp_path / "run", allreduce_plan(STAR))
    (tmp_path / "run" / name).write_bytes(content)
    with pytest.raises(BadRun) as caught:
        load_run(tmp_path / "run")
    assert str(caught.value).startswith(f"{tmp_path / 'run' / name}: ")
    assert "\n" not in str(caught.value)


def test_a_plan_whose_flows_leave_its_fabric_is_refused(tmp_path: Path) -> None:
    made_run(tmp_path / "run", allreduce_plan(STAR))
    path = tmp_path / "run" / "plan.json"
    path.write_text(path.read_text().replace('"switch0"', '"switch7"'))
    with pytest.raises((ValueError, BadPlan), match="run"):
        load_run(tmp_path / "run")


def test_a_run_without_its_repeats_is_an_os_error(tmp_path: Path) -> None:
    made_run(tmp_path / "run", allreduce_plan(STAR))
    (tmp_path / "run" / "repeats.json").unlink()
    with pytest.raises(FileNotFoundError):
        load_run(tmp_path / "run")


def test_over_time_are_the_worst_link_those_that_failed_and_the_busiest_between_switches(
    tmp_path: Path,
) -> None:
    plan = allreduce_plan("fat-tree:k=4,levels=2", "halving-doubling")
    failing = replace(plan, failures=parse_failures("leaf3-spine1@0.25,0.5", plan.fabric))
    made_run(tmp_path / "run", failing)
    view = load_run(tmp_path / "run")
    assert len(view.links) > MOST_TIMES
    assert not [use for use in view.links[:8] if "spine" in use.name and use.egress != view.load.worst.egress]
    names = [link_name(plan.fabric, egress) for egress in links_over_time(failing, view.load, view.links)]
    assert link_name(plan.fabric, view.load.worst.egress) in names
    assert {"leaf3→spine1", "spine1→leaf3"} <= set(names)
    assert sum("spine" in name for name in names) >= 6
    assert len(names) == MOST_TIMES
