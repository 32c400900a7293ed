"""Options of a run: how a plan is carried out, but not what is sent."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from gradwire.traces.units import one_of

SWITCHES = ("gradwire", "ovs")
OS_KEN, RYU = "os-ken", "ryu"
CONTROLLERS = (OS_KEN, RYU)  # the libraries that the controller may run under
MAX_REPEATS = 1000


class Software(NamedTuple):
    """A kind of SWITCHES, and what the controller runs under, of CONTROLLERS."""

    switch: str = "gradwire"
    controller: str = OS_KEN


@dataclass(frozen=True, slots=True)
class RunOptions:
    """`repeats` of the whole schedule on one network; `switch` is a kind of SWITCHES, `controller`
    one of CONTROLLERS.

    Without `reroute` nothing but the switches' own fast failover answers a failure of a cable.  `warmups`
    more repeats come first, and count for nothing.  `machines` are those that carry the fabric together, as
    JSON of planning.machines.machinesfile.Machines; None: this one alone.
    """

    repeats: int = 3
    switch: str = "gradwire"
    captures: bool = False
    reroute: bool = True
    warmups: int = 0
    controller: str = OS_KEN
    machines: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.repeats <= MAX_REPEATS:
            raise ValueError(f"a run needs 1 to {MAX_REPEATS} repeats, got {self.repeats}")
        if not 0 <= self.warmups <= MAX_REPEATS:
            raise ValueError(f"a run may have 0 to {MAX_REPEATS} warm-ups, got {self.warmups}")
        one_of("switch", self.switch, SWITCHES)
        one_of("controller", self.controller, CONTROLLERS)

    @property
    def software(self) -> Software:
        return Software(self.switch, self.controller)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "RunOptions":
        return cls(**value)
