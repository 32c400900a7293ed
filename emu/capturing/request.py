"""What is to be captured: a job, and the fabric that it runs on."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from emu.fabrics.fabric import Fabric
from emu.training.options import TrainingOptions

MAX_RANKS = 64  # each has a tcpdump, and a job's process is no small one
MAX_LIMIT_S = 86_400.0
MIN_SNAPLEN, MAX_SNAPLEN = 64, 262_144
FILE = "request.json"
WHOLE = "whole"  # the folder of captures with all their payload


@dataclass(frozen=True)
class Request:
    """`training` is a built-in job; without it `command` is run, on every host or, with `once`, on the first.

    `fabric` is a spec or an absolute path; rank r lives on its host number r.  After `limit_s` the job is
    ended.
    """

    n_ranks: int
    fabric: str
    training: TrainingOptions | None = None
    command: tuple[str, ...] = ()
    once: bool = False
    limit_s: float = 600.0

    def __post_init__(self) -> None:
        if not 2 <= self.n_ranks <= MAX_RANKS:
            raise ValueError(f"a captured job has 2 to {MAX_RANKS} ranks, got {self.n_ranks}")
        if not 0 < self.limit_s <= MAX_LIMIT_S:
            raise ValueError(
                f"a job's time limit is above 0 and up to {MAX_LIMIT_S:.0f} s, got {self.limit_s}"
            )
        if self.training and self.training.servers >= self.n_ranks:
            raise ValueError(f"{self.training.servers} servers of {self.n_ranks} ranks leave no worker")
        beyond = [rank for rank, _ in self.training.slow if rank >= self.n_ranks] if self.training else []
        if beyond:
            raise ValueError(f"no rank {beyond[0]} to slow down: the job has ranks 0 to {self.n_ranks - 1}")

    @property
    def job(self) -> str:
        """In a word or two, for names and titles."""
        if self.training is None:
            return Path(self.command[0]).name
        return f"{'ps' if self.training.servers else 'ddp'}-{self.training.model}"

    def save(self, folder: Path) -> None:
        (folder / FILE).write_text(json.dumps(asdict(self)) + "\n")

    @classmethod
    def load(cls, folder: Path) -> "Request":
        value = json.loads((folder / FILE).read_text())
        training = value.pop("training")
        value["command"] = tuple(value["command"])
        return cls(**value, training=TrainingOptions.from_json(training) if training else None)


def check_fits(request: Request, fabric: Fabric) -> None:
    """Raise ValueError if there are not enough hosts."""
    if request.n_ranks > len(fabric.hosts):
        raise ValueError(
            f"{request.n_ranks} ranks do not fit on the {len(fabric.hosts)} hosts of {fabric.spec}"
        )
