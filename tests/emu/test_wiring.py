"""A rank's connections are set up as the plan's transport says."""

import socket
from contextlib import ExitStack
from dataclasses import replace

import pytest

from gradwire.emu.replay.wiring import connect, listen
from gradwire.planning.transport import unsent_nbytes
from tests.made_plans import messages, schedule_plan

_TCP_NOTSENT_LOWAT = 25  # linux/tcp.h


@pytest.mark.parametrize(("rate", "most_nbytes"), [("1G", 256 * 1024), ("4G", 838_860)])
def test_either_end_hands_tcp_only_so_much_that_is_not_sent(rate: str, most_nbytes: int) -> None:
    plan = schedule_plan(f"star:hosts=2,rate={rate}", messages(2, [(0, 1, 8), (1, 0, 8)]))
    ip_of = {0: "127.0.0.1", 1: "127.0.0.2"}
    flows = tuple(replace(flow, src_ip=ip_of[flow.src], dst_ip=ip_of[flow.dst]) for flow in plan.flows)
    plan = replace(plan, flows=flows)
    with ExitStack() as opened:
        listening = listen(plan, 0)
        ends = connect(plan, 1, []) + connect(plan, 0, listening)
        for end in ends:
            opened.callback(end.sock.close)
        limits = [end.sock.getsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT) for end in ends]
    assert limits == [most_nbytes] * 2
    assert unsent_nbytes(plan.transport) == most_nbytes
