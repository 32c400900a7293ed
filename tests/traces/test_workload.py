"""Workload files: written whole, checked when read."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from gradwire.traces import workload as workloads
from gradwire.traces.making.collectives import made_allreduce, made_collective, made_uneven_alltoall
from gradwire.traces.schedules.kinds import CollectiveKind
from gradwire.traces.schedules.names import BY_COLLECTIVE
from gradwire.traces.workload import BadWorkload, Collective, Message, Start, Workload


def one_message(rest: str) -> str:
    head = '{"schema": "gradwire.workload/2", "framing": "gloo", "n_ranks": 2, "items": [{"kind": "message", '
    return f'{head}"src": 0, {rest}}}]}}'


def test_one_good_message_is_read(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text(one_message('"dst": 1, "nbytes": 1, "start": {"rank": 0}'))
    assert len(workloads.load(tmp_path / "w.json").items) == 1


def test_a_message_may_be_received_after_a_later_one(tmp_path: Path) -> None:
    one, two = (Message(src=0, dst=1, nbytes=8, start=Start(rank=0)) for _ in range(2))
    items = (one.model_copy(update={"ready": Start(rank=1, after=(1,))}), two)
    made = Workload(schema="gradwire.workload/2", framing="gloo", n_ranks=2, items=items)
    workloads.save(made, tmp_path / "w.json")
    assert workloads.load(tmp_path / "w.json") == made


def test_a_workload_comes_back_from_its_file(tmp_path: Path) -> None:
    made = made_allreduce(4, 4000, count=3)
    workloads.save(made, tmp_path / "w.json")
    assert workloads.load(tmp_path / "w.json") == made
    assert [p.name for p in tmp_path.iterdir()] == ["w.json"]


@pytest.mark.parametrize("kind", BY_COLLECTIVE)
def test_every_collective_comes_back_from_a_file(kind: CollectiveKind, tmp_path: Path) -> None:
    made = made_collective(kind, 4, 4000, count=2)
    workloads.save(made, tmp_path / "w.json")
    assert workloads.load(tmp_path / "w.json") == made


def test_an_uneven_alltoall_comes_back_and_its_bytes_are_the_most_that_a_rank_has_or_gets(
    tmp_path: Path,
) -> None:
    made = made_uneven_alltoall(((1, 2, 3), (0, 0, 9), (5, 0, 0)))
    assert [item.nbytes for item in made.items if isinstance(item, Collective)] == [12]
    workloads.save(made, tmp_path / "w.json")
    assert workloads.load(tmp_path / "w.json") == made


def test_a_rank_that_starts_a_collective_twice_is_refused(tmp_path: Path) -> None:
    (item,) = made_allreduce(3, 4).items
    twice = {"starts": (Start(rank=2), Start(rank=1), Start(rank=1))}
    made = made_allreduce(3, 4).model_copy(update={"items": (item.model_copy(update=twice),)})
    workloads.save(made, tmp_path / "w.json")
    with pytest.raises(BadWorkload, match="item 0: rank 1 has more than one start; give it one"):
        workloads.load(tmp_path / "w.json")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"kind": "allgather"}, "item 0 has sizes of blocks, but allgather has none"),
        ({"sizes": ((1, 2), (3, 4), (5, 6))}, "item 0 needs sizes from each of 2 ranks to each"),
        ({"sizes": ((1, 2), (3,))}, "item 0 needs sizes from each of 2 ranks to each"),
        ({"nbytes": 6}, "item 0: with its sizes nbytes must be 7"),
    ],
)
def test_sizes_that_are_not_of_the_ranks_are_refused(
    fields: dict[str, object], reason: str, tmp_path: Path
) -> None:
    (item,) = made_uneven_alltoall(((1, 2), (3, 4))).items
    made = made_allreduce(2, 4).model_copy(update={"items": (item.model_copy(update=fields),)})
    workloads.save(made, tmp_path / "w.json")
    with pytest.raises(BadWorkload, match=reason):
        workloads.load(tmp_path / "w.json")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": "gradwire.else/2", "framing": "gloo", "n_ranks": 2, "items": []}',
        '{"schema": "gradwire.workload/2", "framing": "gloo", "n_ranks": 99999, "items": []}',
        one_message('"dst": 5, "nbytes": 1, "start": {"rank": 0}'),
        one_message('"dst": 1, "nbytes": 1, "start": {"rank": 0, "after": [0]}'),
        one_message('"dst": 1, "nbytes": -1, "start": {"rank": 0}'),
        one_message('"dst": 1, "nbytes": 1, "start": {"rank": 0, "a\\nb": 1}'),
        one_message(f'"dst": 1, "nbytes": 1, "start": {{"rank": 0, "{2000 * "x"}": 1}}'),
        one_message('"dst": 1, "nbytes": 1, "start": {"rank": 1}'),
        one_message('"dst": 1, "nbytes": 1, "start": {"rank": 0}, "ready": {"rank": 0}'),
        one_message('"dst": 1, "nbytes": 1, "start": {"rank": 0}, "ready": {"rank": 1, "after": [0]}'),
        one_message('"dst": 1, "nbytes": 1, "start": {"rank": 0}, "ready": {"rank": 1, "after": [1]}'),
    ],
)
def test_a_file_that_is_no_workload_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text(text)
    with pytest.raises(BadWorkload, match=r"w\.json: not a workload") as refusal:
        workloads.load(tmp_path / "w.json")
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 200 + len(str(tmp_path))


def test_a_file_from_before_computing_was_an_item_is_refused_with_what_to_do(tmp_path: Path) -> None:
    old = '{"kind": "message", "src": 0, "dst": 1, "nbytes": 1, "start": {"rank": 0, "gap_ns": 7}}'
    path = tmp_path / "old.workload.json"
    path.write_text(
        '{"schema": "gradwire.workload/1", "framing": "gloo", "n_ranks": 2, "items": [' + old + "]}"
    )
    with pytest.raises(BadWorkload, match=r"an older gradwire wrote;.*make it again.*gradwire extract"):
        workloads.load(path)


def computing(*items: str) -> str:
    head = '{"schema": "gradwire.workload/2", "framing": "gloo", "n_ranks": 2, "items": ['
    return head + ", ".join(items) + "]}"


COMPUTE = '{"kind": "compute", "start": {"rank": 0}, "duration_ns": 5%s}'
AFTER_IT = '{"kind": "message", "src": %d, "dst": %d, "nbytes": 1, "start": {"rank": %d, "after": [0]}}'


def test_a_rank_waits_for_what_it_computes_itself_and_for_nobody_elses(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text(computing(COMPUTE % "", AFTER_IT % (0, 1, 0)))
    assert [item.kind for item in workloads.load(path).items] == ["compute", "message"]
    path.write_text(computing(COMPUTE % "", AFTER_IT % (1, 0, 1)))
    with pytest.raises(BadWorkload, match="item 1: rank 1 cannot wait for what rank 0 computes"):
        workloads.load(path)


@pytest.mark.parametrize("limits", [', "least_ns": 7', ', "most_ns": 7', ', "least_ns": 7, "most_ns": 6'])
def test_half_a_range_is_none(limits: str, tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text(computing(COMPUTE % limits))
    with pytest.raises(BadWorkload, match="item 0: least_ns and most_ns do not make a range"):
        workloads.load(path)


def test_a_file_from_before_there_was_a_taxonomy_is_read(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text(computing(COMPUTE % ""))
    taxonomy = workloads.load(path).taxonomy
    assert str(taxonomy) == "parallelism, optimisation, scheduling, pattern unknown"


@pytest.mark.parametrize("words", ['"scheduling": "bounded"', '"scheduling": "synchronous", "staleness": 2'])
def test_a_bound_and_a_bounded_scheduling_go_together(words: str, tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text(computing(COMPUTE % "").replace('"items"', f'"taxonomy": {{{words}}}, "items"'))
    with pytest.raises(BadWorkload, match="a bounded scheduling has a staleness, and no other has one"):
        workloads.load(path)


def test_ranks_begin_late_all_or_none() -> None:
    made = made_allreduce(3, 100).model_dump(by_alias=True)
    assert Workload.model_validate({**made, "late_ns": (0, 5, 0)}).late_ns == (0, 5, 0)
    with pytest.raises(ValidationError, match="late_ns is of 2 ranks, and the job has 3"):
        Workload.model_validate({**made, "late_ns": (0, 5)})
    with pytest.raises(ValidationError):
        Workload.model_validate({**made, "late_ns": (0, -5, 0)})
