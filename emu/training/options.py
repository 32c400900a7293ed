"""Options of the built-in jobs.  No PyTorch here: the command line and the plan of a run read this."""

from dataclasses import asdict, dataclass
from typing import Any

from gradwire.traces.units import one_of

MODELS = {  # and their parameters; tests/emu/test_models.py counts them
    "mlp": 85_002,
    "resnet18": 11_181_642,
    "gpt": 13_842_432,
}
MAX_ITERATIONS = 100_000
MAX_BATCH = 4096
MAX_SLOW = 100.0


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """A job: data-parallel (`servers` 0) or by parameter servers, which are then the first ranks.

    Everything that is random comes from `seed`; `bucket_mib` is DDP's limit, None for its own.  `slow` has
    pairs of a rank and how many times as long it computes: it sleeps after each piece of its computing.
    """

    model: str = "mlp"
    iterations: int = 10
    servers: int = 0
    asynchronous: bool = False
    batch: int = 16
    bucket_mib: float | None = None
    seed: int = 0
    slow: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        one_of("model", self.model, MODELS)
        if not 1 <= self.iterations <= MAX_ITERATIONS:
            raise ValueError(f"a job needs 1 to {MAX_ITERATIONS} iterations, got {self.iterations}")
        if not 1 <= self.batch <= MAX_BATCH:
            raise ValueError(f"a batch needs 1 to {MAX_BATCH} samples, got {self.batch}")
        if self.bucket_mib is not None and not 0 < self.bucket_mib <= 1024:
            raise ValueError(f"DDP's buckets must be above 0 and up to 1024 MiB, got {self.bucket_mib}")
        for rank, factor in self.slow:
            if not 1 <= factor <= MAX_SLOW:
                raise ValueError(f"rank {rank} can be slowed down 1 to {MAX_SLOW:g} times, got {factor:g}")

    def factor(self, rank: int) -> float:
        """How many times as long `rank` computes."""
        return dict(self.slow).get(rank, 1.0)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "TrainingOptions":
        return cls(**value | {"slow": tuple((rank, factor) for rank, factor in value.get("slow", ()))})
