"""Who of several controllers may change a switch and hears of what: OpenFlow 1.3.5, 6.3 and 7.3.9-10."""

import struct

import pytest
from os_ken.ofproto import ofproto_v1_3 as ofp

from gradwire.emu.switch.server.roles import EVENTS, Roles
from gradwire.emu.switch.wire.openflow13 import ProtocolError

NOCHANGE, EQUAL, MASTER, SLAVE = range(4)
PACKET_IN, PORT_STATUS, FLOW_REMOVED = EVENTS


def request(role: int, generation: int = 0) -> bytes:
    return struct.pack("!I4xQ", role, generation)


def refusal(roles: Roles, member: object, body: bytes) -> tuple[int, int]:
    with pytest.raises(ProtocolError) as caught:
        roles.change(member, body)  # type: ignore[arg-type]
    return caught.value.kind, caught.value.code


def test_a_new_master_makes_the_old_one_a_slave_and_leaves_an_equal_one() -> None:
    roles = Roles()
    first, second, equal = roles.join(), roles.join(), roles.join()
    roles.change(first, request(MASTER, 1))
    roles.change(second, request(MASTER, 2))
    assert [first.role, second.role, equal.role] == [SLAVE, MASTER, EQUAL]


def test_a_master_that_asks_again_stays_the_master() -> None:
    roles = Roles()
    member = roles.join()
    roles.change(member, request(MASTER, 1))
    roles.change(member, request(MASTER, 1))
    assert member.role == MASTER


def test_a_master_that_has_left_is_not_made_a_slave() -> None:
    roles = Roles()
    gone, next_ = roles.join(), roles.join()
    roles.change(gone, request(MASTER, 1))
    roles.leave(gone)
    roles.change(next_, request(MASTER, 1))
    assert [gone.role, next_.role] == [MASTER, MASTER]
    assert roles.members == [next_]


@pytest.mark.parametrize(
    ("known", "older"),
    [(5, 4), (0, 2**64 - 1), (2**63, 0), (2**64 - 1, 2**63 - 1)],
    ids=["by one", "before 0", "half the numbers back", "half back from the last"],
)
def test_a_generation_before_the_one_seen_is_stale_by_the_signed_difference(known: int, older: int) -> None:
    """6.3.5: stale if `(int64_t)(generation_id - cached_generation_id) < 0`, in numbers modulo 2**64."""
    roles = Roles()
    member = roles.join()
    roles.change(member, request(SLAVE, known))
    assert refusal(roles, member, request(MASTER, older)) == (
        ofp.OFPET_ROLE_REQUEST_FAILED,
        ofp.OFPRRFC_STALE,
    )
    assert (member.role, roles.generation) == (SLAVE, known)


def test_a_generation_after_the_last_number_is_0_again() -> None:
    roles = Roles()
    member = roles.join()
    roles.change(member, request(MASTER, 2**64 - 1))
    roles.change(member, request(SLAVE, 0))
    assert (member.role, roles.generation) == (SLAVE, 0)


def test_only_master_and_slave_have_a_generation() -> None:
    roles = Roles()
    member = roles.join()
    roles.change(member, request(EQUAL, 9))
    roles.change(member, request(NOCHANGE, 9))
    assert (member.role, roles.generation) == (EQUAL, None)


def test_a_role_that_is_none_and_a_request_cut_short_are_refused() -> None:
    roles = Roles()
    member = roles.join()
    assert refusal(roles, member, request(4)) == (ofp.OFPET_ROLE_REQUEST_FAILED, ofp.OFPRRFC_BAD_ROLE)
    assert refusal(roles, member, request(1)[:-1]) == (ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_LEN)


def test_unless_it_asks_for_more_a_slave_hears_only_of_ports() -> None:
    """6.3.4: a slave gets no PACKET_IN and no FLOW_REMOVED, but PORT_STATUS."""
    member = Roles().join()
    heard = [member.hears(event, reason) for event in EVENTS for reason in (0, 1, 2)]
    member.role = SLAVE
    heard_as_slave = [member.hears(event, reason) for event in EVENTS for reason in (0, 1, 2)]
    assert heard == [True, True, False] + [True] * 6  # INVALID_TTL is never sent: nothing decrements it
    assert heard_as_slave == [False] * 3 + [True] * 3 + [False] * 3


def test_each_mask_is_that_of_one_event_one_standing_and_its_reasons() -> None:
    """7.3.10: three pairs of masks, the first of a pair for master and equal, the second for slaves."""
    member = Roles().join()
    masks = (0b01, 0b10, 0b001, 0b100, 0b0001, 0b1000)
    member.set_async(struct.pack("!6I", *masks))
    assert struct.unpack("!6I", member.async_config()) == masks
    for role, place in ((MASTER, 0), (EQUAL, 0), (SLAVE, 1)):
        member.role = role
        heard = [
            {reason for reason in range(4) if member.hears(event, reason)}
            for event in (PACKET_IN, PORT_STATUS, FLOW_REMOVED)
        ]
        assert heard == [[{0}, {0}, {0}], [{1}, {2}, {3}]][place]


def test_an_async_request_cut_short_changes_nothing() -> None:
    member = Roles().join()
    before = member.async_config()
    with pytest.raises(ProtocolError):
        member.set_async(bytes(20))
    assert member.async_config() == before
