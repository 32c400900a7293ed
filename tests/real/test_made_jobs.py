"""Made-up jobs on real packets: one of each kind, side by side."""

from pathlib import Path

import pytest

from gradwire.emu import records, run
from gradwire.emu.options import RunOptions
from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.traces.making.dlrm import dlrm
from gradwire.traces.making.easgd import easgd
from gradwire.traces.making.gossip import gossip
from gradwire.traces.making.servers import parameter_servers

pytestmark = [pytest.mark.real, pytest.mark.untimed]

S, N, MS = 24_000, 3, 10**6
EASGD = {"n_workers": 2, "nbytes": S, "compute_ns": 5 * MS, "n_messages": 3, "n_iterations": N}
SERVED = {"nbytes": S, "compute_ns": 5 * MS, "n_parts": 2, "n_iterations": N}


def test_every_rank_of_a_job_sends_what_its_kind_says_and_every_sum_is_right(tmp_path: Path) -> None:
    """What is pulled is held against the server's log, what is added up against all who gave."""
    jobs = {  # and the bytes that each rank sends in all
        easgd("async", **EASGD): [2 * N * S, N * S, N * S],
        easgd("hogwild", **EASGD): [2 * N * S, N * S, N * S],
        easgd("sync2", **EASGD): [N * S, N * S],
        parameter_servers(1, 2, staleness=0, **SERVED): [2 * N * S, N * S, N * S],
        parameter_servers(2, 2, staleness=1, **SERVED): [N * S, N * S, N * S, N * S],
        gossip("pull", n_ranks=2, nbytes=S, compute_ns=0, n_rounds=N, seed=0): [N * S, N * S],
        dlrm([1, 0], n_ranks=2, batch=8, width=16, pooling=4, nbytes=8, compute_ns=0, n_iterations=1): [
            # of the one with the table: embeddings; of the other: counts, indices, gradients; and the sum
            8 * 16 * 4 + 8,
            8 + 8 * 4 * 8 + 8 * 16 * 4 + 8,
        ],
    }
    first, *beside = jobs
    fabric = parse_fabric(f"star:hosts={sum(job.n_ranks for job in jobs)},rate=20M")
    experiment = Experiment(first, "test", beside=tuple(beside))
    plan = plan_of(Cell(fabric, "as-captured", "linear", "ecmp"), experiment)
    run.run(plan, tmp_path / "run", RunOptions(repeats=1), lambda phase, more: None, lambda work: None)
    for repeat in records.load_repeats(tmp_path / "run"):
        assert repeat.wrong == 0
        assert list(repeat.sent_nbytes) == [nbytes for sent in jobs.values() for nbytes in sent]
