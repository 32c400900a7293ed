"""The calibration finds latency and goodput again in times made from them."""

import pytest

from controller.resolve import resolve
from emu import calibration
from emu.plan import Plan
from emu.spec import parse_fabric
from emu.transport import PAYLOAD_EFFICIENCY, fabric_transport

RATE_BPS = 50_000_000


def plan() -> Plan:
    fabric = parse_fabric("star:hosts=2,rate=50M")
    transport = fabric_transport(fabric)
    return resolve(
        fabric,
        calibration.schedule(RATE_BPS, transport.gso_max_nbytes),
        algorithm="calibration",
        placement="linear",
        routes="ecmp",
        seed=0,
        transport=transport,
    )


@pytest.mark.parametrize("alpha_s", [0.0002, 0.005])
@pytest.mark.parametrize("eta", [PAYLOAD_EFFICIENCY, 0.8])
def test_alpha_and_goodput_are_found_again(alpha_s: float, eta: float) -> None:
    made = plan()
    now_ns, arrived_ns = 1_000_000_000, []
    for send in made.schedule.sends:
        now_ns += round((alpha_s + send.nbytes * 8 / (RATE_BPS * eta)) * 1e9)
        arrived_ns.append(now_ns)
    found = calibration.fit(made, arrived_ns, 1_000_000_000)
    assert found.alpha_s == pytest.approx(alpha_s, rel=1e-3)
    assert found.eta == pytest.approx(eta, rel=1e-3)
    assert found.latency_s == pytest.approx(alpha_s + 64 * 8 / (RATE_BPS * eta), rel=1e-3)


def test_the_messages_go_to_and_fro_one_at_a_time() -> None:
    sends = plan().schedule.sends
    assert [(send.src, send.dst) for send in sends[:3]] == [(0, 1), (1, 0), (0, 1)]
    assert all(send.needs == (number - 1,) for number, send in enumerate(sends) if number)
