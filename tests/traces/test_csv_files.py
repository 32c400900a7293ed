"""CSV files hold what the analysis holds, and no half-written one stays."""

import csv
from pathlib import Path

import pandas as pd
import pytest

from gradwire.traces.analysis.analysis import analyse
from gradwire.traces.analysis.tables import write_csv
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.recognise import find_job

SAMPLE = Path(__file__).parents[2] / "traces" / "samples" / "ps_1srv_4wk"


def test_every_message_and_every_pair_is_in_the_files(tmp_path: Path) -> None:
    trace = open_trace([SAMPLE])
    analysis = analyse(find_job(trace))
    paths = write_csv(analysis, trace.messages, tmp_path / "new" / "folder")
    tables = {path.stem: list(csv.DictReader(path.read_text().splitlines())) for path in paths}
    assert len(tables["messages"]) == len(trace.messages)
    data = [row for row in tables["messages"] if row["kind"] == "data"]
    assert sum(int(row["nbytes"]) for row in data) == sum(map(sum, analysis.matrix_nbytes))
    assert [int(row["3"]) for row in tables["matrix"]] == [row[3] for row in analysis.matrix_nbytes]
    assert len(tables["transfers"]) == len(analysis.transfers)
    assert len(tables["iterations"]) == 3


def test_pandas_reads_the_messages_as_they_were(tmp_path: Path) -> None:
    trace = open_trace([SAMPLE])
    write_csv(analyse(find_job(trace)), trace.messages, tmp_path)
    table = pd.read_csv(tmp_path / "messages.csv")
    data = table[(table["kind"] == "data") & table["whole"]]
    sent = data.groupby(["src", "dst"])["nbytes"].sum()
    matrix = pd.read_csv(tmp_path / "matrix.csv", index_col="src")
    assert {pair: int(nbytes) for pair, nbytes in sent.items()} == {
        (int(str(src)), int(str(dst))): int(nbytes)
        for dst, column in matrix.items()
        for src, nbytes in column.items()
        if nbytes
    }
    times = table[["first_ns", "last_ns", "received_ns"]]
    assert set(times.dtypes.astype(str)) == {"int64"}  # floats would round to hundreds of ns


def test_a_folder_that_cannot_be_made_is_an_os_error(tmp_path: Path) -> None:
    trace = open_trace([SAMPLE])
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        write_csv(analyse(find_job(trace)), trace.messages, tmp_path / "file")


def test_pandas_reads_flows_rates_and_spans_as_they_were(tmp_path: Path) -> None:
    trace = open_trace([SAMPLE])
    analysis = analyse(find_job(trace))
    write_csv(analysis, trace.messages, tmp_path)
    flows = pd.read_csv(tmp_path / "flows.csv")
    assert flows["payload_nbytes"].tolist() == [flow.payload_nbytes for flow in analysis.flows]
    assert flows["rtt_ns_p50"].dropna().tolist() == [f.rtt_ns.p50 for f in analysis.flows if f.rtt_ns]
    rates = pd.read_csv(tmp_path / "rates.csv")
    assert rates["bps"].sum() == pytest.approx(sum(sum(one.bps) for one in analysis.rates))
    spans = pd.read_csv(tmp_path / "spans.csv")
    exposures = pd.read_csv(tmp_path / "exposures.csv")
    exposed = spans[spans["kind"] == "communication"]
    assert (exposed["end_ns"] - exposed["start_ns"]).sum() == exposures["exposed_ns"].sum()


def test_all_tables_have_one_time_base_which_the_files_name(tmp_path: Path) -> None:
    """The first message begins at 0, and a flow no later than the first message from its rank."""
    trace = open_trace([SAMPLE])
    analysis = analyse(find_job(trace))
    write_csv(analysis, trace.messages, tmp_path)
    files, messages, flows = (
        pd.read_csv(tmp_path / f"{name}.csv") for name in ("files", "messages", "flows")
    )
    assert files["origin_ns"].tolist() == [analysis.origin_ns] * len(analysis.files)
    assert (files["origin_ns"] + files["first_ns"]).tolist() == [file.first_ns for file in analysis.files]
    assert (analysis.origin_ns + messages["first_ns"]).tolist() == trace.messages.first_ns.tolist()
    training = flows[flows["training"] & (flows["payload_nbytes"] > 0)]
    first_ns = messages.groupby("src")["first_ns"].min()
    begun_ns = training.groupby("src_rank")["start_ns"].min()
    assert (begun_ns <= first_ns[begun_ns.index]).all()
    assert first_ns.min() == 0
