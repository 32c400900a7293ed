"""Many short connections in one file."""

from pathlib import Path

import pytest

from gradwire.benchmarks.connections import ANSWER_NBYTES, PACKETS, REQUEST_NBYTES, write_connections
from gradwire.traces.analysis.analysis import analyse_trace
from gradwire.traces.reader import open_captures


@pytest.mark.parametrize("n_connections", [1, 300])
def test_every_connection_is_two_flows_of_what_each_side_sent(tmp_path: Path, n_connections: int) -> None:
    path = tmp_path / "many.pcap"
    assert write_connections(path, n_connections) == n_connections * len(PACKETS)
    analysis, _ = analyse_trace(open_captures([path]))
    asked = [flow for flow in analysis.flows if flow.dst == "10.0.0.1"]
    answered = [flow for flow in analysis.flows if flow.src == "10.0.0.1"]
    assert len({(flow.src, flow.sport) for flow in asked}) == len(asked) == n_connections
    assert len({(flow.dst, flow.dport) for flow in answered}) == len(answered) == n_connections
    assert {(flow.payload_nbytes, flow.packets, flow.duration_ns) for flow in asked} == {
        (REQUEST_NBYTES, 4, 0)
    }
    assert {(flow.payload_nbytes, flow.packets) for flow in answered} == {(ANSWER_NBYTES, 3)}


def test_the_server_acknowledges_one_step_after_a_request(tmp_path: Path) -> None:
    write_connections(tmp_path / "few.pcap", 3)
    analysis, _ = analyse_trace(open_captures([tmp_path / "few.pcap"]))
    assert [flow.rtt_ns.p50 for flow in analysis.flows if flow.rtt_ns] == [20_000] * 6
