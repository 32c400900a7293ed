"""What `bench` refuses before anything is run, and what it makes of its options."""

import re
from pathlib import Path

import pytest

from gradwire.planning.plan import Plan
from gradwire.results.row import REFUSED, Row
from gradwire.tools import cli
from gradwire.tools.work import bench
from gradwire.traces.schedules.names import BY_COLLECTIVE, DEFAULTS

FABRIC = ("--fabric", "leaf-spine:leaves=2,spines=1,hosts=2")


@pytest.fixture
def todo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Plan | Row]:
    """What a command would carry out."""
    asked: list[Plan | Row] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench, "need_root_and_tools", lambda *_: None)
    monkeypatch.setattr(bench, "carry_out", lambda work, *_, **__: asked.extend(work))
    monkeypatch.setattr(bench, "show", lambda *_, **__: None)
    return asked


def gradwire(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    assert isinstance(left.value.code, int)
    return left.value.code


@pytest.mark.parametrize("collective", BY_COLLECTIVE)
def test_a_collective_is_done_by_its_default_algorithm(collective: str, todo: list[Plan | Row]) -> None:
    assert gradwire("bench", collective, "-b", "4KiB", *FABRIC) == 0
    (plan,) = todo
    assert isinstance(plan, Plan)
    assert [(op.kind, op.nbytes) for op in plan.schedule.ops] == [(collective, 4096)]


def test_algorithms_of_other_collectives_and_other_ranks_are_rows_with_what_would_do(
    todo: list[Plan | Row],
) -> None:
    names = ("ring", "halving-doubling", "tree:chain", "hierarchical")
    options = [word for name in names for word in ("--algorithm", name)]
    assert gradwire("bench", "allgather", "-b", "4KiB", "--ranks", "3", *options, *FABRIC) == 0
    assert [isinstance(one, Plan) for one in todo] == [True, False, False, False]
    reasons = [one.reasons[0] for one in todo if isinstance(one, Row) and one.verdict == REFUSED]
    assert "half of halving-doubling needs a power of two ranks, got 3; choose ring" in reasons[0]
    assert "tree:chain does allreduce, broadcast and reduce, not allgather; choose from ring," in reasons[1]
    assert "a hierarchy needs at least 2 first switches with the same number of ranks each" in reasons[2]
    assert "choose ring" in reasons[2]


def test_switches_do_no_alltoall_and_blocks_of_no_byte_are_not_sent(
    capsys: pytest.CaptureFixture[str], todo: list[Plan | Row]
) -> None:
    assert gradwire("bench", "alltoall", "--ina", "on", *FABRIC) == 1
    assert "ina does allreduce, not alltoall; choose from pairwise, bruck" in capsys.readouterr().err
    small = ("bench", "alltoall", "-b", "4", "-e", "16", "-f", "4", "--fabric", "star:hosts=5")
    assert gradwire(*small) == 0
    refused, plan = todo
    assert isinstance(plan, Plan)
    assert isinstance(refused, Row)
    assert "nothing is sent: choose a larger size" in refused.reasons[0]


def test_uneven_blocks_are_those_of_the_table(tmp_path: Path, todo: list[Plan | Row]) -> None:
    table = tmp_path / "sizes.csv"
    table.write_text("0,100,0\n7,0,9\n50,60,0\n")
    two = ("--algorithm", "pairwise", "--algorithm", "bruck")
    assert gradwire("bench", "alltoall", "--sizes", str(table), *two, *FABRIC) == 0
    plan, refused = todo
    assert isinstance(plan, Plan)
    sent = {(send.src, send.dst): send.nbytes for send in plan.schedule.sends}
    assert sent == {(0, 1): 100, (1, 0): 7, (1, 2): 9, (2, 0): 50, (2, 1): 60}
    assert isinstance(refused, Row)
    assert "for uneven ones choose pairwise" in refused.reasons[0]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("alltoall", "-b", "1MiB"), "--begin: the sizes are in "),
        (("alltoall", "-f", "3"), "--factor: the sizes are in "),
        (("allgather",), "allgather has no blocks of several sizes; only an alltoall has"),
        (("alltoall", "--ranks", "4"), "is a table of 2 ranks; leave --ranks out"),
        (("alltoall", "--ranks", "2", "--jobs", "3"), "6 ranks need 6 hosts"),
        (("allgahter",), "there is no collective 'allgahter' (did you mean allgather?); choose from"),
    ],
)
def test_what_does_not_go_with_a_table_is_refused_in_one_line(
    arguments: tuple[str, ...],
    reason: str,
    tmp_path: Path,
    todo: list[Plan | Row],
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = tmp_path / "sizes.json"
    table.write_text("[[0, 1], [2, 0]]")
    assert gradwire("bench", *arguments, "--sizes", str(table), *FABRIC) == 1
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1
    assert not todo


def test_the_help_names_the_algorithms_of_every_collective(capsys: pytest.CaptureFixture[str]) -> None:
    gradwire("bench", "--help")
    shown = " ".join(capsys.readouterr().out.split())
    shown = shown[shown.index("Arguments") : shown.index(" Options")]
    assert "allreduce: all algorithms below but pairwise and bruck; default ring" in shown
    for kind, names in BY_COLLECTIVE.items():
        if kind != "allreduce":
            listed = re.search(rf"\b{kind}\b[\w ]*: (.*?)(?= \w+(?: and \w+)?: |$)", shown)
            assert listed is not None
            assert listed[1].replace(f"{DEFAULTS[kind]} (default)", DEFAULTS[kind]).split(", ") == list(names)


def sizes_of(todo: list[Plan | Row]) -> list[int]:
    return [plan.schedule.ops[0].nbytes for plan in todo if isinstance(plan, Plan)]


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        # nccl-tests reads K, M and G as powers of two (parsesize in src/common.cu).
        ("-b 1K -e 4K -f 2", [1024, 2048, 4096]),
        ("--minbytes 1k --maxbytes 2K", [1024, 2048]),
        ("-b 0.5M", [1 << 19]),
        ("-b 4KiB", [4096]),
        ("-b 8 -e 32 -i 8", [8, 16, 24, 32]),
        ("-b 1K -e 3K --stepbytes 1K", [1024, 2048, 3072]),
    ],
)
def test_sizes_are_those_that_nccl_tests_would_measure(
    options: str, sizes: list[int], todo: list[Plan | Row]
) -> None:
    assert gradwire("bench", "allreduce", *options.split(), *FABRIC) == 0
    assert sizes_of(todo) == sizes


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        ("all_reduce_perf", "allreduce"),
        ("all_gather", "allgather"),
        ("reduce_scatter_perf", "reducescatter"),
        ("alltoall_perf", "alltoall"),
        ("broadcast_perf", "broadcast"),
        ("reduce_perf", "reduce"),
    ],
)
def test_the_programs_of_nccl_tests_name_collectives(program: str, kind: str, todo: list[Plan | Row]) -> None:
    assert gradwire("bench", program, "-b", "4KiB", *FABRIC) == 0
    (plan,) = todo
    assert isinstance(plan, Plan)
    assert plan.schedule.ops[0].kind == kind


def test_a_data_type_of_nccl_is_what_is_sent(todo: list[Plan | Row]) -> None:
    assert gradwire("bench", "allreduce", "-b", "4KiB", "-d", "half", *FABRIC) == 0
    (plan,) = todo
    assert isinstance(plan, Plan)
    (op,) = plan.schedule.ops
    assert (op.dtype, op.nbytes) == ("float16", 4096)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("sendrecv_perf", "gradwire has no sendrecv; it has allreduce,"),
        ("allreduce -o max", "--op max: gradwire only sums"),
        ("allreduce -c 0", "-c 0: every run is checked"),
        ("allreduce -d double", "there is no data type 'double'"),
        ("allreduce -d half --wire bfloat16", "--datatype half and --wire bfloat16 differ"),
        ("allreduce -b 64kB", "'64kB' counts by 1,024 in nccl-tests, by 1,000 in gradwire: write 64kiB"),
        ("allreduce -f 2 -i 8", "-f and -i cannot be used together"),
        ("allreduce -b 4 -e 1M -i 4", "more than 1,000 sizes: give a larger --step"),
        ("allreduce -b 4 -e 8 -i 0", "--step 0: a step is at least 4 bytes"),
        ("allreduce -b 8 -e 4", "--end of 4 bytes is less than --begin of 8: swap them"),
        ("allreduce -b 8GiB", "sizes go from 4 bytes to 4 GiB; got 8,589,934,592 to 8,589,934,592 bytes"),
        ("allreduce -J nowhere/out.json", "--output-file nowhere/out.json: there is no folder"),
    ],
)
def test_what_nccl_tests_has_and_gradwire_has_not_is_refused_in_words(
    words: str, line: str, capsys: pytest.CaptureFixture[str], todo: list[Plan | Row]
) -> None:
    assert gradwire("bench", *words.split(), *FABRIC) == 1
    assert line in capsys.readouterr().err
    assert todo == []
