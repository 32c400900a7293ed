"""The controller's messages about trees, and how it leads switches from one tree to another."""

from collections.abc import Iterator

import pytest

from gradwire.controller import openflow
from gradwire.controller.experimenter import (
    ExperimenterPart,
    action,
    aggregate_of,
    counts_request,
    job_counts,
)
from gradwire.controller.openflow import changes, table
from gradwire.controller.readback import complaint
from gradwire.controller.ryu_api import ofp, parser
from gradwire.emu.switch.wire import decode
from gradwire.planning.openflow.entries import Aggregate
from gradwire.planning.openflow.extension import JOB_COUNTS
from gradwire.planning.openflow.match import Match
from gradwire.planning.openflow.rules import AGGREGATE_PRIORITY, Rule, plan_rules
from tests.controller.test_controller_openflow import (
    Datapath,
    connected,
    found,
    obey,
    programmed,
    said_of,
    stated,
)
from tests.made_switches import Line, Machine
from tests.made_trees import planted_plan
from tests.readers import read_statistics_as_the_app

SPEC = "leaf-spine:leaves=2,spines=2,hosts=2"
UDP_PORT = 0xBEE0


@pytest.fixture(autouse=True)
def our_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    read_statistics_as_the_app(monkeypatch)


def match(in_port: int, udp_port: int = UDP_PORT) -> Match:
    return Match(eth_type=0x800, ip_proto=17, dport=udp_port, in_port=in_port)


def rules_of(aggregate: Aggregate) -> tuple[Rule, ...]:
    """Those of all children and of the parent."""
    ends = [*enumerate(aggregate.ports)]
    if aggregate.parent_port is not None:
        ends.append((255, aggregate.parent_port))
    return tuple(
        Rule(AGGREGATE_PRIORITY, match(port), (), aggregate=aggregate._replace(child=child))
        for child, port in ends
    )


JOB = Aggregate(
    job=7, epoch=2, child=0, slots=128, elements=256, parent_port=4, ports=(1, 3, 2), gives=0b101, takes=0b110
)  # fmt: skip


def test_the_action_is_the_documents_bytes() -> None:
    encoded = bytearray()
    action(JOB._replace(child=1)).serialize(encoded, 0)
    assert encoded.hex(" ") == (
        "ff ff 00 38 00 02 47 57 00 01 00 07 00 02 01 03 00 80 01 00 00 00 00 04 "
        "00 00 00 00 00 00 00 05 00 00 00 00 00 00 00 06 00 00 00 01 00 00 00 03 00 00 00 02 00 00 00 00"
    )


def test_the_library_and_the_switch_read_the_flow_mod_that_was_meant() -> None:
    rule = rules_of(JOB)[1]
    octets = openflow.program(Datapath(), table([rule]))
    at = 0
    while octets[at + 1] != ofp.OFPT_FLOW_MOD or octets[at + 25] != ofp.OFPFC_ADD:
        at += int.from_bytes(octets[at + 2 : at + 4], "big")
    length = int.from_bytes(octets[at + 2 : at + 4], "big")
    by_switch = decode.flow_mod(octets[at + 8 : at + length])
    assert (by_switch.match, by_switch.priority) == (match(3), 400)
    assert by_switch.actions.given == (JOB._replace(child=1),)
    by_library = parser.OFPFlowMod.parser(Datapath(), 4, 14, length, 1, octets[at : at + length])
    assert dict(by_library.match.items()) == {
        "in_port": 3, "eth_type": 0x800, "ip_proto": 17, "udp_dst": UDP_PORT,
    }  # fmt: skip
    (given,) = by_library.instructions[0].actions
    assert aggregate_of(given) == JOB._replace(child=1)


@pytest.mark.parametrize("spec", [SPEC, "star:hosts=3", "fat-tree:k=4", "bigraph:n=4,m=2"])
def test_a_switch_reports_exactly_the_rules_of_its_trees(spec: str) -> None:
    plan = planted_plan(spec)
    for switch, rules in plan_rules(plan).items():
        talk = programmed(rules, len(plan.fabric.ports[switch]))
        assert sorted(found(talk), key=repr) == sorted(rules, key=repr)
        assert said_of(talk, rules) is None


def test_rules_of_trees_are_compared_by_what_they_say_where_bytes_do_not_tell() -> None:
    rules = rules_of(JOB)
    groups, flows = stated(programmed(rules, 4))
    assert complaint(b"", table(rules), flows, groups) is None
    other = [*rules[:-1], rules[-1]._replace(aggregate=JOB._replace(child=255, epoch=3))]
    assert "1 missing, 1 that were not sent" in str(complaint(b"", table(other), flows, groups))


def test_a_tree_with_another_epoch_is_deleted_before_it_is_added_and_the_switch_agrees() -> None:
    flow = Rule(300, Match(eth_type=0x800, ipv4_dst=9), (1,))
    old = table([*rules_of(JOB), flow])
    new = table([*rules_of(JOB._replace(epoch=3, ports=(1, 2, 3))), flow._replace(ports=(2,))], old)
    differing = changes(old, new)
    assert [len(part) for part in differing] == [4, 1, 4]
    talk = connected(4)
    obey(talk, openflow.program(Datapath(), old))
    octets = openflow.update(Datapath(), old, new, differing)
    commands = [octets[at + 25] for at in starts(octets) if octets[at + 1] == ofp.OFPT_FLOW_MOD]
    assert commands == [ofp.OFPFC_DELETE_STRICT] * 4 + [ofp.OFPFC_ADD] * 4 + [ofp.OFPFC_MODIFY_STRICT]
    obey(talk, octets)
    assert sorted(found(talk), key=repr) == sorted(new.rules, key=repr)


def starts(octets: bytes) -> Iterator[int]:
    """Where each message begins."""
    at = 0
    while at < len(octets):
        yield at
        at += int.from_bytes(octets[at + 2 : at + 4], "big")


def test_more_jobs_than_one_message_holds_are_read_whole() -> None:
    """600 jobs of 104 bytes each, 60,000 bytes in a message at most."""
    machine = Machine("s", 1, (1, 2, 3, 4))
    line = Line(machine)
    jobs = [JOB._replace(job=n, slots=1, child=0) for n in range(600)]
    rules = [Rule(400, match(1, n + 1), (), aggregate=job) for n, job in enumerate(jobs)]
    line.send(openflow.program(line, table(rules)))
    (barrier,) = line.answers()
    assert isinstance(barrier, parser.OFPBarrierReply)
    line.send_msg(counts_request(line))
    messages = line.answers()
    assert len(messages) > 1
    parts = [part for message in messages for part in message.body]
    assert [job.job for job in job_counts("s", parts)] == list(range(600))


@pytest.mark.parametrize(
    ("octets", "wrong"),
    [
        (bytes(8), "s answered the request for its jobs' counters with something else"),
        (
            bytes.fromhex("0002475700000001") + bytes(JOB_COUNTS.size - 1),
            "s: 103 bytes of job counters are not a multiple of a job's 104 bytes",
        ),
    ],
)
def test_an_answer_that_is_none_is_refused_by_name(octets: bytes, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        job_counts("s", [ExperimenterPart(octets)])
