"""What kind of distributed training a job is, by four axes.

Langer, He, Rahayu, Xue, Distributed training of deep learning models: a taxonomic perspective, IEEE TPDS
31(12), 2020.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MAX_STALENESS = 1_000_000


class Taxonomy(BaseModel):
    """None for what is not known.

    `optimisation` is centralised if one model counts, whether a server, several or all ranks hold it;
    decentralised if ranks explore with models of their own, which they keep averaging.  `staleness` is the
    bound of a bounded scheduling: how many of another worker's latest updates may be missing in what a worker
    pulls.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    parallelism: Literal["data", "model", "hybrid"] | None = None
    optimisation: Literal["centralised", "decentralised"] | None = None
    scheduling: Literal["synchronous", "asynchronous", "bounded"] | None = None
    staleness: Annotated[int, Field(ge=1, le=MAX_STALENESS)] | None = None
    pattern: Literal["allreduce", "ps", "gossip", "alltoall"] | None = None

    @model_validator(mode="after")
    def _check(self) -> "Taxonomy":
        if (self.scheduling == "bounded") != (self.staleness is not None):
            raise ValueError("a bounded scheduling has a staleness, and no other has one")
        return self

    def __str__(self) -> str:
        """In one line: `data parallel, centralised, bounded (staleness 1), pattern ps`."""
        words = [
            f"{self.parallelism} parallel" if self.parallelism else "",
            self.optimisation or "",
            self.scheduling or "",
            f"pattern {self.pattern}" if self.pattern else "",
        ]
        if self.staleness:
            words[2] += f" (staleness {self.staleness})"
        axes = ("parallelism", "optimisation", "scheduling", "pattern")
        unknown = [axis for axis, word in zip(axes, words, strict=True) if not word]
        known = ", ".join(filter(None, words))
        return "; ".join(filter(None, (known, f"{', '.join(unknown)} unknown" if unknown else "")))


SYNCHRONOUS_DATA_PARALLEL = Taxonomy(
    parallelism="data", optimisation="centralised", scheduling="synchronous", pattern="allreduce"
)
"""All ranks hold one model, and add up their gradients in every iteration."""
