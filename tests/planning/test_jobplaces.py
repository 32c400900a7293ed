"""Where workers and the parameter servers of an algorithm are."""

import pytest

from gradwire.planning.experiment import Cell, Experiment, plan_of
from gradwire.planning.fabrics.paths import access_switch
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.jobplaces import n_workers_on, place_jobs
from gradwire.planning.refused import Refused
from gradwire.traces.making.collectives import made_allreduce

RACKS = parse_fabric("leaf-spine:leaves=3,spines=1,hosts=4")


def test_servers_follow_the_workers_of_their_own_job() -> None:
    first, second = place_jobs(RACKS, "ps:servers=2", "linear", [3, 4], seed=0)
    assert first == ("h0", "h1", "h2", "h3", "h4")
    assert second == ("h5", "h6", "h7", "h8", "h9", "h10")


@pytest.mark.parametrize("placement", ["linear", "random"])
@pytest.mark.parametrize("n_workers", [3, 6, 8, 9])
def test_a_server_in_each_rack_has_a_worker_there_and_there_is_one_in_each(
    placement: str, n_workers: int
) -> None:
    (job,) = place_jobs(RACKS, "ps:hierarchical", placement, [n_workers], seed=1)
    workers, servers = job[:n_workers], job[n_workers:]
    assert len(set(job)) == len(job)
    assert sorted(access_switch(RACKS, host) for host in servers) == sorted(
        {access_switch(RACKS, host) for host in workers}
    )


def test_an_algorithm_without_servers_needs_no_more_hosts() -> None:
    assert place_jobs(RACKS, "ring", "linear", [12], seed=0) == [RACKS.hosts]


@pytest.mark.parametrize(
    ("algorithm", "n_workers", "reason"),
    [
        ("ps:servers=5", [8], "8 workers and 5 servers need 13 hosts, but leaf-spine:.* has 12"),
        ("ps:hierarchical", [10], "10 workers and 3 servers need 13 hosts"),
        ("ps:central", [6, 6], "12 workers and 2 servers need 14 hosts"),
    ],
)
def test_servers_without_room_are_refused_with_the_hosts_they_need(
    algorithm: str, n_workers: list[int], reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        place_jobs(RACKS, algorithm, "linear", n_workers, seed=0)


@pytest.mark.parametrize(
    ("algorithm", "n_jobs", "n_workers"),
    [
        ("ring", 1, 12),
        ("ps:servers=4", 1, 8),
        ("ps:central", 2, 5),
        ("ps:hierarchical", 1, 9),
        ("ps:servers=12", 1, 2),  # has no room: refused when it is placed
        ("ring", 12, 1),
    ],
)
def test_a_bench_keeps_hosts_for_servers(algorithm: str, n_jobs: int, n_workers: int) -> None:
    assert n_workers_on(RACKS, algorithm, n_jobs) == n_workers


def test_jobs_beside_each_other_have_their_own_servers() -> None:
    cell = Cell(RACKS, "ps:central,chunk=off", "linear", "ecmp")
    plan = plan_of(cell, Experiment(made_allreduce(2, 400), "test", beside=(made_allreduce(3, 400),)))
    assert [op.givers for op in plan.schedule.ops] == [(0, 1), (3, 4, 5)]
    assert plan.schedule.sends.pairs() == {
        *((rank, 2) for rank in (0, 1)),
        *((2, rank) for rank in (0, 1)),
        *((rank, 6) for rank in (3, 4, 5)),
        *((6, rank) for rank in (3, 4, 5)),
    }
    assert plan.prediction.bound_s == pytest.approx(400 * 8 / (1e8 * 1448 / 1514))  # S, in and out
