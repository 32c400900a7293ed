"""What a run of a plan should take on a calibrated fabric, how far off that may be, and the machine's part.

The bar around the predicted time has two parts.  Host times are known as a range, so the fluid model with
the least and the largest of them gives two times; each is then widened by MODEL_ERROR, which is what the
fluid model itself leaves out (slow starts, unfair shares, segments stored at each hop).  Beyond MAX_ERROR of
the predicted time the bar never goes: a prediction that is less sure than that is none.

    low = max(fluid(least) (1 - MODEL_ERROR), predicted (1 - MAX_ERROR))
    high = min(fluid(largest) (1 + MODEL_ERROR), predicted (1 + MAX_ERROR))
"""

from dataclasses import replace

from controller.model.fluid import fluid_s
from controller.model.hosts import HostCosts
from emu.calibration import Calibration, HostTimes
from emu.network.transport import buffered_nbytes, longest_round_trip_s
from emu.plan import ADAPTIVE, Plan, Transport
from emu.verdict import Expected

MODEL_ERROR = 0.08
MAX_ERROR = 0.10
# With no latency at all things end and begin at one instant, and rounding decides who waits for whom.
LEAST_WIRE_S = 1e-6


def expected(plan: Plan, calibrated: Calibration) -> Expected:
    """The bar is left out where the model does not know all that happens: with failures, losses and routes
    that adapt, and for what switches add up, whose hosts work otherwise.
    """

    def seconds(hosts: HostCosts | None) -> float:
        made, alpha_s = (plan.fabric, plan.flows, plan.schedule), calibrated.per_send_s
        return fluid_s(*made, trees=plan.trees, alpha_s=alpha_s, eta=calibrated.eta, hosts=hosts)[0]

    times = calibrated.hosts
    if times is None or plan.trees:
        return Expected(seconds(None))
    transport = plan.transport
    predicted_s = seconds(host_costs(times, transport))
    if not predicted_s or plan.failures or plan.losses or plan.routes == ADAPTIVE:
        return Expected(predicted_s)
    least = host_costs(times, transport, times.message_s.low, times.start_s.low)
    largest = host_costs(times, transport, times.message_s.high, times.start_s.high)
    wire_s = max(LEAST_WIRE_S, longest_round_trip_s(plan.fabric) / 2)
    no_machine = replace(host_costs(times, transport, 0.0, 0.0), wire_s=wire_s)
    return Expected(
        predicted_s,
        low_s=max(min(predicted_s, seconds(least)) * (1 - MODEL_ERROR), predicted_s * (1 - MAX_ERROR)),
        high_s=min(max(predicted_s, seconds(largest)) * (1 + MODEL_ERROR), predicted_s * (1 + MAX_ERROR)),
        machine_share=max(0.0, 1 - seconds(no_machine) / predicted_s),
    )


def host_costs(
    times: HostTimes, transport: Transport, message_s: float | None = None, start_s: float | None = None
) -> HostCosts:
    """As in the middle of the ranges, unless others are given."""
    return HostCosts(
        times.wire_s,
        times.start_s.middle if start_s is None else start_s,
        times.message_s.middle if message_s is None else message_s,
        times.n_cpus,
        transport.rcvbuf_nbytes,
        transport.gso_max_nbytes,
        buffered_nbytes(transport.sndbuf_nbytes),
    )
