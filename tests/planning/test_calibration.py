"""The calibration finds latency and goodput again in times made from them."""

import pytest

from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.fabrics.fabricfile import fabric_of_yaml
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.machines.machinesfile import Machine
from gradwire.planning.machines.partition import partition
from gradwire.planning.model import calibration
from gradwire.planning.model.shifts import fit_tunnels
from gradwire.planning.plan import Plan
from gradwire.planning.resolve import resolve
from gradwire.planning.transport import fabric_transport
from gradwire.results.calibrating import calibration_plan
from tests.made_plans import PAYLOAD_EFFICIENCY

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
    found = calibration.fit(made, arrived_ns)
    assert found.alpha_s == pytest.approx(alpha_s, rel=1e-3)
    assert found.eta == pytest.approx(eta, rel=1e-3)
    assert found.latency_s == pytest.approx(alpha_s + 64 * 8 / (RATE_BPS * eta), rel=1e-3)


@pytest.mark.parametrize("slow", [0, 1])
def test_a_direction_in_which_medium_messages_alone_are_late_changes_nothing(slow: int) -> None:
    """On a BiGraph of 16 hosts at 20 Mb/s its small congestion window made 35 ms of 22."""
    made = plan()
    now_ns, arrived_ns = 0, []
    medium_nbytes = made.schedule.sends[-calibration.N_LARGE - 1].nbytes
    for send in made.schedule.sends:
        late_s = 0.012 if send.src == slow and send.nbytes == medium_nbytes else 0.0
        now_ns += round((0.0002 + late_s + send.nbytes * 8 / (RATE_BPS * PAYLOAD_EFFICIENCY)) * 1e9)
        arrived_ns.append(now_ns)
    found = calibration.fit(made, arrived_ns)
    assert found.eta == pytest.approx(PAYLOAD_EFFICIENCY, rel=1e-3)
    assert found.alpha_s == pytest.approx(0.0002, rel=1e-3)


def test_small_messages_are_timed_after_a_rest_too() -> None:
    """From when their source sends them, which may be late itself."""
    made = plan()
    n_rested, rests_s = calibration.N_RESTED, calibration.REST_NS / 1e9
    now_s, queued_ns, arrived_ns = 0.0, list[int](), list[int]()
    for number, send in enumerate(made.schedule.sends):
        is_rested = number < n_rested
        queued_s = now_s + (rests_s + 0.0003 if is_rested and number else 0.0)
        now_s = queued_s + (0.00025 if is_rested else 0.00005) + send.nbytes * 8 / RATE_BPS
        queued_ns.append(round(queued_s * 1e9))
        arrived_ns.append(round(now_s * 1e9))
    on_wire_s = 64 * 8 / RATE_BPS
    assert calibration.rested_s(made, queued_ns, arrived_ns) == pytest.approx(0.00025 + on_wire_s, rel=1e-3)
    assert calibration.fit(made, arrived_ns).latency_s == pytest.approx(0.00005 + on_wire_s, rel=1e-3)


def test_clocks_of_two_machines_that_are_apart_do_not_change_what_rested_messages_take() -> None:
    made = plan()
    queued_ns, arrived_ns = list[int](), list[int]()
    for number, send in enumerate(made.schedule.sends):
        ahead_ns = {0: 0, 1: 7_000_000}  # the clock of rank 1
        queued_ns.append(number * 10**8 + ahead_ns[send.src])
        arrived_ns.append(number * 10**8 + 250_000 + ahead_ns[send.dst])
    assert calibration.rested_s(made, queued_ns, arrived_ns) == pytest.approx(0.00025)


def test_only_rested_messages_wait_for_a_rest() -> None:
    """At their source, after the message before; the other rank announced long ago that it is ready."""
    made = plan()
    gates = [(gate.op, gate.rank, gate.after, gate.gap_ns) for gate in made.schedule.gates]
    rest = [(op, op % 2, (op - 1,), calibration.REST_NS) for op in range(1, calibration.N_RESTED)]
    assert gates == rest


def test_the_messages_go_to_and_fro_one_at_a_time() -> None:
    sends = plan().schedule.sends
    assert [(send.src, send.dst) for send in sends[:3]] == [(0, 1), (1, 0), (0, 1)]
    assert all(send.needs == (number - 1,) for number, send in enumerate(sends) if number)


@pytest.mark.parametrize("slow", [0, 1])
def test_to_and_fro_use_the_same_cables_where_paths_have_different_rates(slow: int) -> None:
    text = f"""
        hosts: h0..3
        switches: [leaf0..1, spine0..1]
        links:
        - {{a: h0..1, b: leaf0}}
        - {{a: h2..3, b: leaf1}}
        - {{a: leaf0..1, b: spine{slow}, rate: 10M}}
        - {{a: leaf0..1, b: spine{1 - slow}, rate: 100M}}
    """
    fabric = fabric_of_yaml(text.encode(), "unlike")
    made = calibration_plan(fabric, fabric_transport(fabric))
    rates = {(flow.src, flow.dst): min(fabric.rates[end] for end in flow.path) for flow in made.flows}
    assert rates[0, 1] == rates[1, 0]
    now_ns, arrived_ns = 0, []
    for send in made.schedule.sends:
        now_ns += round(send.nbytes * 8 / (rates[send.src, send.dst] * PAYLOAD_EFFICIENCY) * 1e9)
        arrived_ns.append(now_ns)
    assert calibration.fit(made, arrived_ns).eta == pytest.approx(PAYLOAD_EFFICIENCY, rel=1e-6)
    large_s = made.schedule.sends[-1].nbytes * 8 / rates[0, 1]
    assert large_s == pytest.approx(calibration.LARGE_S)  # of this path, not of the slowest cable


@pytest.mark.parametrize("alpha_s", [0.0002, 0.005])
@pytest.mark.parametrize("eta", [PAYLOAD_EFFICIENCY, 0.8])
@pytest.mark.parametrize("n_hosts", [2, 5])
def test_the_cost_of_messages_that_all_ranks_send_at_once_is_found_again(
    n_hosts: int, alpha_s: float, eta: float
) -> None:
    """Also where one rank's bytes take twice as long, if that is not half of the ranks."""
    fabric = parse_fabric(f"star:hosts={n_hosts},rate=50M")
    made = calibration_plan(fabric, fabric_transport(fabric))
    arrived_s: list[float] = []
    for send in made.schedule.sends:
        ready_s = max((arrived_s[other] for other in send.needs), default=0.0)
        per_byte_s = 8 / (RATE_BPS * eta) * (2 if send.src == 1 and n_hosts > 2 else 1)
        arrived_s.append(ready_s + alpha_s + send.nbytes * per_byte_s)
    found = calibration.fit(made, [round(time_s * 1e9) for time_s in arrived_s]).shift
    assert found is not None
    assert found.n_ranks == n_hosts
    assert found.alpha_s == pytest.approx(alpha_s, abs=2 * 64 * 8 / (RATE_BPS * eta))
    assert found.eta == pytest.approx(eta, rel=1e-3)


def test_goodput_is_a_share_of_the_slowest_link_of_a_flow() -> None:
    """Every flow crosses an uplink, of half of a host's rate."""
    fabric = parse_fabric("leaf-spine:leaves=4,spines=1,hosts=1,rate=50M,uplink_rate=25M")
    made = calibration_plan(fabric, fabric_transport(fabric))
    arrived_s: list[float] = []
    for send in made.schedule.sends:
        ready_s = max((arrived_s[other] for other in send.needs), default=0.0)
        arrived_s.append(ready_s + send.nbytes * 8 / (25e6 * 0.9))
    found = calibration.fit(made, [round(time_s * 1e9) for time_s in arrived_s]).shift
    assert found is not None
    assert found.eta == pytest.approx(0.9, rel=1e-3)


@pytest.mark.parametrize("ahead_s", [0.0, 0.01])
def test_flows_between_machines_are_told_apart_whatever_their_clocks_say(ahead_s: float) -> None:
    """Two racks of two ranks: two of the four flows of the ring cross, one in each direction."""
    fabric = parse_fabric("leaf-spine:leaves=2,spines=1,hosts=2,rate=50M")
    made = calibration_plan(fabric, fabric_transport(fabric))
    right = {rank for rank, host in enumerate(made.placement) if host in ("h2", "h3")}
    arrived_s: list[float] = []
    for send in made.schedule.sends:
        ready_s = max((arrived_s[other] for other in send.needs), default=0.0)
        crosses = (send.src in right) != (send.dst in right)
        per_byte_s = 8 / (RATE_BPS * (0.6 if crosses else 0.9))
        arrived_s.append(ready_s + (0.0015 if crosses else 0.001) + send.nbytes * per_byte_s)
    seen_ns = [
        round((time_s + (ahead_s if send.dst in right else 0.0)) * 1e9)
        for send, time_s in zip(made.schedule.sends, arrived_s, strict=True)
    ]
    crossing = [Egress(link.a, link.a_port) for link in fabric.inner_links if "leaf1" in (link.a, link.b)]
    crossing += [fabric.peers[end] for end in crossing]
    found = fit_tunnels(made, seen_ns, calibration.N_PAIR, crossing)
    assert found is not None
    assert found.delay_s == pytest.approx(0.0005, abs=2 * 64 * 8 / RATE_BPS)
    assert found.eta == pytest.approx(0.6, rel=1e-3)
    assert fit_tunnels(made, seen_ns, calibration.N_PAIR, []) is None


def test_flows_between_machines_that_share_a_link_do_not_count_as_slow() -> None:
    """On three machines the flows from rank 3 and rank 9 meet on one cable, and have half of its rate.

    Ranks 3 and 9 are ahead of those that they send to, so each message waits for the one before it.
    """
    fabric = parse_fabric("bigraph:n=6,m=2,rate=50M")
    made = calibration_plan(fabric, fabric_transport(fabric))
    paths = {(flow.src, flow.dst): set(flow.path) for flow in made.flows}
    assert paths[3, 4] & paths[9, 10]
    arrived_s: list[float] = []
    latest_s: dict[tuple[int, int], float] = {}
    for send in made.schedule.sends:
        ready_s = max((arrived_s[other] for other in send.needs), default=0.0)
        begun_s = max(ready_s, latest_s.get((send.src, send.dst), 0.0))
        rate_bps = RATE_BPS * 0.96 / (2 if (send.src, send.dst) in ((3, 4), (9, 10)) else 1)
        arrived_s.append(begun_s + 0.001 + send.nbytes * 8 / rate_bps)
        latest_s[send.src, send.dst] = arrived_s[-1]
    names = ("a", "b", "c")
    made_of = partition(fabric, [Machine(name=name) for name in names])
    crossing = [
        end for link in made_of.crossing for end in (Egress(link.a, link.a_port), Egress(link.b, link.b_port))
    ]
    assert not paths[3, 4].isdisjoint(crossing)
    found = fit_tunnels(made, [round(time_s * 1e9) for time_s in arrived_s], calibration.N_PAIR, crossing)
    assert found is not None
    assert found.eta == pytest.approx(0.96, rel=1e-3)
