"""One switch as the controller knows it: its OpenFlow connection, what it was sent, and what it was asked."""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from gradwire.controller import openflow
from gradwire.controller.openflow import SwitchTable
from gradwire.controller.readback import complaint
from gradwire.controller.ryu_api import ofp, parser

Take = Callable[[list[Any]], None]
"""What to do with the whole body of an answer."""


class KnownSwitch:
    """`refuse` is called with what is wrong, in one line.

    `is_ready`: the switch reported that it has the rules of `table`, or has been sent the changes since.
    """

    def __init__(self, name: str, refuse: Callable[[str], None]) -> None:
        self.name = name
        self.datapath: Any = None
        self.is_ready = False
        self.table = SwitchTable()
        self._refuse = refuse
        self._was_ready = False
        self._barriers: deque[list[Callable[[], None]]] = deque()  # whom to call for each that is outstanding
        self._questions: dict[int, tuple[Take, list[Any]]] = {}

    def come(self, datapath: Any, table: SwitchTable) -> None:
        """A new connection.  A switch that had its rules before gets them again only if some are lost."""
        self.datapath = datapath
        self.table = table
        if self._was_ready:
            self._check(openflow.program(datapath, table), renews=True)
        else:
            self._program()

    def go(self) -> None:
        """The connection has ended."""
        self.datapath = None
        self.is_ready = False
        self._questions.clear()
        while self._barriers:
            self.reach_barrier()

    def update(self, table: SwitchTable, done: Callable[[], None]) -> int:
        """Send the switch what is new in `table`; return the number of rules that differ.

        `done` is called as `when_done` says.  A switch that is away gets it when it comes again.
        """
        old, self.table = self.table, table
        differing = openflow.changes(old, table)
        octets = openflow.update(self.datapath, old, table, differing) if self.datapath else b""
        if octets:
            self.datapath.send(octets)
            self._barriers.append([])
        self.when_done(done)
        return sum(map(len, differing))

    def when_done(self, done: Callable[[], None]) -> None:
        """Call `done` when the last barrier that it was sent is answered, or never will be; at once if none
        is outstanding.
        """
        if self._barriers:
            self._barriers[-1].append(done)
        else:
            done()

    def ask(self, request: Any, take: Take) -> None:
        """Send a multipart request; its datapath must be there."""
        self._questions[self.datapath.set_xid(request)] = take, []
        self.datapath.send_msg(request)

    def answer(self, message: Any) -> None:
        """Take a part of an answer; what was not asked for is ignored."""
        if message.xid not in self._questions:
            return
        take, parts = self._questions[message.xid]
        parts += message.body
        if not message.flags & ofp.OFPMPF_REPLY_MORE:
            del self._questions[message.xid]
            take(parts)

    def reach_barrier(self) -> None:
        """All that was sent before the oldest barrier is carried out or refused."""
        for done in self._barriers.popleft() if self._barriers else ():
            done()

    def _program(self) -> None:
        sent = openflow.program(self.datapath, self.table)
        self.datapath.send(sent)
        self._barriers.append([lambda: self._check(sent)])

    def _check(self, sent: bytes, renews: bool = False) -> None:
        """Ask the switch for its rules and groups, and compare these with what it has been sent."""
        if self.datapath is None:
            return
        groups: list[Any] = []
        compare = partial(self._compare, sent, self.table, groups, renews)
        self.ask(parser.OFPGroupDescStatsRequest(self.datapath), groups.extend)
        self.ask(parser.OFPFlowStatsRequest(self.datapath), compare)

    def _compare(
        self, sent: bytes, table: SwitchTable, groups: list[Any], renews: bool, entries: list[Any]
    ) -> None:
        """`groups` are complete: they were asked for before the entries, and switches answer in order."""
        wrong = complaint(sent, table, entries, groups)
        if wrong is None:
            self.is_ready = self._was_ready = True
        elif renews:
            self._program()
        else:
            self._refuse(f"{self.name}: {wrong}")
