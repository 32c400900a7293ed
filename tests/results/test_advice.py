"""Savings are those of closed forms; what cannot be known is refused; the commands are ones that exist."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gradwire.planning.capturefabric import capture_fabric, rates_of
from gradwire.planning.experiment import Experiment, cells
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.fabricdocument import fabric_of
from gradwire.planning.fabrics.fabricwriter import document_of
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.expected import MODEL_ERROR
from gradwire.planning.plan import Plan
from gradwire.planning.transport import payload_efficiency
from gradwire.results.advice import BEGAN_LATE, COMPANY, MOST_LOCKED, NETWORK, Advice, Proposal, advise
from gradwire.results.laboratory import planned
from gradwire.tools.cli import main
from gradwire.tools.inspection.page import page
from gradwire.tools.options.common import parse_iterations, parse_slow
from gradwire.traces.analysis.analysis import Analysis, analyse
from gradwire.traces.analysis.bottleneck import JobBound
from gradwire.traces.analysis.exposure import Exposure
from gradwire.traces.analysis.shares import shares
from gradwire.traces.analysis.transfers import Iteration
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.recognise import find_job, workload_of
from gradwire.traces.schedules.straggling import straggling
from gradwire.traces.units import show_s
from gradwire.traces.workload import SCHEMA, Collective, Compute, Item, Start, Workload
from tests.commandlines import options_of
from tests.made_analysis import MS, made_analysis
from tests.made_servers import first_come_job

SAMPLES = Path(__file__).parents[2] / "traces" / "samples"
BOUNDED = ("slow_ddp_8_mlp_star100M", "slow_ddp_8_mlp_leafspine50M", "slow_ps_2srv_4wk_star20M")
RATE_BPS = 50_000_000
NBYTES = 4 << 20
GAP_NS = 20 * MS
STAR = parse_fabric("star:hosts=8,rate=50M")
NOTHING = "no link bounded it: no rate that a link would set was held"


def ring_ns(rate_bps: float, n_ranks: int = 8) -> float:
    """An allreduce of NBYTES by a ring, alone on links of this rate: 2(p-1)/p S over the payload's rate."""
    return 2 * (n_ranks - 1) / n_ranks * NBYTES * 8e9 / (rate_bps * payload_efficiency(1500))


def ring_job(slow: Mapping[int, int] | None = None, gap_ns: int = GAP_NS) -> Workload:
    """Five iterations of one allreduce after a gap, longer by these factors at the ranks in `slow`."""
    items: list[Item] = []
    for iteration in range(5):
        first = len(items)
        for rank in range(8):
            start = Start(rank=rank, after=(first - 1,) if iteration else ())
            items.append(Compute(start=start, duration_ns=gap_ns, iteration=iteration))
        starts = tuple(Start(rank=rank, after=(first + rank,)) for rank in range(8))
        items.append(
            Collective(kind="allreduce", tag=iteration, nbytes=NBYTES, iteration=iteration, starts=starts)
        )
    made = Workload(schema=SCHEMA, framing="none", n_ranks=8, items=tuple(items))
    return straggling(made, {r: Fraction(f) for r, f in (slow or {}).items()})


def seen(communication_ns: float, slow: Mapping[int, int] | None = None, gap_ns: int = GAP_NS) -> Analysis:
    """What `inspect` finds of that job where an allreduce takes so long."""
    longest_ns = gap_ns * max((slow or {0: 1}).values())
    time_ns = round(longest_ns + communication_ns)
    exposures = []
    for iteration in range(5):
        for rank in range(8):
            compute_ns = gap_ns * (slow or {}).get(rank, 1)
            exposed_ns = round(communication_ns)
            wait_ns = time_ns - compute_ns - exposed_ns
            exposures.append(Exposure(iteration, rank, time_ns, compute_ns, exposed_ns, 0, wait_ns, None))
    return replace(
        made_analysis(),
        addresses=tuple(f"10.0.0.{rank + 1}" for rank in range(8)),
        exposures=tuple(exposures),
        iterations=tuple(Iteration(n, n * time_ns, time_ns, 1, 1, gap_ns, warm_up=False) for n in range(5)),
        shares=shares(exposures, 0),
        job_bound=JobBound("link", RATE_BPS * 1.003, 0.01, "10.0.0.1", 0.9, "a link bounded it"),
    )


def advice(analysis: Analysis, workload: Workload, fabric: Fabric | None = STAR) -> Advice:
    made = advise(analysis, lambda: workload, fabric, ["trace"])
    assert made is not None
    return made


def of_kind(made: Advice, kind: str) -> list[Proposal]:
    return [change for change in made.changes if change.kind == kind]


@cache
def sampled(name: str) -> tuple[Analysis, Workload, Fabric | None]:
    folder = SAMPLES / name
    job, fabric = find_job(open_trace([folder])), capture_fabric([folder])
    return analyse(job, None, rates_of(fabric) if fabric else None), workload_of(job), fabric


def of_sample(name: str) -> Advice:
    analysis, workload, fabric = sampled(name)
    made = advise(analysis, lambda: workload, fabric, [str(SAMPLES / name)])
    assert made is not None
    return made


@pytest.mark.parametrize("fabric", [STAR, None])
def test_links_twice_as_fast_save_half_of_the_communication(fabric: Fabric | None) -> None:
    made = advice(seen(ring_ns(RATE_BPS)), ring_job(), fabric)
    (change,) = of_kind(made, "link")
    assert change.saved_ns == pytest.approx(ring_ns(RATE_BPS) / 2, rel=0.01)
    assert change.time_ns == pytest.approx(GAP_NS + ring_ns(2 * RATE_BPS), rel=0.01)
    assert change.saved_share == pytest.approx(change.saved_ns / made.time_ns)
    assert ("assumed" in made.summary) == (fabric is None)


def test_what_the_model_leaves_out_of_an_iteration_stays() -> None:
    """Hosts took 60 ms an iteration besides what bytes take on the links."""
    extra_ns = 60 * MS
    made = advice(seen(ring_ns(RATE_BPS) + extra_ns), ring_job())
    (change,) = of_kind(made, "link")
    assert change.time_ns == pytest.approx(GAP_NS + extra_ns + ring_ns(2 * RATE_BPS), rel=0.01)


def test_of_a_model_that_takes_too_long_savings_are_scaled_down() -> None:
    made = advice(seen(0.9 * ring_ns(RATE_BPS), gap_ns=0), ring_job(gap_ns=0))
    (change,) = of_kind(made, "link")
    assert change.saved_share == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize("fabric", [STAR, None])
@pytest.mark.parametrize("bound", ["link", "none"])
def test_a_slow_rank_brought_back_saves_its_excess(fabric: Fabric | None, bound: Any) -> None:
    slow = {2: 2}
    analysis = seen(ring_ns(RATE_BPS), slow)
    analysis = replace(analysis, job_bound=replace(analysis.job_bound, bound=bound, evidence=NOTHING))
    made = advice(analysis, ring_job(slow), fabric)
    (change,) = of_kind(made, "rank")
    assert change.saved_ns == pytest.approx(GAP_NS, rel=0.01)
    assert "rank 2 " in change.what
    assert change.command.endswith("--slow 2=0.5")


def test_the_saving_of_faster_links_is_known_to_the_models_error() -> None:
    made = advice(seen(ring_ns(RATE_BPS)), ring_job())
    (change,) = of_kind(made, "link")
    half_ns = ring_ns(RATE_BPS) / 2
    assert change.saved_low_ns == pytest.approx((1 - MODEL_ERROR) * half_ns, rel=0.01)
    assert change.saved_high_ns == pytest.approx((1 + MODEL_ERROR) * half_ns, rel=0.01)
    assert not any("ready to send" in sentence for sentence in made.not_said)


def test_a_saving_that_depends_on_when_ranks_were_ready_is_a_range() -> None:
    """All compute 20 to 30 ms, rank 2 twice as long: 20 to 30 ms are saved, known to 7 %."""
    open_job = ring_job()
    items = [
        item.model_copy(update={"least_ns": GAP_NS, "most_ns": GAP_NS * 3 // 2})
        if isinstance(item, Compute)
        else item
        for item in open_job.items
    ]
    workload = straggling(open_job.model_copy(update={"items": tuple(items)}), {2: Fraction(2)})
    made = advice(seen(ring_ns(RATE_BPS), {2: 2}), workload)
    (change,) = of_kind(made, "rank")
    assert change.saved_ns == pytest.approx(GAP_NS, rel=0.01)
    assert change.saved_low_ns == pytest.approx((1 - MODEL_ERROR) * GAP_NS, rel=0.01)
    assert change.saved_high_ns == pytest.approx((1 + MODEL_ERROR) * 1.5 * GAP_NS, rel=0.01)
    early, late = (show_s((gap_ns + ring_ns(RATE_BPS)) / 1e9) for gap_ns in (2 * GAP_NS, 3 * GAP_NS))
    said = f"by the model an iteration takes {early} if as early as possible, {late} if as late"
    assert f"The capture does not show when ranks were ready to send: {said}" in made.not_said


@pytest.mark.parametrize(("uplink_mbps", "known"), [(47, False), (43, True)])
def test_a_saving_of_another_fabric_that_is_less_than_its_error_is_not_advised(
    uplink_mbps: int, known: bool
) -> None:
    """A star saves 6 % or 14 % of what the ring takes on the uplinks; its own time is known to 7 %."""
    spec = f"leaf-spine:leaves=4,spines=1,hosts=2,rate=50M,uplink_rate={uplink_mbps}M"
    analysis = seen(ring_ns(uplink_mbps * 1e6), gap_ns=0)
    made = advice(analysis, ring_job(gap_ns=0), parse_fabric(spec))
    stars = [change for change in of_kind(made, "fabric") if "a star" in change.what]
    assert len(stars) == known
    doubted = [line for line in made.not_said if line.startswith("Whether this helps is not known: a star")]
    assert len(doubted) == (not known)
    if known:
        saved_ns, error_ns = ring_ns(43e6) - ring_ns(50e6), MODEL_ERROR * ring_ns(50e6)
        assert stars[0].saved_low_ns == pytest.approx(saved_ns - error_ns, rel=0.02)
        assert stars[0].saved_high_ns == pytest.approx(saved_ns + error_ns, rel=0.02)


def test_a_rank_that_is_last_by_chance_is_not_named() -> None:
    """Another one computes longest in each iteration."""
    analysis = seen(ring_ns(RATE_BPS))
    exposures = tuple(
        replace(one, compute_ns=one.compute_ns + 10 * MS * (one.rank == one.iteration))
        for one in analysis.exposures
    )
    made = advice(replace(analysis, exposures=exposures), ring_job())
    assert not of_kind(made, "rank")
    assert (
        "A late rank is not among the changes: no rank computes longest in most iterations" in made.not_said
    )


def test_switches_that_add_up_save_what_was_measured_of_them() -> None:
    """0.58 to 0.60 of a ring's time with 8 ranks (docs/benchmarks.md)."""
    made = advice(seen(ring_ns(RATE_BPS), gap_ns=0), ring_job(gap_ns=0))
    (change,) = of_kind(made, "algorithm")
    assert 0.56 <= 1 - change.saved_share <= 0.60


def test_uplinks_that_are_shared_by_two_rings_steps_are_what_is_doubled() -> None:
    """Every step of a ring crosses an uplink of half the rate: twice as fast, or a star, saves half."""
    fabric = parse_fabric("leaf-spine:leaves=4,spines=1,hosts=2,rate=50M,uplink_rate=25M")
    analysis = seen(ring_ns(RATE_BPS / 2), gap_ns=0)
    bound = JobBound("link", 25.1e6, 0.01, "10.0.0.1", 0.9, "a link bounded it")
    made = advice(replace(analysis, job_bound=bound), ring_job(gap_ns=0), fabric)
    (link,) = of_kind(made, "link")
    assert link.what == "the links between switches twice as fast: 50 Mb/s"
    assert link.saved_share == pytest.approx(0.5, rel=0.02)
    stars = [change for change in of_kind(made, "fabric") if "a star" in change.what]
    assert [change.saved_share for change in stars] == pytest.approx([0.5], rel=0.02)
    assert [one.saved_ns for one in made.changes] == sorted((c.saved_ns for c in made.changes), reverse=True)


def with_set_up(job: Workload) -> Workload:
    """The job with what its first worker computed first as part of the set-up."""
    return job.model_copy(
        update={"items": (job.items[0].model_copy(update={"iteration": -1}), *job.items[1:])}
    )


def of_servers(n_iterations: int, time_ns: int, slow_first: int = 0) -> Analysis:
    """Of a job of asynchronous servers: iterations of this time, the first two warm-up, some more slow."""
    iterations = tuple(
        Iteration(n, n * time_ns, time_ns * (2 if n < slow_first else 1), 4, 4, 0, warm_up=n < 2)
        for n in range(n_iterations)
    )
    exposures = [Exposure(n, 0, time_ns, 0, time_ns, 0, 0, None) for n in range(n_iterations)]
    return replace(seen(0.4 * time_ns), iterations=iterations, shares=shares(exposures, 2))


def test_asynchronous_servers_are_modelled_from_the_first_iteration_on() -> None:
    """One server takes two workers in turn: a push, 3 ms, an answer, and again.  Twice as fast, links save
    half of a push and half of an answer of both.  (Sockets hold a hundredth of a push meanwhile.)
    """
    job = with_set_up(first_come_job([[1000, 1000, *[5] * 18]] * 2, 3, NBYTES)[0])
    message_ns = NBYTES * 8e9 / (RATE_BPS * payload_efficiency(1500))
    time_ns = round(2 * (2 * message_ns + 3 * MS))
    star = parse_fabric("star:hosts=3,rate=50M")
    made = advice(of_servers(20, time_ns), job, star)
    assert made.iterations == tuple(range(MOST_LOCKED))
    assert made.model_ns == pytest.approx(time_ns, rel=0.02)
    (change,) = of_kind(made, "link")
    assert change.saved_ns == pytest.approx(2 * message_ns, rel=0.02)
    _, options = options_of(change.command)
    assert parse_iterations(options["iteration"]) == made.iterations
    # The first of those is still like the job's beginning, when nobody waits: it is not counted.
    slower = first_come_job([[1000, 1000, 3000, *[5] * 17]] * 2, 3, NBYTES)[0]
    made = advice(of_servers(20, time_ns, slow_first=3), with_set_up(slower), star)
    assert made.model_ns == pytest.approx(time_ns, rel=0.02)


def test_a_capture_of_asynchronous_servers_that_began_late_has_no_order_to_go_on_from() -> None:
    job, _ = first_come_job([[5] * 20] * 2, 3, NBYTES)
    made = advice(of_servers(20, 2 * 700 * MS), job, parse_fabric("star:hosts=3,rate=50M"))
    assert (made.changes, made.model_ns) == ((), None)
    assert BEGAN_LATE in made.not_said


def test_of_many_sends_fewer_iterations_are_modelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradwire.results.advice.MOST_SENDS", 20)  # of four in an iteration
    job = with_set_up(first_come_job([[5] * 20] * 2, 3, NBYTES)[0])
    made = advice(of_servers(20, 2 * 700 * MS), job, parse_fabric("star:hosts=3,rate=50M"))
    assert made.iterations == (0, 1, 2, 3, 4)


def test_of_what_the_model_can_make_nothing_it_says_so() -> None:
    """Eight ranks on a fabric of four hosts, one of them late."""
    made = advice(seen(ring_ns(RATE_BPS), {2: 2}), ring_job({2: 2}), parse_fabric("star:hosts=4,rate=50M"))
    assert made.changes == ()
    assert made.not_said[-1].startswith("The iterations cannot be modelled on star:hosts=4,rate=50M: ")


def test_where_ranks_only_compute_nothing_would_help() -> None:
    analysis = seen(GAP_NS / 1000)
    made = advise(analysis, lambda: pytest.fail("no model is needed"), STAR, ["trace"])
    assert made is not None
    assert made.changes == ()
    assert made.not_said == ()
    assert made.summary == "Nothing on the network would help: 100% of the ranks' time is compute."


def test_what_saves_little_is_left_out() -> None:
    made = advice(seen(GAP_NS * 0.015), ring_job())  # by the model it would be 37 times as long
    assert made.changes == ()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"seen_from": (0,)}, "the captures of all hosts"),
        ({"shares_refused": ("2.6% of the job's bytes could not be read",)}, "2.6% of the job's bytes"),
        ({"framing": "plain"}, "guessed from bursts"),
    ],
)
def test_captures_that_cannot_be_trusted_give_no_advice(changed: dict[str, Any], said: str) -> None:
    analysis = replace(seen(ring_ns(RATE_BPS)), **changed)
    made = advise(analysis, lambda: pytest.fail("no model of this can be trusted"), STAR, ["trace"])
    assert made is not None
    assert (made.changes, made.model_ns) == ((), None)
    assert made.summary == "No change was tried."
    assert said in " ".join(made.not_said)


def test_without_iterations_there_is_nothing_to_advise() -> None:
    assert advise(replace(made_analysis(), shares=None), ring_job, STAR, ["trace"]) is None


@pytest.mark.parametrize("bound", ["none", "unknown"])
def test_without_a_fabric_or_a_bounding_link_only_a_late_rank_is_looked_for(bound: Any) -> None:
    analysis = replace(seen(ring_ns(RATE_BPS)), job_bound=JobBound(bound, None, None, None, 0.0, NOTHING))
    made = advice(analysis, ring_job(), None)
    assert made.changes == ()
    assert f"{NETWORK}: the capture does not name its fabric, and {NOTHING}" in made.not_said


def test_links_that_bounded_nothing_are_not_made_faster() -> None:
    analysis = replace(seen(ring_ns(RATE_BPS)), job_bound=JobBound("none", None, None, None, 0.0, NOTHING))
    made = advice(analysis, ring_job())
    assert not of_kind(made, "link")
    assert f"What faster links would save is not known: {NOTHING}" in made.not_said


def test_a_fabric_from_a_file_is_not_changed() -> None:
    fabric = fabric_of(document_of(STAR), name="file")
    assert fabric.family == "file"
    made = advice(seen(ring_ns(RATE_BPS)), ring_job(), fabric)
    assert made.changes == ()
    assert "was a YAML file" in " ".join(made.not_said)


@pytest.mark.parametrize("factor", [0.3, 4.0])
def test_a_model_far_from_what_was_measured_is_not_trusted(factor: float) -> None:
    made = advice(seen(ring_ns(RATE_BPS) * factor, gap_ns=0), ring_job(gap_ns=0))
    assert made.changes == ()
    assert "too far off to trust" in " ".join(made.not_said)


def paused(analysis: Analysis, number: int) -> Analysis:
    """Twenty seconds longer in one iteration, in which rank 5 computes."""
    assert analysis.shares is not None
    pause_ns = 20_000 * MS
    some = tuple(
        replace(one, time_ns=one.time_ns + pause_ns, compute_ns=one.compute_ns + pause_ns * (one.rank == 5))
        if one.iteration == number
        else one
        for one in analysis.exposures
    )
    iterations = tuple(
        replace(one, time_ns=one.time_ns + pause_ns) if one.iteration == number else one
        for one in analysis.iterations
    )
    return replace(analysis, exposures=some, iterations=iterations, shares=shares(some, 0))


def test_an_iteration_with_a_checkpoint_is_not_modelled_and_its_computing_names_no_late_rank() -> None:
    slow = {2: 2}
    made = advice(paused(seen(ring_ns(RATE_BPS), slow), 2), ring_job(slow))
    assert made.iterations in {(0, 1), (3, 4)}
    assert [change.what for change in of_kind(made, "rank")] == ["rank 2 computes like the others (×0.5)"]


def test_asynchronous_servers_are_modelled_up_to_a_checkpoint() -> None:
    job = with_set_up(first_come_job([[5] * 20] * 2, 3, NBYTES)[0])
    analysis = of_servers(20, 2 * 700 * MS)
    assert analysis.shares is not None
    made = advice(
        replace(analysis, shares=replace(analysis.shares, long=(6,))),
        job,
        parse_fabric("star:hosts=3,rate=50M"),
    )
    assert made.iterations == tuple(range(6))


def test_of_few_iterations_no_late_rank_is_named() -> None:
    slow = {2: 2}
    analysis = seen(ring_ns(RATE_BPS), slow)
    few = tuple(one for one in analysis.exposures if one.iteration < 2)
    analysis = replace(analysis, exposures=few, iterations=analysis.iterations[:2], shares=shares(few, 0))
    made = advice(analysis, ring_job(slow))
    assert not of_kind(made, "rank")
    assert (
        "A late rank is not among the changes: 2 iterations are too few to say what it costs" in made.not_said
    )


def as_list(value: Any) -> Sequence[str]:
    return [value] if isinstance(value, str) else value


@pytest.mark.broad(3)
@pytest.mark.parametrize("sample", BOUNDED)
def test_the_commands_of_a_bounded_job_are_ones_that_can_be_planned(sample: str) -> None:
    made = of_sample(sample)
    _, workload, _ = sampled(sample)
    assert made.changes
    for change in made.changes:
        name, options = options_of(change.command)
        assert name == "replay"
        assert options["job"] == [SAMPLES / sample]
        fabrics = [parse_fabric(spec) for spec in as_list(options["fabric"])]
        matrix = cells(fabrics, options["algorithm"], options["placement"], options["routes"])
        slowed = straggling(workload, parse_slow(options["slow"]))
        job = Experiment(slowed, "", iterations=parse_iterations(options["iteration"]))
        first, *_, last = planned([(cell, job) for cell in matrix])
        assert isinstance(first, Plan)
        assert isinstance(last, Plan)
        assert last.prediction.fluid_s < first.prediction.fluid_s


def test_fast_links_are_planned_and_hostile_names_stay_words(tmp_path: Path) -> None:
    slow = {2: 2}
    analysis = replace(
        seen(ring_ns(RATE_BPS), slow), job_bound=JobBound("none", None, None, None, 0.0, NOTHING)
    )
    name = "a b; $(reboot) <script>alert('x')</script>"
    made = advise(analysis, lambda: ring_job(slow), None, [name, "--rank-map", "r 1.yaml"])
    assert made is not None
    (change,) = made.changes
    command, options = options_of(change.command)
    assert command == "plan"
    assert options["job"] == [Path(name)]
    assert options["rank_map"] == Path("r 1.yaml")
    assert parse_slow(options["slow"]) == {2: 0.5}
    assert "<script>alert" not in page(analysis, made)


@pytest.mark.long
def test_inspect_prints_it_in_every_form(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def inspected(*options: str) -> str:
        with pytest.raises(SystemExit) as left:
            main(["inspect", str(SAMPLES / BOUNDED[1]), *options])
        assert left.value.code == 0
        return capsys.readouterr().out

    lines = inspected("--html", str(tmp_path / "page.html")).splitlines()
    made = of_sample(BOUNDED[1])
    for change in made.changes:
        assert any(line.endswith(change.command) for line in lines)  # whole, to be pasted
    assert lines.index("What to do next") < lines.index("Captures")
    text = (tmp_path / "page.html").read_text()
    assert '<section id="next">' in text
    assert made.changes[0].what in text
    shown = json.loads(inspected("--json"))["advice"]
    assert [one["command"] for one in shown["changes"]] == [one.command for one in made.changes]


def test_of_a_fabric_that_other_jobs_used_too_nothing_is_said_but_of_a_late_rank() -> None:
    """Its links may have been bounded by those, and a model of this job alone has none of them."""
    analysis, workload, fabric = sampled("slow_ddp_8_mlp_leafspine50M")
    made = advise(analysis, lambda: workload, fabric, ["trace"], had_company=True)
    assert made is not None
    assert not made.changes
    assert COMPANY in made.not_said
