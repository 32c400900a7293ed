"""The options of plan, replay and bench: each field of these classes is one.

A command takes the classes as parameters, and `tools.options.fields` makes options of their fields.  So a new
option is one field here, with its name, type, help and default, and its use in the method of its class that
makes values of the fields.  Where it makes a difference to the plan it belongs to one of the first three
classes, and is refused beside a plan file, which has decided it (`refuse_planned`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradwire.emu.options import OS_KEN, RunOptions
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.trees.tree import (
    DEFAULT_ELEMENTS,
    ELEMENTS,
    LEAST_SLOTS,
    MAX_SWITCH_SLOTS,
    SWITCH_SLOTS,
    mtu_needed,
)
from gradwire.tools.options.common import (
    ALGORITHM_HELP,
    FABRIC_HELP,
    PLACEMENT_HELP,
    ROUTES_HELP,
    CapturesOption,
    ComputeOption,
    ControllerOption,
    HtmlOption,
    JsonOption,
    MachinesOption,
    OutOption,
    ParquetOption,
    RankMapOption,
    RepeatOption,
    ScaleBytesOption,
    SwitchOption,
    VerboseOption,
    WatchOption,
    complete_algorithm,
    complete_fabric,
    complete_placement,
    complete_routes,
    either,
    parse_compute,
    parse_factor,
    parse_iterations,
    parse_slow,
)
from gradwire.tools.options.completing import completing
from gradwire.tools.options.given import is_given, option_of
from gradwire.traces.schedules.dtypes import DTYPES, FLOAT32
from gradwire.traces.schedules.keys import RESNET50
from gradwire.traces.schedules.names import AS_CAPTURED, INA, INA_LEAF, PACES
from gradwire.traces.schedules.outbox import FIFO, ORDERS
from gradwire.traces.schedules.straggling import straggler_words, straggling
from gradwire.traces.units import parse_nbytes, parse_share
from gradwire.traces.workload import Workload

if TYPE_CHECKING:  # help pages need none of it
    from gradwire.planning.experiment import Cell, Experiment

MAX_WINDOW = 8192  # of one tree: what no queue has room for would only be sent again and again
_INA: dict[str, tuple[str, ...]] = {"off": (), "on": (INA,), "leaf": (INA_LEAF,)}


@dataclass(frozen=True, slots=True)
class MatrixChoices:
    """Every combination of these is a cell."""

    fabric: Annotated[
        list[str], typer.Option(metavar="SPEC", help=f"{FABRIC_HELP}.", autocompletion=complete_fabric)
    ] = field(default_factory=lambda: ["fat-tree:k=4"])
    algorithm: Annotated[
        list[str], typer.Option(metavar="NAME", help=ALGORITHM_HELP, autocompletion=complete_algorithm)
    ] = field(default_factory=lambda: [AS_CAPTURED])
    ina: Annotated[
        str,
        typer.Option(
            metavar="off|on|leaf",
            autocompletion=completing([*_INA, "off,on"]),
            help="In-network aggregation. off: allreduces run as --algorithm says; on: switches add up the "
            "gradients (the same as --algorithm ina); leaf: only each rank's first switch does (ina:leaf). "
            "Several are compared: off,on.",
        ),
    ] = "off"
    placement: Annotated[
        list[str], typer.Option(metavar="NAME", help=PLACEMENT_HELP, autocompletion=complete_placement)
    ] = field(default_factory=lambda: ["linear"])
    routes: Annotated[
        list[str], typer.Option(metavar="NAME", help=ROUTES_HELP, autocompletion=complete_routes)
    ] = field(default_factory=lambda: ["ecmp"])

    def algorithms(self) -> list[str]:
        """The algorithms that `ina` leaves (off) and adds (on, leaf)."""
        chosen: list[str] = []
        for word in self.ina.split(","):
            if word.strip() not in _INA:
                raise ValueError(
                    f"--ina {self.ina}: {word!r} is not off, on or leaf; write off,on to compare two"
                )
            chosen += _INA[word.strip()] or self.algorithm
        return list(dict.fromkeys(chosen))

    def cells(self) -> "list[Cell]":
        return self.cells_on([parse_fabric(text) for text in self.fabric])

    def cells_on(self, fabrics: Sequence[Fabric]) -> "list[Cell]":
        """The cells with these fabrics in place of `fabric`."""
        from gradwire.planning.experiment import cells

        return cells(fabrics, self.algorithms(), self.placement, self.routes)


@dataclass(frozen=True, slots=True)
class NetworkChoices:
    """What happens on the network, and how any job is sent on it; `on` puts it into an experiment."""

    seed: Annotated[
        int,
        typer.Option(
            min=0,
            help="Seed of all random choices (placement, port numbers, hashes): same seed, same plan.",
        ),
    ] = 0
    fail: Annotated[
        list[str],
        typer.Option(
            metavar="WHAT@TIME[,TIME]",
            help="Take a cable down, and up again if a second time is given, in seconds after the start: "
            "leaf0-spine1@0.5,1.5. A switch with all its cables: spine1@0.5,1.5.",
        ),
    ] = field(default_factory=list)
    loss: Annotated[
        list[str],
        typer.Option(
            metavar="P[@WHERE]",
            help="Drop packets at random (from the seed), each way: on all cables (1%), on the hosts' cables "
            "(1%@hosts) or on one (1%@leaf0-h1).",
        ),
    ] = field(default_factory=list)
    switch_slots: Annotated[
        int,
        typer.Option(
            min=1,
            max=MAX_SWITCH_SLOTS,
            help="With --ina: aggregation slots that each switch has for all jobs together. The hosts of a "
            "job that gets none add up its gradients themselves.",
        ),
    ] = SWITCH_SLOTS
    slots: Annotated[
        int | None,
        typer.Option(
            min=LEAST_SLOTS,
            max=MAX_WINDOW,
            help="With --ina: aggregation slots that each tree asks for, its window. Default: from the link "
            "rate.",
            show_default=False,
        ),
    ] = None
    elements: Annotated[
        int,
        typer.Option(
            help=f"With --ina: numbers in each aggregation packet: {either([*map(str, ELEMENTS)])}; "
            f"{ELEMENTS[-1]} needs a fabric with mtu={mtu_needed(ELEMENTS[-1])} or more."
        ),
    ] = DEFAULT_ELEMENTS
    wire: Annotated[
        str,
        typer.Option(
            metavar="|".join(DTYPES),
            autocompletion=completing(DTYPES),
            help="Type in which gradients are sent and added: float16 and bfloat16 halve the bytes of "
            "float32. What is only copied, as in an allgather, stays as it is.",
        ),
    ] = FLOAT32
    keys: Annotated[
        str | None,
        typer.Option(
            metavar=f"{RESNET50}|FILE",
            help="With ps:servers=K,keys, whose servers hold whole tensors: the tensors in the buffer, those "
            "of ResNet-50 or of a file with a name and a number of float32 elements in each line.",
            show_default=False,
        ),
    ] = None
    pace: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(PACES),
            autocompletion=completing(PACES),
            help="When a receiver announces that it is ready for a message. Default: as the algorithm does "
            "by itself.\n"
            "early: before the data are there, so a step costs one latency\n"
            "step: when it is done with the step before, so ranks keep together; a step costs two latencies",
            show_default=False,
        ),
    ] = None

    send_delay: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Delay every send by this much, e.g. 50ms, as a slow core would. It is latency, not "
            "load: the delays of one rank's sends run side by side. At most 10s.",
        ),
    ] = "0"
    order: Annotated[
        str,
        typer.Option(
            metavar="|".join(ORDERS),
            autocompletion=completing(ORDERS),
            help="Which send of a rank leaves first.\n"
            "fifo: each as soon as it may, so operations in flight share the link\n"
            "newest-first: one operation at a time, the one that began last",
        ),
    ] = FIFO

    def on(self, experiment: "Experiment") -> "Experiment":
        """`experiment` with these choices.  Raise ValueError as `sent_as` does, or OSError."""
        from gradwire.planning.sentas import sent_as

        chosen = replace(
            experiment,
            seed=self.seed,
            fail=tuple(self.fail),
            loss=tuple(self.loss),
            switch_slots=self.switch_slots,
            slots=self.slots,
            elements=self.elements,
        )
        return sent_as(
            chosen,
            wire=self.wire,
            keys=self.keys,
            pace=self.pace,
            send_delay=self.send_delay,
            order=self.order,
        )


@dataclass(frozen=True, slots=True)
class TrafficChoices:
    """Which part of a captured job is sent, and how it is changed."""

    iteration: Annotated[
        list[str],
        typer.Option(
            metavar="N|A..B",
            help="Send only these iterations, e.g. 3 or 2..5; -1 is what belongs to none: the set-up before "
            "them, and what follows them. Default: all but -1; the set-up too where parameter servers take "
            "one worker at a time.",
        ),
    ] = field(default_factory=list)
    scale_bytes: ScaleBytesOption = "1"
    compute: ComputeOption = "keep"
    slow: Annotated[
        list[str],
        typer.Option(
            metavar="RANK=×FACTOR",
            help="Multiply the captured compute times of one rank: 3=×2 doubles those of rank 3.",
        ),
    ] = field(default_factory=list)
    jitter: Annotated[
        str,
        typer.Option(
            metavar="PERCENT",
            help="Vary compute times at random (from the seed), with this standard deviation, e.g. 10%.",
        ),
    ] = "0"
    scale_ranks: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Send the job as it would be with N ranks in all. Buffers, buckets, the batch of each rank "
            "and the number of parameter servers stay the same; further ranks compute as captured ones do.",
            show_default=False,
        ),
    ] = None
    bucket_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Join and cut the allreduces of an iteration into buckets of this size, e.g. 25MiB, as "
            "DDP's bucket_cap_mb does.",
            show_default=False,
        ),
    ] = None
    beside: Annotated[
        list[Path],
        typer.Option(
            metavar="CAPTURE|WORKLOAD", help="Run another captured job at the same time, on other hosts."
        ),
    ] = field(default_factory=list)
    rank_map: RankMapOption = None

    def experiment(self, given: Workload, paths: Sequence[Path], network: NetworkChoices) -> "Experiment":
        """What to do with the job `given`, which was read from `paths`.  Raise ValueError for what no option
        may say.
        """
        from gradwire.planning.experiment import Experiment
        from gradwire.planning.jobs import read_beside, source_of
        from gradwire.traces.schedules.otherranks import other_job

        late, varied = parse_slow(self.slow), parse_share(self.jitter)
        bucket_nbytes = None if self.bucket_size is None else parse_nbytes(self.bucket_size)
        other, assumptions = other_job(given, self.scale_ranks, bucket_nbytes)
        chosen = Experiment(
            workload=straggling(other, late, varied, network.seed),
            source=source_of(paths) + straggler_words(late, varied),
            assumptions=assumptions,
            iterations=parse_iterations(self.iteration),
            scale=parse_factor(self.scale_bytes),
            compute=parse_compute(self.compute),
            beside=read_beside(self.beside),
        )
        return network.on(chosen)

    @property
    def changes_job(self) -> bool:
        """Whether what is sent is another job than the captured one; some iterations of that are still it."""
        factors = (parse_factor(self.scale_bytes), parse_compute(self.compute))
        same = replace(self, iteration=[], rank_map=None, scale_bytes="1", compute="keep") == TrafficChoices()
        return not same or factors != (Fraction(1), Fraction(1))


FIXED_BY_PLAN = (MatrixChoices, NetworkChoices, TrafficChoices)  # what a plan file has decided


@dataclass(frozen=True, slots=True)
class RunChoices:
    """How a plan is carried out, and what is made of its results."""

    repeat: RepeatOption = 3
    warmup: Annotated[
        int,
        typer.Option(
            "--warmup",
            "-w",
            metavar="N",
            min=0,
            help="Number of repeats to send first that do not count, as TCP begins slowly.",
        ),
    ] = 0
    reroute: Annotated[
        bool,
        typer.Option(
            "--reroute/--no-reroute",
            help="When a cable fails, let the controller plan new paths for its flows, or leave them to the "
            "switches' own failover.",
        ),
    ] = True
    switch: SwitchOption = "gradwire"
    controller: ControllerOption = OS_KEN
    captures: CapturesOption = False
    machines: MachinesOption = None
    watch: WatchOption = None
    out: OutOption = None
    html: HtmlOption = None
    parquet: ParquetOption = None
    as_json: JsonOption = False
    verbose: VerboseOption = False

    @property
    def options(self) -> RunOptions:
        """Raise ValueError for what cannot be together, or a bad file of machines, and OSError."""
        made = RunOptions(self.repeat, self.switch, self.captures, self.reroute, self.warmup, self.controller)
        if self.machines is None:
            return made
        for option, value in (("--captures", self.captures), ("--watch", self.watch)):
            if value:
                raise ValueError(f"{option} works on one machine only: leave it or --machines out")
        from gradwire.planning.machines.machinesfile import read_to_build

        return replace(made, machines=read_to_build(self.machines))


def refuse_planned(context: typer.Context, plan: Path) -> None:
    """Raise ValueError for an option that a plan file has decided already."""
    for choices in FIXED_BY_PLAN:
        for each in fields(choices):
            if is_given(context, each.name):
                raise fixed(option_of(context, each.name), plan)


def fixed(name: str, plan: Path) -> ValueError:
    """The error for an option, or a key of a lab, that a plan file has decided already."""
    return ValueError(f"{name} is fixed in {plan}; leave it out, or make another plan")
