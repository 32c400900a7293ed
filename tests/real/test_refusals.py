"""What our switch refuses and Open vSwitch refuses too, it refuses with the same error."""

import tempfile
from pathlib import Path

import pytest
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from tests.made_refusals import BEFORE, OTHERWISE, REFUSED
from tests.made_rules import DATAPATH, encoded
from tests.real.inside import inside
from tests.real.sides import Side, open_vswitch, our_switch

pytestmark = [pytest.mark.real, pytest.mark.untimed]

AFTERWARDS = "flows and groups afterwards"
Answers = dict[str, list[list[int]]]


def answers(side: Side) -> Answers:
    """Type and code of the errors that each request is answered with."""
    side.speaker.send(b"".join(encoded(change, n) for n, change in enumerate(BEFORE)))
    assert side.speaker.barrier() == []
    found = {}
    for name, octets in REFUSED.items():
        side.speaker.send(octets)
        found[name] = [[answer.type, getattr(answer, "code", -1)] for answer in side.speaker.barrier()]
    flows = side.speaker.ask(parser.OFPFlowStatsRequest(DATAPATH))
    groups = side.speaker.ask(parser.OFPGroupDescStatsRequest(DATAPATH, 0))
    found[AFTERWARDS] = [[len(flows), len(groups)]]
    return found


def both() -> list[Answers]:
    with (
        tempfile.TemporaryDirectory(dir="/run") as folder,
        our_switch(Path(folder)) as ours,
        open_vswitch(Path(folder)) as peer,
    ):
        return [answers(ours), answers(peer)]


def test_bad_requests_are_refused_with_the_errors_of_open_vswitch() -> None:
    ours, peer = inside(both)
    wanted = {name: [list(OTHERWISE[name])] if name in OTHERWISE else peer[name] for name in REFUSED}
    assert {name: named(ours[name]) for name in REFUSED if ours[name] != wanted[name]} == {}
    assert [name for name, errors in peer.items() if len(errors) != 1] == []
    assert ours[AFTERWARDS] == peer[AFTERWARDS] == [[1, 1]]


def named(errors: list[list[int]]) -> list[str]:
    return [
        f"{ofp.ofp_error_type_to_str(kind)}, {ofp.ofp_error_code_to_str(kind, code)}" for kind, code in errors
    ]
