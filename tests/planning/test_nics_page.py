"""The page on GPUs behind one NIC: what it says each traffic takes, against closed forms and plans."""

import re
from pathlib import Path

import pytest

from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.traces.making.collectives import made_allreduce
from tests.made_plans import MIB

PAGE = (Path(__file__).parents[2] / "docs" / "nics.md").read_text()
N = 4  # servers
GPUS = (1, 2, 4, 8)


def written(traffic: str, placement: str) -> list[float]:
    (cells,) = re.findall(
        rf"^\| {re.escape(traffic)} \| `{placement}` \| [^|]* \|(.*)\|$", PAGE, re.MULTILINE
    )
    return [float(cell) for cell in cells.split("|")]


def ratio(
    gpus: int, algorithm: str, placement: str, spines: int = 1, routes: str = "ecmp", jobs: int = 1
) -> float:
    fabric = parse_fabric(f"leaf-spine:leaves={N},spines={spines},hosts={gpus},rate=100M,uplink_rate=100M")
    job = made_allreduce(N * gpus // jobs, MIB)
    experiment = Experiment(job, "test", beside=(job,) * (jobs - 1))
    prediction = plan_of(Cell(fabric, algorithm, placement, routes), experiment).prediction
    return prediction.fluid_s / prediction.bound_s


def test_a_ring_whose_ranks_are_dealt_out_takes_as_many_times_as_long_as_gpus_share_the_nic() -> None:
    assert [ratio(gpus, "ring", "cyclic") for gpus in GPUS] == pytest.approx(GPUS)
    assert written("`ring`", "cyclic") == list(GPUS)


def test_so_do_jobs_that_have_a_gpu_of_each_server() -> None:
    assert [ratio(gpus, "ring", "cyclic", jobs=gpus) for gpus in GPUS] == pytest.approx(GPUS)
    assert written("G jobs of N ranks, `ring`", "cyclic") == list(GPUS)


def test_all_pairs_send_what_leaves_a_server_over_its_nic() -> None:
    wanted = [max(1, gpus * (N * gpus - gpus) / (N * gpus - 1)) for gpus in GPUS]
    assert [ratio(gpus, "all-pairs", "linear") for gpus in GPUS] == pytest.approx(wanted)
    assert written("`all-pairs`", "linear") == pytest.approx(wanted, abs=0.005)


def test_halving_doubling_keeps_its_larger_halves_inside_a_server() -> None:
    wanted = [(2 - 1 / gpus - 1 / N) / (1 - 1 / (N * gpus)) for gpus in GPUS]
    assert [ratio(gpus, "halving-doubling", "linear") for gpus in GPUS] == pytest.approx(wanted)
    assert written("`halving-doubling`", "linear") == pytest.approx(wanted, abs=0.005)


def test_a_ring_in_the_order_of_the_servers_needs_one_nic() -> None:
    assert [ratio(gpus, "ring", "linear") for gpus in GPUS] == pytest.approx([1] * 4)
    assert written("`ring`", "linear") == [1] * 4


def test_with_a_nic_for_each_gpu_no_flow_shares_one_on_planned_routes() -> None:
    assert ratio(4, "ring", "cyclic", spines=4, routes="planned") == pytest.approx(1)
    assert ratio(4, "ring", "cyclic", spines=4, routes="ecmp") > 1.5
