"""What inspect says, by closed forms and by what gloo must have sent."""

import json
from pathlib import Path
from statistics import median

import pytest

from gradwire.traces.analysis.analysis import Analysis, analyse, to_json
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.recognise import find_job

SAMPLES = Path(__file__).parents[2] / "traces" / "samples"
S = 340_008


@pytest.fixture(scope="module")
def eight() -> Analysis:
    return analyse(find_job(open_trace([SAMPLES / "ddp_gloo_8"])))


@pytest.fixture(scope="module")
def server() -> Analysis:
    return analyse(find_job(open_trace([SAMPLES / "ps_1srv_4wk"])))


def test_all_ranks_together_send_what_the_collectives_need(eight: Analysis) -> None:
    total = sum(map(sum, eight.matrix_nbytes))
    allgather = 112 * 4
    broadcasts = 7 * (144 + S + 28 + 4)
    assert total == 3 * 14 * S + broadcasts + allgather


def test_a_ring_goes_one_way(eight: Analysis) -> None:
    down = [eight.matrix_nbytes[r][(r - 1) % 8] for r in range(8)]
    assert all(nbytes > 3 * 1.7 * S for nbytes in down)


def test_rates_follow_nccls_definition(eight: Analysis) -> None:
    for transfer in eight.transfers:
        if transfer.kind == "allreduce":
            assert transfer.algbw_Bps == pytest.approx(S / (transfer.time_ns / 1e9))
            assert transfer.busbw_Bps == pytest.approx(2 * 7 / 8 * S / (transfer.time_ns / 1e9))


def test_iterations_add_up(eight: Analysis) -> None:
    assert [i.iteration for i in eight.iterations] == [0, 1, 2]
    assert [i.payload_nbytes for i in eight.iterations] == [14 * S] * 3


@pytest.mark.parametrize("name", ["eight", "server"])
def test_an_iteration_takes_what_the_median_of_the_listed_ones_does(
    name: str, request: pytest.FixtureRequest
) -> None:
    """The summary and the table speak of the same times."""
    analysis: Analysis = request.getfixturevalue(name)
    listed = [one.time_ns for one in analysis.iterations if not one.warm_up]
    assert analysis.shares is not None
    assert analysis.shares.time_ns == median(listed)
    assert (analysis.shares.least_ns, analysis.shares.most_ns) == (min(listed), max(listed))


def test_pushes_and_pulls_are_summed_up(server: Analysis) -> None:
    rows = [(t.iteration, t.kind, t.count, t.nbytes) for t in server.transfers]
    assert rows == [(-1, "pull", 4, 4 * S)] + [
        row for k in range(3) for row in ((k, "push", 4, 4 * S), (k, "pull", 4, 4 * S))
    ]
    assert server.transfers[0].algbw_Bps is None
    assert server.matrix_nbytes[0] == (0, 4 * S, 4 * S, 4 * S, 4 * S)


def test_the_value_goes_through_json(eight: Analysis) -> None:
    value = json.loads(to_json(eight))
    assert value["schema"] == "gradwire.inspect/2"
    assert value["losses"]["retransmitted"] == eight.losses.retransmitted
    assert len(value["files"]) == 8
