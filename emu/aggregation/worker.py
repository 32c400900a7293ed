"""One rank's side of an aggregation tree, in Python: arrays, positions, reasons.  worker.c does the work.

Who has the socket's events and the time calls `step`; who has nothing else to do calls `run`, which waits.
"""

import os
import socket
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from gradwire.emu.aggregation.library import NEVER, WorkerCounts, WorkerFailure, WorkerReport, library
from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.trees.tree import Node, Tree
from gradwire.traces.framing.aggregation import ELEMENT_NBYTES, HEADER_NBYTES

Floats = NDArray[np.float32]

SEGMENTS = 32  # packets that may go to the kernel as one
PATIENCE_NS = 3_500_000_000  # a rank that waits for one that died learns so within 5 s
_MAX_DATAGRAM_NBYTES = 65_507
RanksBehind = Mapping[Egress, tuple[int, ...]]
"""The ranks that contribute through each (switch, port) of a tree's children."""


class WorkerFailed(Exception):
    """A sum failed; the text is one line that says which and why.

    `blamed` are the ranks that it names as missing, ascending; a switch may lack only some of them.
    """

    def __init__(self, reason: str, blamed: tuple[int, ...] = ()) -> None:
        super().__init__(reason)
        self.blamed = blamed


class Worker:
    """Sums of one tree, one after the other, over a connected, non-blocking datagram socket.

    `rtt_ns` is about what a window of the tree's slots takes there and back.  `ranks_behind` names the ranks
    that a failure is about.  `patience_ns` is how long switches may be silent, or a sum that all have begun
    may make no progress.  `segments` is how many packets the kernel may take as one (UDP_SEGMENT): above 1
    only for a device with tx-udp-segmentation off, or the switch would get them as one.  Raise OSError if
    the library was not compiled.
    """

    def __init__(
        self,
        sock: socket.socket,
        tree: Tree,
        rank: int,
        rtt_ns: int,
        *,
        ranks_behind: RanksBehind,
        patience_ns: int = PATIENCE_NS,
        segments: int = 1,
    ) -> None:
        if rank not in tree.members:
            raise ValueError(f"rank {rank} is not in the tree of aggregation job {tree.job}")
        self._sock, self._tree, self._rank, self._behind = sock, tree, rank, ranks_behind
        self._patience_ns = patience_ns
        # A quarter of the window at most goes as one: a window sent whole would be a burst.
        packet_nbytes = HEADER_NBYTES + tree.elements * ELEMENT_NBYTES
        segments = max(1, min(segments, tree.slots // 4, _MAX_DATAGRAM_NBYTES // packet_nbytes))
        self._c = library()
        self._worker: int | None = self._c.worker_new(
            sock.fileno(),
            tree.job,
            tree.epoch,
            tree.slots,
            tree.elements,
            (len(tree.givers) - 1).bit_length(),
            segments,
            rtt_ns,
            patience_ns,
        )
        if self._worker is None:
            raise MemoryError
        self._report: WorkerReport = self._c.worker_report(self._worker).contents
        self._held: dict[int, tuple[Floats | None, Floats | None, NDArray[np.int32]]] = {}

    def begin(self, data: Floats | None, into: Floats | None, n_elements: int) -> int:
        """Queue the tree's next sum and return its position.  `step` is due at once.

        `data` (of a giver) must not change before `forget`; `into` (of a taker) is written until the sum is
        reported as finished, never after.
        """
        self._check("data", data, self._tree.givers, n_elements)
        self._check("into", into, self._tree.takers, n_elements)
        if data is not None and into is not None and np.may_share_memory(data, into):
            raise ValueError(
                "into shares memory with data, which may have to be sent again: use another array"
            )
        exponents = np.empty(self._tree.n_chunks(n_elements * ELEMENT_NBYTES), np.int32)
        addresses = (None if each is None else each.ctypes.data for each in (data, into, exponents))
        position: int = self._c.worker_begin(self._open, *addresses, n_elements)
        if position < 0:
            raise MemoryError
        self._held[position] = (data, into, exponents)
        return position

    def _check(self, name: str, array: Floats | None, ranks: tuple[int, ...], n_elements: int) -> None:
        if (array is not None) != (self._rank in ranks):
            due = "an array" if self._rank in ranks else "None"
            raise ValueError(f"{name}: rank {self._rank} of aggregation job {self._tree.job} must pass {due}")
        if array is None:
            return
        if array.dtype != np.float32 or array.shape != (n_elements,) or not array.flags.c_contiguous:
            got = f"{array.dtype} {array.shape}"
            raise ValueError(f"{name}: expected {n_elements} contiguous float32 numbers, got {got}")

    @property
    def _open(self) -> int:
        """C's worker.  Raise ValueError after `close`."""
        if self._worker is None:
            raise ValueError("the worker is closed")
        return self._worker

    def step(self, now_ns: int) -> list[int]:
        """Receive, send what may be sent; returns the positions of sums that became finished.

        Raise WorkerFailed.
        """
        return self._finished(self._c.worker_step(self._open, now_ns))

    def run(self, poll_fd: int, until_ns: int) -> list[int]:
        """Wait and step until a sum is finished, or `wants_to_send` changed; returns what `step` does.

        `poll_fd` is an epoll with this socket in it: the wait is over too when another one of its files is
        ready, after a signal, and at `until_ns` (of time.monotonic_ns).  Raise WorkerFailed.
        """
        return self._finished(self._c.worker_run(self._open, poll_fd, until_ns))

    def _finished(self, failure: int) -> list[int]:
        if failure:
            raise self._failed(WorkerFailure(failure))
        return self._report.finished[: self._report.n_finished]  # type: ignore[no-any-return]

    @property
    def due_ns(self) -> int | None:
        """When `step` must be called at the latest; None: not before something is received or begun."""
        return None if self._report.due_ns == NEVER else self._report.due_ns

    @property
    def pause_ns(self) -> int:
        """How long `step` may wait although something can be received: a full window is under way."""
        return int(self._report.pause_ns)

    @property
    def wants_to_send(self) -> bool:
        """The socket was full: step when it can be written."""
        return bool(self._report.wants_to_send)

    def counts(self) -> WorkerCounts:
        return WorkerCounts(
            **{name: getattr(self._report, name) for name in WorkerCounts.__dataclass_fields__}
        )

    def scales(self, position: int) -> NDArray[np.int32]:
        """The exponent of each block of a finished sum (emu.replay.sums), NO_PEAK for zeros."""
        return self._held[position][2]

    def forget(self) -> None:
        """All ranks have finished what has been begun: its inputs are not needed again."""
        first = self._c.worker_forget(self._open)
        self._held = {position: arrays for position, arrays in self._held.items() if position >= first}

    def close(self) -> None:
        """Release all arrays.  The owner of the socket closes it."""
        if self._worker is not None:
            self._report = WorkerReport.from_buffer_copy(self._report)
            self._c.worker_free(self._worker)
            self._worker = None
        self._held.clear()

    def _failed(self, failure: WorkerFailure) -> WorkerFailed:
        if failure == WorkerFailure.INCOMPLETE:
            return self._incomplete()
        return WorkerFailed(self._reason(failure))

    def _reason(self, failure: WorkerFailure) -> str:
        report, job = self._report, self._tree.job
        match failure:
            case WorkerFailure.NO_ANSWER:
                return (
                    f"no switch answers aggregation job {job} {self._waited}: "
                    "check that its rules are installed and its links are up"
                )
            case WorkerFailure.NOT_FINITE:
                place = f"element {report.element} of sum {report.position}"
                return f"{place} of aggregation job {job} is not finite"
            case WorkerFailure.NO_CHUNKS:
                return f"aggregation job {job} has used up its chunk numbers; start it again"
            case WorkerFailure.FORGOTTEN:
                return (
                    f"a rank of aggregation job {job} asks for sums of an earlier repeat: was it restarted?"
                )
            case _:
                return f"the socket of aggregation job {job} failed: {os.strerror(report.error_number)}"

    def _incomplete(self) -> WorkerFailed:
        report = self._report
        absent: tuple[tuple[int, ...], ...] = ()
        if not report.has_status:
            what = "no switch reports what is missing"
        elif report.epoch != self._tree.epoch:  # the bits are of a tree that we do not know yet
            what = f"a switch of the new tree has data from some of its children only (bits {report.seen:b})"
        else:
            absent = missing(self._tree, self._behind, self._rank, report.levels, report.seen)
            what = complaint(absent)
        return WorkerFailed(
            f"a sum of aggregation job {self._tree.job} has made no progress {self._waited}: {what}",
            ranks_of(absent),
        )

    @property
    def _waited(self) -> str:
        return f"for {self._patience_ns / 1e9:g} s"


def missing(
    tree: Tree, behind: RanksBehind, rank: int, levels: int, seen: int
) -> tuple[tuple[int, ...], ...]:
    """The ranks behind each of the children that are not in `seen`, ascending.

    The bitmap is of the switch `levels` above the switch of `rank`'s host.  The result is empty if the tree
    has no such switch.
    """
    above = path(tree, behind, rank)
    if levels >= len(above):
        return ()
    node = above[levels]
    absent = [child for index, child in enumerate(node.children) if not seen >> index & 1]
    return tuple(behind[Egress(node.switch, child.port)] for child in absent)


def ranks_of(absent: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """All ranks behind what `missing` has found, ascending."""
    return tuple(sorted(rank for behind_one in absent for rank in behind_one))


def complaint(absent: tuple[tuple[int, ...], ...]) -> str:
    """What `missing` has found, in words.

    A child that is a switch may have the contributions of all its ranks but one.
    """
    if not absent:
        return "a switch reports that nothing is missing"
    ranks = ranks_of(absent)
    some = "some of " if any(len(behind_one) > 1 for behind_one in absent) else ""
    return f"nothing comes from {some}rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def path(tree: Tree, behind: RanksBehind, rank: int) -> tuple[Node, ...]:
    """The switches that the rank's contributions go through, the root last."""
    return tuple(
        node
        for node in reversed(tree.nodes)  # each comes after its parent
        if any(rank in behind[Egress(node.switch, child.port)] for child in node.children)
    )
