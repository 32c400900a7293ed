"""`fabric` and `plan` on the command line: what they print, refuse and leave in files."""

import html
import json
import re
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from gradwire.emu.engines import ns3, simgrid
from gradwire.emu.project import NS3_DRIVER
from gradwire.planning import plan as plans
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.closedform import ClosedTime, Costs, closed_time
from gradwire.planning.model.loads import plan_load
from gradwire.planning.plan import Plan
from gradwire.results import limits, planfigures
from gradwire.results.planfigures import nominal_figures
from gradwire.tools import cli
from gradwire.tools.console import PIPE_COLUMNS
from gradwire.tools.plans.summary import print_summary
from gradwire.traces import workload as workloads
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.schedule import Gate
from tests.documented import documented_fields
from tests.made_plans import MIB, messages, schedule_plan

NBYTES = 2 * MIB  # of either operation of the job
HD_ON_A_TREE = ["--fabric", "fat-tree:k=4,levels=2", "--algorithm", "halving-doubling"]


@pytest.fixture
def job(tmp_path: Path) -> str:
    path = tmp_path / "job.workload.json"
    workloads.save(made_allreduce(8, NBYTES, count=2), path)
    return str(path)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    return int(left.value.code or 0)


def printed_json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_fabrics_are_shown_side_by_side_within_100_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fabric", "fat-tree:k=4", "bigraph:n=8,m=2", "star:hosts=16") == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert max(map(len, lines)) <= 100
    assert "fat-tree:k=4" in lines[0]
    assert "star:hosts=16" in lines[0]
    assert re.search(r"switches +20 +8 +1", shown.out)
    assert shown.err == ""


def test_an_mtu_is_shown_where_it_is_not_ethernets(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fabric", "star:hosts=8") == 0
    assert "MTU" not in capsys.readouterr().out
    assert run("fabric", "star:hosts=8", "star:hosts=8,mtu=9000") == 0
    assert re.search(r"MTU +1500 bytes +9000 bytes", capsys.readouterr().out)


def test_fabrics_with_unequal_hosts_are_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fabric", "fat-tree:k=4", "star:hosts=8", "star:hosts=4") == 0
    assert "note: these have 4, 8 and 16 hosts" in capsys.readouterr().err


def test_a_fabric_that_is_not_full_says_where_its_worst_even_cut_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("fabric", "fat-tree:k=4", "bigraph:n=8,m=4") == 0
    shown = capsys.readouterr().out
    assert re.search(r"worst even cut +1 : 1 +2 : 1", shown)
    assert "bigraph:n=8,m=4: its worst even cut parts upper0..1 lower0..1 from the rest" in shown
    assert "fat-tree:k=4: its" not in shown
    assert run("fabric", "leaf-spine:leaves=3,spines=1,hosts=2") == 0
    assert "parts leaf0 and 1 host of other switches from the rest" in capsys.readouterr().out


def test_a_fabric_that_is_written_as_yaml_is_the_same_fabric(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fabric", "fat-tree:k=4", "--yaml") == 0
    (tmp_path / "lab.yaml").write_text(capsys.readouterr().out)
    assert run("fabric", str(tmp_path / "lab.yaml"), "fat-tree:k=4", "--json") == 0
    ours, known = printed_json(capsys)
    differing = {key for key in known if ours[key] != known[key]}
    assert differing <= {"fabric", "family", "worst_cut_switches"}


def test_a_plan_on_a_fabric_from_a_file_does_not_need_the_file_again(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = tmp_path / "lab.yaml"
    assert run("fabric", "fat-tree:k=4,levels=2", "--yaml") == 0
    lab.write_text(capsys.readouterr().out.replace("name: fat-tree-k4-levels2\n", ""))
    assert run("plan", job, "--fabric", str(lab), "-o", str(tmp_path / "plan.json"), "--json") == 0
    assert printed_json(capsys)["fabric"] == "lab.yaml"
    lab.unlink()
    made = plans.load(tmp_path / "plan.json")
    assert made.fabric.spec == "lab.yaml"
    assert made.fabric.links == parse_fabric("fat-tree:k=4,levels=2").links


def test_a_fabric_as_json_has_the_documented_fields(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fabric", "bigraph:n=4,m=2,rate=50M", "--json") == 0
    (row,) = printed_json(capsys)
    assert set(row) == documented_fields("fabric --json")
    assert row["fabric"] == "bigraph:n=4,m=2,rate=50M"
    assert row["bisection_bps"] == 100_000_000
    assert row["mtu_nbytes"] == 1500


def test_a_fabric_has_the_same_figures_as_a_table_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Four hosts at one switch: half of them send 2 × 50 Mb/s, as much as the cut carries."""
    spec = "star:hosts=4,rate=50M,queue=30KB,mtu=9000"
    assert run("fabric", spec, "--json") == 0
    (row,) = printed_json(capsys)
    assert list(row.items()) == [
        ("fabric", "star:hosts=4,rate=50M,queue=30kB,mtu=9000"),
        ("family", "star"),
        ("hosts", 4),
        ("switches", 1),
        ("switch_ports", 4),
        ("radix", 4),
        ("cables", 4),
        ("inner_cables", 0),
        ("host_rate_bps", 50_000_000),
        ("uplink_rate_bps", None),
        ("bisection_bps", 100_000_000),
        ("bisection_exact", True),
        ("full_bps", 100_000_000),
        ("worst_cut_ratio", 1.0),
        ("worst_cut_switches", row["worst_cut_switches"]),
        ("oversubscription", 1.0),
        ("shortest_paths", [1]),
        ("diameter_switches", 1),
        ("mean_switches", 1.0),
        ("queue_nbytes", 30_000),
        ("delay_ns", 0),
        ("mtu_nbytes", 9000),
    ]
    assert run("fabric", spec) == 0
    shown = [re.split(r"  +", line.strip()) for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert shown[1:] == [
        ["hosts", "4"],
        ["switches", "1"],
        ["switch ports", "4"],
        ["of one switch", "up to 4"],
        ["cables", "4"],
        ["between switches", "0"],
        ["host links", "50 Mb/s"],
        ["switch links", "none"],
        ["oversubscription", "1 : 1"],
        ["bisection", "100 Mb/s"],
        ["of full", "100%"],
        ["worst even cut", "1 : 1"],
        ["shortest paths", "1"],
        ["switches on a path", "up to 1"],
        ["on average", "1"],
        ["MTU", "9000 bytes"],
    ]


def test_a_fabric_is_drawn_into_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fabric", "star:hosts=4", "--svg", str(tmp_path / "star.svg")) == 0
    assert (tmp_path / "star.svg").read_text().startswith("<svg ")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["fat-tree:k=5"], "fabric 'fat-tree:k=5': a fat-tree needs an even k of at least 2, got 5"),
        (["star:hosts=4,rate=0"], "a link needs a rate above 0"),
        (["star:hosts=4", "star:hosts=5", "--svg", "x.svg"], "--svg takes one fabric, got 2"),
        (["star:hosts=4", "star:hosts=5", "--yaml"], "--yaml takes one fabric, got 2"),
        (["star:hosts=4", "--yaml", "--json"], "--yaml and --json cannot be used together"),
        (["/absent/lab.yaml"], "/absent/lab.yaml: No such file or directory"),
        (["star:hosts=4", "--svg", "/absent/x.svg"], "/absent/x.svg: No such file or directory"),
    ],
)
def test_what_fabric_refuses_is_one_line(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fabric", *arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("gradwire: ")
    assert reason in error
    assert error.count("\n") == 1


SEVERAL = ["--fabric", "star:hosts=8", "--algorithm", "ring", "--algorithm", "recursive-doubling"]


def test_several_cells_are_rows_and_the_best_is_named(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of recursive doubling each host sends 3 S, of a ring 14/8 S, and so the bound."""
    page = tmp_path / "plan.html"
    assert (
        run("plan", job, *SEVERAL, "--placement", "linear", "--placement", "hdrm", "--html", str(page)) == 0
    )
    shown = capsys.readouterr().out
    assert re.search(r"ring +linear, ecmp +\d.* 1\.000 +1\.000 +\S+ ×1", shown)
    assert re.search(r"recursive-doubling +linear, ecmp +\d.* 1\.714 +1\.000 +\S+ ×1", shown)
    assert len(re.findall(r"hdrm, ecmp +refused", shown)) == 2
    reason = "placement hdrm works only on a BiGraph"
    refused = " ".join(shown[shown.index("refused: ") : shown.index("Best: ")].split())
    assert refused == (
        f"refused: {reason}, not on a star: ring, hdrm, ecmp on star:hosts=8, recursive-doubling, hdrm, "
        "ecmp on star:hosts=8"
    )
    sentence = " ".join(shown[shown.index("Best: ") : shown.index("report: ")].split())
    assert "Best: ring, linear, ecmp on star:hosts=8" in sentence
    assert "1.71 × as fast as the next, recursive-doubling" in sentence
    assert sentence.endswith("the hosts' own links hold it up now.")
    written = page.read_text()
    for part in (html.escape(sentence, quote=False), "1.714", reason, "recursive-doubling"):
        assert part in written.replace("&#39;", "'")


@pytest.mark.long
def test_json_of_several_cells_has_each_in_full_and_the_answer(
    job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("plan", job, *SEVERAL, "--placement", "linear", "--placement", "hdrm", "--json") == 0
    made = printed_json(capsys)
    assert set(made) == documented_fields("plan --json of several cells")
    assert [cell["refused"] is None for cell in made["cells"]] == [True, False, True, False]
    assert set(made["cells"][0]) == documented_fields("plan --json") | {"refused"}
    assert set(made["cells"][1]) == {"fabric", "algorithm", "placement", "routes", "ranks", "refused"}
    assert made["answer"].startswith("Best: ring, linear")


def test_one_plan_file_cannot_hold_several_plans(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("plan", job, *SEVERAL, "-o", str(tmp_path / "plan.json")) == 1
    error = capsys.readouterr().err
    assert error == (
        "gradwire: --out takes one plan, and these options make 2: choose one, or leave it out\n"
    )
    assert not list(tmp_path.glob("plan.json"))


def test_a_page_shows_one_plan_as_well(job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "plan.html"
    assert run("plan", job, *SEVERAL[:4], "--html", str(page)) == 0
    assert f"report: {page}" in capsys.readouterr().out
    assert "ring, linear, ecmp on star:hosts=8 takes" in page.read_text()


def test_a_plan_is_written_and_shown_again(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"
    assert run("plan", job, *HD_ON_A_TREE, "--seed", "3", "-o", str(path)) == 0
    first = capsys.readouterr().out
    made = plans.load(path)
    assert (made.algorithm, made.routes, made.seed, made.source) == ("halving-doubling", "ecmp", 3, job)
    assert run("plan", str(path)) == 0
    assert capsys.readouterr().out.strip() == first[: first.index("\nplan written")].strip()
    *lines, sentence, _ = first[: first.index("plan written")].splitlines()
    assert max(map(len, lines)) <= 100
    assert sentence.startswith("halving-doubling, linear, ecmp on fat-tree:k=4,levels=2 takes ")


def test_a_plan_shows_its_worst_link_and_the_flows_on_it(
    job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("plan", job, *HD_ON_A_TREE) == 0
    shown = capsys.readouterr().out
    link = re.search(r"worst link +(\S+) +2 flows at once, adds", shown)
    assert link is not None
    assert shown.split("worst links")[1].splitlines()[1].startswith(link[1])
    users, sentence = shown.split(f"flows through {link[1]}\n")[1].split("\n\n")
    flows = users.splitlines()
    assert len(flows) >= 2
    assert f"; link {link[1]} (2 flows at once) holds it up now." in " ".join(sentence.split())
    near, far = link[1].split("→")
    assert all(f" {near} {far}" in flow for flow in flows)


def test_a_plan_says_whether_links_or_gaps_bound_it_and_tells_the_other_figure() -> None:
    """1 MB at 100 Mb/s and 1448 of 1514 bytes: 83.6 ms; the second message is sent 40 ms or 2 s later."""
    fabric = "star:hosts=2,rate=100M"
    links = "the least any fabric could take with these host links"
    for gap_ms, pattern in (
        (0, f"bound +83.6 ms +{links}$"),
        (40, f"bound +83.6 ms +{links}; computing 40 ms$"),
        (2000, "bound +2 s +the longest chain of computing; the host links need 83.6 ms$"),
    ):
        gates = [Gate(1, 0, (0,), gap_ms * 10**6)] if gap_ms else []
        made = schedule_plan(fabric, messages(2, [(0, 1, 500_000), (0, 1, 500_000)], gates))
        shown = StringIO()
        load = plan_load(made)
        print_summary(Console(file=shown, width=PIPE_COLUMNS), made, load, nominal_figures(made, load))
        lines = "\n".join(map(str.rstrip, shown.getvalue().splitlines()))
        assert re.search(pattern, lines, re.MULTILINE), lines
        assert "not in the bound" not in shown.getvalue()


@pytest.mark.long
def test_a_heading_tells_the_rate_of_the_hosts_not_of_the_slowest_cable(
    job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = "leaf-spine:leaves=2,spines=2,hosts=4,rate=100M,uplink_rate=20M"
    assert run("plan", job, "--fabric", spec) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.endswith(" at 100 Mb/s, switch links 20 Mb/s, 8 ranks"), first


def test_a_plan_as_json_has_the_documented_fields(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(
            "plan",
            job,
            "--fabric",
            "bigraph:n=4,m=2",
            "--algorithm",
            "halving-doubling",
            "--placement",
            "hdrm",
            "--routes",
            "direct",
            "--json",
        )
        == 0
    )
    shown = printed_json(capsys)
    assert set(shown) == documented_fields("plan --json")
    assert set(shown["links"][0]) == documented_fields("plan --json: links")
    assert set(shown["flows"][0]) == documented_fields("plan --json: flows")
    assert shown["ratio"] == pytest.approx(1)
    assert shown["collisions"] == 0
    assert shown["worst_link_flows"] == 1


@pytest.mark.parametrize(
    ("engine", "module", "driver"),
    [("simgrid", simgrid, "SIMGRID_DRIVER"), ("packets", ns3, "NS3_DRIVER")],
)
def test_an_engine_that_is_not_set_up_says_what_to_do(
    engine: str,
    module: ModuleType,
    driver: str,
    job: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(module, driver, tmp_path / "absent")
    assert run("plan", job, "--engine", engine) == 1
    option = {"simgrid": "--simgrid", "packets": "--ns3"}[engine]
    assert capsys.readouterr().err.endswith(f" is not set up: run sudo ./gradwire setup {option}\n")


@pytest.mark.long
@pytest.mark.skipif(not NS3_DRIVER.exists(), reason="ns-3 is not set up: ./gradwire setup --ns3")
def test_packets_are_a_line_of_one_plan_and_a_column_of_several(
    job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["plan", job, "--fabric", "star:hosts=8", "--scale-bytes", "1/16", "--engine", "packets"]
    assert run(*options, "--json") == 0
    shown = printed_json(capsys)
    assert 1 < shown["packets_s"] / shown["fluid_s"] < 1.1
    assert (shown["packets_dropped"], shown["packets_resent"], shown["simgrid_s"]) == (0, 0, None)
    assert run(*options) == 0
    assert re.search(r"^ns-3 .* % from that, TCP packet by packet", capsys.readouterr().out, re.MULTILINE)
    assert run(*options, "--algorithm", "ring", "--algorithm", "halving-doubling") == 0
    assert re.search(r" predicted +ns-3 ", capsys.readouterr().out)


def test_sizes_iterations_and_gaps_are_chosen_by_options(
    job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(
            "plan",
            job,
            "--fabric",
            "star:hosts=8",
            "--iteration",
            "1",
            "--scale-bytes",
            "1/8",
            "--compute",
            "none",
            "--json",
        )
        == 0
    )
    shown = printed_json(capsys)
    assert shown["bytes"] == NBYTES // 8
    assert shown["operations"] == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--placement", "hdrm"], "placement hdrm works only on a BiGraph, not on a fat-tree"),
        (["--routes", "direct"], "direct routes work only on a BiGraph"),
        (["--fabric", "star:hosts=4"], "8 ranks need 8 hosts, but star:hosts=4 has 4"),
        (["--algorithm", "magic"], "no algorithm 'magic'"),
        (["--placement", "magic"], "no placement 'magic'"),
        (["--routes", "magic"], "no routing policy 'magic'"),
        (["--iteration", "9"], "nothing to send in iteration"),
        (["--scale-bytes", "0"], "not a factor above 0"),
        (["--algorithm", "ina", "--elements", "2048"], "need an mtu of at least 8244, but "),
        (["-o", "/absent/plan.json"], "there is no folder /absent"),
        (["--engine", "ns3"], "no engine 'ns3'"),
    ],
)
def test_what_plan_refuses_is_one_line(
    job: str, arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("plan", job, *arguments) == 1
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1


@pytest.mark.long
def test_a_job_with_other_ranks_or_buckets_says_what_it_takes_for_granted(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("plan", job, "--fabric", "fat-tree:k=4", "--scale-ranks", "16")
    assert run(*arguments, "--json", "-o", str(tmp_path / "plan.json")) == 0
    shown = printed_json(capsys)
    assert shown["ranks"] == 16
    assert shown["bytes"] == 2 * NBYTES
    (assumption,) = shown["assumptions"]
    assert assumption.startswith(
        "16 ranks for the 8 captured: buffers, buckets and the batch of each rank stay"
    )
    assert plans.load(tmp_path / "plan.json").assumptions == (assumption,)
    assert run("plan", job, "--bucket-size", "768KiB", "--json") == 0
    shown = printed_json(capsys)
    assert (shown["operations"], shown["bytes"]) == (2 * 3, 2 * NBYTES)
    assert shown["assumptions"][0].startswith("buckets of 786,432 bytes: cut where the size says")
    assert run("plan", job, "--scale-ranks", "1000000000") == 1
    assert "gradwire plans jobs of 2 to 16,384 ranks, not of 1,000,000,000" in capsys.readouterr().err


@pytest.mark.parametrize("options", [(), ("--json",), ("--algorithm", "all-pairs", "--json")])
def test_a_plan_works_its_closed_form_out_once(
    options: tuple[str, ...],
    job: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For some algorithms that takes a second."""
    asked: list[Plan] = []

    def counted(plan: Plan, costs: Costs) -> ClosedTime:
        asked.append(plan)
        return closed_time(plan, costs)

    for module in (planfigures, limits):
        monkeypatch.setattr(module, "closed_time", counted)
    assert run("plan", job, "--algorithm", "ring", "--fabric", "star:hosts=8", *options) == 0
    assert len(asked) == 1 + options.count("--algorithm")


@pytest.mark.long
def test_seeds_make_a_span_of_what_is_drawn_at_random(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """On a star with two slow cables a ring is slow if a rank is on one of them; all else is alike."""
    job = tmp_path / "job.workload.json"
    workloads.save(made_allreduce(8, 512 << 10), job)
    fabric = "star:hosts=16,rate=50M,rate@h0=10M,rate@h1=10M"
    words = ["plan", str(job), "--fabric", fabric, "--algorithm", "ring", "--placement", "random"]
    assert run(*words, "--seeds", "0..5", "--json") == 0
    (span,) = printed_json(capsys)["cells"]
    alone = []
    for seed in span["seeds"]:
        assert run(*words, "--seed", str(seed), "--json") == 0
        alone.append(printed_json(capsys)["fluid_s"])
    assert span["seeds"] == list(range(6))
    assert span["fluid_s"] == alone
    assert (span["least_s"], span["most_s"]) == (min(alone), max(alone))
    assert span["least_s"] < span["most_s"]
    assert span["mean_s"] == pytest.approx(sum(alone) / 6)
    assert set(span) == documented_fields("plan --seeds --json: cells")


def test_a_span_is_said_in_the_table_and_the_sentence(capsys: pytest.CaptureFixture[str], job: str) -> None:
    assert (
        run("plan", job, "--fabric", "star:hosts=8", "--algorithm", "ring", "--seeds", "3", "--seeds", "4")
        == 0
    )
    shown = capsys.readouterr().out
    assert re.search(r"planned +least +mean +longest", shown)
    assert "mean of 2 seeds, which take the same." in shown


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--seeds", "x"], "'x' is not a seed: write it like 3 or 0..9"),
        (["--seeds", "0..3", "--seed", "1"], "--seed: it is not with --seeds"),
        (["--seeds", "0..3", "--html", "a.html"], "--html: it is not with --seeds"),
    ],
)
def test_what_cannot_be_with_seeds_is_refused(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str], job: str
) -> None:
    assert run("plan", job, *words) == 1
    assert why in capsys.readouterr().err
