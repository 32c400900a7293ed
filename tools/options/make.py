"""The options of `make`: each field of these classes is one, and each class makes the workloads of one kind.

What they mean for the workload is said by the functions of traces/making, which are called here.
"""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Protocol, cast, get_args

import typer

from gradwire.tools.options.common import either
from gradwire.traces.making.dlrm import dlrm
from gradwire.traces.making.easgd import VARIANTS, easgd
from gradwire.traces.making.gossip import PATTERNS, gossip
from gradwire.traces.making.items import shared_out
from gradwire.traces.making.layerwise import layerwise
from gradwire.traces.making.servers import parameter_servers
from gradwire.traces.making.training import training
from gradwire.traces.schedules.kinds import CollectiveKind
from gradwire.traces.taxonomy import MAX_STALENESS
from gradwire.traces.units import one_of, parse_count, parse_nbytes, parse_ns
from gradwire.traces.workload import MAX_GAP_NS, MAX_NBYTES, Workload

COLLECTIVES: tuple[CollectiveKind, ...] = get_args(CollectiveKind)
MAX_ITERATIONS = 100_000
MAX_LAYERS = 10_000
MAX_COUNT = 1_000_000  # samples, values, indices
_COLLECTIVE = "collective: all ranks compute, and then do one collective together"
_LAYERWISE = "layerwise: each layer's allreduce beside the computing of the others"
_EASGD = "easgd: elastic averaging of workers that each have a model"
_GOSSIP = "gossip: each rank averages its model with that of another, drawn at random"
_DLRM = "dlrm: a recommendation model, with embedding tables on its ranks"
_PS = "ps: parameter servers, and workers that may run ahead of each other"


@dataclass(frozen=True, slots=True)
class SizeChoices:
    """What jobs of all kinds have."""

    workers: Annotated[int, typer.Option(min=2, help="Number of ranks that compute.")] = 8
    nbytes: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes of the model; of dlrm: of its dense layers.")
    ] = "1MiB"
    compute_time: Annotated[
        str, typer.Option(metavar="TIME", help="Time for which a worker computes in each iteration.")
    ] = "100ms"
    iterations: Annotated[
        int, typer.Option(min=1, max=MAX_ITERATIONS, help="Number of iterations; of gossip: rounds.")
    ] = 10

    @property
    def model_nbytes(self) -> int:
        return _within("--nbytes", self.nbytes, parse_nbytes(self.nbytes), 4, MAX_NBYTES)

    @property
    def compute_ns(self) -> int:
        return _within("--compute-time", self.compute_time, parse_ns(self.compute_time), 0, MAX_GAP_NS)


@dataclass(frozen=True, slots=True)
class CollectiveChoices:
    """Of collective alone."""

    collective: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"{either(COLLECTIVES)}; --nbytes counts as for `bench`.",
            rich_help_panel=_COLLECTIVE,
        ),
    ] = "allreduce"

    def workload(self, size: SizeChoices) -> Workload:
        return training(
            one_of("collective", self.collective, COLLECTIVES),
            n_ranks=size.workers,
            nbytes=size.model_nbytes,
            compute_ns=size.compute_ns,
            n_iterations=size.iterations,
        )


@dataclass(frozen=True, slots=True)
class LayerwiseChoices:
    """Of layerwise alone."""

    shares: Annotated[
        str,
        typer.Option(
            metavar="N,N,…",
            help="How the bytes of the model are shared out over layers, the first layer first: 1,1,2.",
            rich_help_panel=_LAYERWISE,
        ),
    ] = "1,1,1,1"

    def workload(self, size: SizeChoices) -> Workload:
        shares = [parse_count("--shares", word.strip(), 0, MAX_COUNT) for word in self.shares.split(",")]
        return layerwise(
            shared_out(size.model_nbytes, shares),
            n_ranks=size.workers,
            compute_ns=size.compute_ns,
            n_iterations=size.iterations,
        )


@dataclass(frozen=True, slots=True)
class EasgdChoices:
    """Of easgd alone."""

    variant: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Who talks when.\n"
            "round-robin: the centre meets one worker in each iteration, by turns\n"
            "async: each worker meets it when it has computed; one at a time, first come, first served\n"
            "hogwild: the same without waiting for each other\n"
            "sync1: all workers compute, then their weights are added up along a tree at the centre\n"
            "sync2: the same with the centre on one of the workers\n"
            "sync3: the same while the workers compute",
            rich_help_panel=_EASGD,
        ),
    ] = "round-robin"
    layers: Annotated[
        int,
        typer.Option(
            min=1, max=MAX_LAYERS, help="With --per-layer: number of equal layers.", rich_help_panel=_EASGD
        ),
    ] = 50
    packed: Annotated[
        bool,
        typer.Option(
            "--packed/--per-layer",
            help="Send all layers as one message, or each as its own, which waits for the one before.",
            rich_help_panel=_EASGD,
        ),
    ] = True

    def workload(self, size: SizeChoices) -> Workload:
        return easgd(
            one_of("variant", self.variant, VARIANTS),
            n_workers=size.workers,
            nbytes=size.model_nbytes,
            compute_ns=size.compute_ns,
            n_messages=1 if self.packed else self.layers,
            n_iterations=size.iterations,
        )


@dataclass(frozen=True, slots=True)
class GossipChoices:
    """Of gossip alone."""

    pattern: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Who sends to whom in a round.\n"
            "push: every rank to another, drawn at random\n"
            "pull: to every rank another, drawn at random, from a snapshot\n"
            "permutation: as push, but every rank is drawn once",
            rich_help_panel=_GOSSIP,
        ),
    ] = "push"
    seed: Annotated[
        int, typer.Option(min=0, help="Seed from which ranks are drawn.", rich_help_panel=_GOSSIP)
    ] = 0

    def workload(self, size: SizeChoices) -> Workload:
        return gossip(
            one_of("pattern", self.pattern, PATTERNS),
            n_ranks=size.workers,
            nbytes=size.model_nbytes,
            compute_ns=size.compute_ns,
            n_rounds=size.iterations,
            seed=self.seed,
        )


@dataclass(frozen=True, slots=True)
class DlrmChoices:
    """Of dlrm alone."""

    tables: Annotated[
        str,
        typer.Option(
            metavar="N,N,…",
            help="Number of embedding tables on each rank, in their order; a shorter list is repeated.",
            rich_help_panel=_DLRM,
        ),
    ] = "4"
    batch: Annotated[
        int, typer.Option(min=1, max=MAX_COUNT, help="Samples of each rank.", rich_help_panel=_DLRM)
    ] = 64
    width: Annotated[
        int,
        typer.Option(
            min=1, max=MAX_COUNT, help="Values (float32) of a table's entry.", rich_help_panel=_DLRM
        ),
    ] = 64
    pooling: Annotated[
        int,
        typer.Option(
            min=1,
            max=MAX_COUNT,
            help="Entries of each table that a sample looks up; they are added up.",
            rich_help_panel=_DLRM,
        ),
    ] = 1

    def workload(self, size: SizeChoices) -> Workload:
        tables = [parse_count("--tables", word.strip(), 0, MAX_COUNT) for word in self.tables.split(",")]
        return dlrm(
            tables,
            n_ranks=size.workers,
            batch=self.batch,
            width=self.width,
            pooling=self.pooling,
            nbytes=size.model_nbytes,
            compute_ns=size.compute_ns,
            n_iterations=size.iterations,
        )


@dataclass(frozen=True, slots=True)
class ServerChoices:
    """Of ps alone."""

    servers: Annotated[
        int,
        typer.Option(
            min=1, help="Number of servers; each holds an equal part of the model.", rich_help_panel=_PS
        ),
    ] = 1
    parts: Annotated[
        int,
        typer.Option(
            min=1,
            max=MAX_LAYERS,
            help="Pieces in which a worker and a server exchange that part, so that the first can come back "
            "while others are still on the way.",
            rich_help_panel=_PS,
        ),
    ] = 8
    staleness: Annotated[
        str,
        typer.Option(
            metavar="N|inf",
            help="How many of another worker's latest pushes a pull may miss.\n"
            "0: servers wait for all pushes, and workers for their pulls\n"
            "1, 2, …: servers wait for older pushes, and workers compute while they pull\n"
            "inf: servers answer each push as it comes",
            rich_help_panel=_PS,
        ),
    ] = "0"

    def workload(self, size: SizeChoices) -> Workload:
        never = self.staleness == "inf"
        return parameter_servers(
            self.servers,
            size.workers,
            nbytes=size.model_nbytes,
            staleness=None if never else parse_count("--staleness", self.staleness, 0, MAX_STALENESS),
            compute_ns=size.compute_ns,
            n_parts=self.parts,
            n_iterations=size.iterations,
        )


class JobChoices(Protocol):
    """The options of one kind of job, and the workload that they make."""

    def workload(self, size: SizeChoices) -> Workload: ...


KINDS: dict[str, JobChoices] = {
    "collective": CollectiveChoices(),
    "layerwise": LayerwiseChoices(),
    "easgd": EasgdChoices(),
    "gossip": GossipChoices(),
    "dlrm": DlrmChoices(),
    "ps": ServerChoices(),
}
"""Each with its defaults; `make` has the options of all."""


def belongs() -> dict[str, set[str]]:
    """The kinds that have each option, by the option's parameter."""
    kinds: dict[str, set[str]] = {}
    for kind, choices in KINDS.items():
        for each in fields(cast(Any, choices)):
            kinds.setdefault(each.name, set()).add(kind)
    return kinds


def _within(option: str, text: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise ValueError(f"{option} {text} is not from {least:,} to {most:,}")
    return value
