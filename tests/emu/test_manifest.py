"""A run's manifest says what the machine's own commands say, and what the plan was."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from gradwire.emu.options import RunOptions
from gradwire.emu.run import PACKAGES, manifest
from gradwire.planning import plan as plans
from gradwire.planning.losses import parse_loss
from gradwire.planning.plan import Plan
from tests.made_plans import allreduce_plan

PLAN = allreduce_plan("star:hosts=2,rate=10M", seed=7, nbytes=4000)
LOSSY = replace(PLAN, losses=parse_loss("1%", PLAN.fabric))


@pytest.fixture
def tc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `tc` that tells its version."""
    tool = tmp_path / "bin" / "tc"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\n[ "$1" = -V ] && echo "tc utility, iproute2-6.1.0" && echo more\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    return tool


def made(tmp_path: Path, options: RunOptions, plan: Plan = PLAN) -> dict[str, object]:
    path = tmp_path / "plan.json"
    plans.save(plan, path)
    value = manifest(plan, options, path)
    assert json.loads(json.dumps(value)) == value  # as a reader of manifest.json gets it
    return value


@pytest.mark.usefixtures("tc")
def test_machine_and_versions_are_as_the_machine_tells(tmp_path: Path) -> None:
    value = made(tmp_path, RunOptions())
    assert value["kernel"] == subprocess.check_output(["uname", "-r"], text=True).strip()
    assert value["cpus"] == int(subprocess.check_output(["nproc", "--all"]))
    assert value["python"] == sys.version.split()[0]
    assert value["packages"] == {name: version(name) for name in PACKAGES}
    assert value["iproute2"] == "tc utility, iproute2-6.1.0"


def test_a_version_told_on_stderr_is_heard_too(tmp_path: Path, tc: Path) -> None:
    tc.write_text("#!/bin/sh\necho tc, of some kind >&2\n")
    assert made(tmp_path, RunOptions())["iproute2"] == "tc, of some kind"


@pytest.mark.usefixtures("tc")
def test_the_plan_is_named_by_its_hash_and_what_decides_it_is_there(tmp_path: Path) -> None:
    value = made(tmp_path, RunOptions(repeats=5))
    printed = subprocess.check_output(["sha256sum", tmp_path / "plan.json"], text=True)
    assert value["plan_sha256"] == printed.split()[0]
    assert (value["seed"], value["repeats"]) == (7, 5)
    assert value["transport"] == {
        "congestion_control": PLAN.transport.congestion_control,
        "rcvbuf_nbytes": 128 * 1024,  # 20 ms of 10 Mb/s would be less
        "sndbuf_nbytes": 64 * 1024,
        "gso_max_nbytes": 3000,  # two packets: 2 ms would be less
    }


@pytest.mark.usefixtures("tc")
@pytest.mark.parametrize(("switch", "offload"), [("gradwire", True), ("ovs", False)])
def test_packets_are_whole_before_a_switch_in_user_space_gets_them(
    tmp_path: Path, switch: str, offload: bool
) -> None:
    value = made(tmp_path, RunOptions(switch=switch))
    assert (value["switch"], value["checksum_and_segmentation_offload"]) == (switch, offload)


@pytest.mark.usefixtures("tc")
@pytest.mark.parametrize(
    ("plan", "switch", "is_set"),
    [(PLAN, "gradwire", True), (PLAN, "ovs", False), (LOSSY, "gradwire", False)],
)
def test_routes_are_as_hosts_have_them(tmp_path: Path, plan: Plan, switch: str, is_set: bool) -> None:
    """Where packets are lost, or handed over one by one, TCP finds out by itself."""
    route = made(tmp_path, RunOptions(switch=switch), plan)["host_route"]
    assert isinstance(route, dict)
    assert (route["congestion"], route["quickack"], route["initcwnd"] is not None) == (
        "cubic",
        is_set,
        is_set,
    )
