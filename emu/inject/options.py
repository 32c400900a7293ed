"""Options of an injection."""

from dataclasses import dataclass
from fractions import Fraction

from gradwire.emu.options import SWITCHES
from gradwire.traces.units import one_of

RECORDED, PPS, RATE, TOPSPEED = "recorded", "pps", "rate", "topspeed"
STAR_RATE = "10G"  # faster than this machine sends: the star changes as little as can be
MAX_PACKETS = 4_000_000  # sent in all: some 250 octets of memory each
MAX_LOOPS = 100_000
RUN_FOLDER = "inject"  # in the folder of the command's results
REQUEST = "inject.json"  # in the run's folder; it says what was to be done


@dataclass(frozen=True, slots=True)
class Pace:
    """`value`: the factor on recorded times' speed, packets/s, or bit/s; nothing with TOPSPEED."""

    kind: str = RECORDED
    value: Fraction = Fraction(1)


AS_RECORDED = Pace()


@dataclass(frozen=True, slots=True)
class InjectOptions:
    """`routes` is a policy for pairs of hosts, `switch` a kind of SWITCHES."""

    pace: Pace = AS_RECORDED
    loops: int = 1
    exact_mtu: bool = False
    routes: str = "ecmp"
    switch: str = "gradwire"

    def __post_init__(self) -> None:
        if not 1 <= self.loops <= MAX_LOOPS:
            raise ValueError(f"--loop takes 1 to {MAX_LOOPS}, got {self.loops}")
        one_of("switch", self.switch, SWITCHES)
        if self.switch == "ovs" and not self.exact_mtu:
            raise ValueError("Open vSwitch in user space cannot take large (GSO) segments: add --exact-mtu")
