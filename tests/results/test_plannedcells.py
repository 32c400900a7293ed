"""The columns of a link hold what closed forms say, the same in frames and in JSON."""

import pytest

from gradwire.planning.model.loads import plan_load
from gradwire.planning.plan import Plan
from gradwire.results.api import link_loads
from gradwire.results.planfigures import nominal_figures
from gradwire.tools.plans.summary import summary
from tests.made_plans import PAYLOAD_EFFICIENCY, allreduce_plan, messages, schedule_plan

RATE_BPS = 50_000_000
NBYTES = 400_000


@pytest.fixture
def shared() -> Plan:
    """Two messages from one leaf to the other, at the same time over its one uplink."""
    spec = f"leaf-spine:leaves=2,spines=1,hosts=2,rate={RATE_BPS}"
    return schedule_plan(spec, messages(4, [(0, 2, NBYTES), (1, 3, NBYTES)]))


def seconds(nbytes: float) -> float:
    return nbytes * 8 / (RATE_BPS * PAYLOAD_EFFICIENCY)


def test_halving_doubling_has_log2_p_flows_on_a_hosts_link_one_at_a_time() -> None:
    """Each of 4 ranks sends and receives 2(p-1)/p of the buffer (Thakur et al., IJHPCA 2005)."""
    plan = allreduce_plan(f"star:hosts=4,rate={RATE_BPS}", "halving-doubling", nbytes=NBYTES)
    loads = link_loads(plan)
    carried = 2 * 3 * NBYTES // 4
    assert sorted(loads["link"]) == sorted(
        name for host in plan.fabric.hosts for name in (f"{host}→switch0", f"switch0→{host}")
    )
    assert set(loads["rate_bps"]) == {RATE_BPS}
    assert set(loads["payload_nbytes"]) == {carried}
    assert set(loads["flows"]) == {2}
    assert set(loads["flows_together"]) == {1}
    assert loads["busy_s"].tolist() == pytest.approx([seconds(carried)] * 8)
    assert set(loads["excess_s"]) == {0}


def test_a_shared_uplink_is_busy_a_messages_time_longer_than_a_hosts_link(shared: Plan) -> None:
    loads = link_loads(shared).set_index("link")
    uplink = loads.loc["leaf0→spine0"]
    assert (uplink["flows"], uplink["flows_together"]) == (2, 2)
    assert uplink["busy_s"] == pytest.approx(seconds(2 * NBYTES))
    assert uplink["excess_s"] == pytest.approx(seconds(NBYTES))
    assert set(loads.index[:2]) == {"leaf0→spine0", "spine0→leaf1"}


def test_json_has_every_column_of_the_frame_with_the_same_values(shared: Plan) -> None:
    frame = link_loads(shared).set_index("link")
    load = plan_load(shared)
    by_link = {link["link"]: link for link in summary(shared, load, nominal_figures(shared, load))["links"]}
    assert by_link.keys() == set(frame.index)
    for name, row in frame.iterrows():
        assert {key: by_link[str(name)][key] for key in frame.columns} == row.to_dict()
    assert by_link["leaf0→spine0"].keys() == {"link", *frame.columns, "node", "port", "worst_share"}
