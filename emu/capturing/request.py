"""A request for a capture: a job, and the fabric that it runs on."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gradwire.emu.network.tcpdump import WHOLE_NBYTES
from gradwire.emu.training.options import TrainingOptions
from gradwire.planning.fabrics.fabric import Fabric

MAX_CAPTURED_RANKS = 64  # each has a tcpdump, and a job's process is not a small one
MAX_LIMIT_S = 86_400.0
MIN_SNAPLEN, MAX_SNAPLEN = 64, WHOLE_NBYTES
FILE = "request.json"
BESIDE = "beside"  # and a number: the folder of another job that ran at the same time
WHOLE = "whole"  # the folder of captures with all their payload
MIRRORED = f"{WHOLE}/mirrored"  # and of captures from before the hosts' queues, with what these sent by TCP


@dataclass(frozen=True)
class CaptureRequest:
    """`training` is a built-in job; without it `command` is run, on every host or, with `once`, on the first.

    `fabric` is a spec or an absolute path; rank r lives on its host number `first_host` + r.  After `limit_s`
    the job is ended.  `beside` are other jobs that run at the same time on hosts of their own.
    """

    n_ranks: int
    fabric: str
    training: TrainingOptions | None = None
    command: tuple[str, ...] = ()
    once: bool = False
    limit_s: float = 600.0
    first_host: int = 0
    beside: tuple["CaptureRequest", ...] = ()

    def __post_init__(self) -> None:
        if not 2 <= self.n_ranks <= MAX_CAPTURED_RANKS:
            raise ValueError(f"a captured job needs 2 to {MAX_CAPTURED_RANKS} ranks, got {self.n_ranks}")
        if self.total_ranks > MAX_CAPTURED_RANKS:
            raise ValueError(
                f"jobs captured together can have up to {MAX_CAPTURED_RANKS} ranks, got {self.total_ranks}"
            )
        if not 0 < self.limit_s <= MAX_LIMIT_S:
            raise ValueError(
                f"a job's time limit must be above 0 and up to {MAX_LIMIT_S:.0f} s, got {self.limit_s}"
            )
        if self.training and self.training.servers >= self.n_ranks:
            raise ValueError(f"{self.training.servers} servers among {self.n_ranks} ranks leave no worker")
        beyond = [rank for rank, _ in self.training.slow if rank >= self.n_ranks] if self.training else []
        if beyond:
            raise ValueError(f"cannot slow down rank {beyond[0]}: the job has ranks 0 to {self.n_ranks - 1}")

    @property
    def title(self) -> str:
        """The job in a word or two, for names and titles."""
        if self.training is None:
            return Path(self.command[0]).name
        return f"{'ps' if self.training.servers else 'ddp'}-{self.training.model}"

    @property
    def name(self) -> str:
        return f"{self.title}, {self.n_ranks} ranks"

    @property
    def total_ranks(self) -> int:
        return self.n_ranks + sum(one.n_ranks for one in self.beside)

    @property
    def jobs(self) -> tuple["CaptureRequest", ...]:
        return (self, *self.beside)

    def with_beside(self, others: Sequence["CaptureRequest"]) -> "CaptureRequest":
        """Add other jobs on the hosts that follow, in their order."""
        first = itertools.accumulate((one.n_ranks for one in others), initial=self.n_ranks)
        placed = (replace(one, first_host=host) for one, host in zip(others, first, strict=False))
        return replace(self, beside=tuple(placed))

    def hosts(self, fabric: Fabric) -> tuple[str, ...]:
        """The hosts of the job's ranks, in the order of ranks."""
        return fabric.hosts[self.first_host : self.first_host + self.n_ranks]

    def parts(self, folder: Path) -> tuple[tuple["CaptureRequest", Path], ...]:
        """Each job with its own folder; the first job's is `folder` itself."""
        beside = ((one, folder / f"{BESIDE}-{number}") for number, one in enumerate(self.beside, start=1))
        return ((self, folder), *beside)

    def save(self, folder: Path) -> None:
        (folder / FILE).write_text(json.dumps(asdict(self)) + "\n")

    @classmethod
    def load(cls, folder: Path) -> "CaptureRequest":
        return cls._from_json(json.loads((folder / FILE).read_text()))

    @classmethod
    def _from_json(cls, value: dict[str, Any]) -> "CaptureRequest":
        training = value.pop("training")
        value["command"] = tuple(value["command"])
        value["beside"] = tuple(map(cls._from_json, value["beside"]))
        return cls(**value, training=TrainingOptions.from_json(training) if training else None)


def check_fits(request: CaptureRequest, fabric: Fabric) -> None:
    """Raise ValueError if the fabric has too few hosts."""
    if request.total_ranks > len(fabric.hosts):
        raise ValueError(
            f"{request.total_ranks} ranks do not fit on the {len(fabric.hosts)} hosts of {fabric.spec}: "
            "use fewer ranks or a larger fabric"
        )
