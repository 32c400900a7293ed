"""A job is recognised by what its files say, not by their names."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.emu.project import PROJECT
from gradwire.planning import plan as plans
from gradwire.planning.capturefabric import MANIFEST
from gradwire.planning.experiment import Original
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.jobs import read_captured, read_job, read_workload_only, source_of
from gradwire.planning.losses import parse_loss
from gradwire.planning.plan import BadPlan, Prediction
from gradwire.traces import workload as workloads
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.workload import BadWorkload
from tests.made_plans import allreduce_plan


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    plans.save(allreduce_plan("star:hosts=4"), tmp_path / "named.workload.json")
    return tmp_path / "named.workload.json"


@pytest.fixture
def workload_file(tmp_path: Path) -> Path:
    workloads.save(made_allreduce(4, 4000), tmp_path / "plan.json")
    return tmp_path / "plan.json"


def test_a_plan_is_read_as_a_plan(plan_file: Path) -> None:
    assert read_job([plan_file]) == allreduce_plan("star:hosts=4")


def test_a_workload_is_read_as_a_workload(workload_file: Path) -> None:
    assert read_job([workload_file]) == made_allreduce(4, 4000)
    assert read_workload_only([workload_file]) == made_allreduce(4, 4000)


def test_a_plan_is_refused_where_only_a_workload_will_do(plan_file: Path) -> None:
    with pytest.raises(ValueError, match="is a plan, which already fixes fabric and routes"):
        read_workload_only([plan_file])


def test_a_rank_map_is_refused_for_a_file_that_has_its_ranks(workload_file: Path) -> None:
    with pytest.raises(ValueError, match="--rank-map is for captures"):
        read_job([workload_file], ranks=Path("ranks.yaml"))


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"schema": "else"}'])
def test_a_json_file_of_another_kind_is_no_workload(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(BadWorkload, match="not a workload"):
        read_job([path])


def test_a_broken_plan_is_refused_as_a_plan(plan_file: Path) -> None:
    plan_file.write_bytes(plan_file.read_bytes()[:-50])
    with pytest.raises(BadPlan, match="not a plan"):
        read_job([plan_file])


def test_a_file_that_is_not_there_is_an_error_of_the_machine() -> None:
    with pytest.raises(OSError, match="No such file"):
        read_job([Path("absent.json")])


def test_the_source_of_a_job_are_its_paths() -> None:
    assert source_of([Path("a.pcap"), Path("b/c.pcap")]) == "a.pcap b/c.pcap"


def test_a_plans_prediction_is_worked_out_again(tmp_path: Path) -> None:
    made = allreduce_plan("star:hosts=4")
    plans.save(replace(made, prediction=Prediction(bound_s=1e-6, fluid_s=1e-6)), tmp_path / "p.json")
    assert read_job([tmp_path / "p.json"]) == made


CAPTURE = PROJECT / "traces" / "samples" / "slow_ddp_8_mlp_leafspine50M"


def original_of(folder: Path, **changes: object) -> Original | None:
    """Of a copy of a shipped capture, with other words in its manifest."""
    shutil.copytree(CAPTURE, folder)
    manifest = json.loads((folder / MANIFEST).read_text()) | changes
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return read_captured([folder])[1]


def test_a_folder_of_capture_says_where_its_job_ran(tmp_path: Path) -> None:
    workload, original = read_captured([CAPTURE])
    assert original is not None
    assert original.fabric == parse_fabric("leaf-spine:leaves=4,spines=1,hosts=2,rate=50M,uplink_rate=25M")
    assert original.hosts == original.fabric.hosts[:8]
    assert {message.iteration for message in original.messages} == set(workload.iterations) - {-1}


@pytest.mark.parametrize(
    "changes", [{"fabric": "no-such:n=1"}, {"fabric": 7}, {"hosts": "h0"}, {"beside": ["ddp-mlp, 4 ranks"]}]
)
def test_a_capture_whose_manifest_does_not_say_is_compared_with_nothing(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    assert original_of(tmp_path / "copy", **changes) is None


def test_only_the_same_job_on_its_own_fabric_is_compared() -> None:
    plan = allreduce_plan("star:hosts=4", "as-captured")
    original = Original(plan.fabric, plan.placement, ())
    assert original.is_of(plan)
    assert not original.is_of(allreduce_plan("star:hosts=4", "ring"))
    assert not original.is_of(allreduce_plan("star:hosts=4,rate=20M", "as-captured"))
    assert not original.is_of(replace(plan, placement=plan.placement[::-1]))
    assert not original.is_of(replace(plan, losses=parse_loss("1%", plan.fabric)))
