"""What parameter servers receive and send: pushes that add, pulls that replace, piece after piece.

Pushes, pulls and pieces of 32 KiB are PHub's (Luo et al., SoCC 2018).  A server needs no more room than the
buffer: it adds each push to what is there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwire.traces.schedules.algorithm import NotServedError
from gradwire.traces.schedules.sends import MAX_SENDS, Edges, Nbytes, Send, Sends

MAX_NEEDS = 1 << 25  # a pull needs the pushes of all workers: their square for each piece


class Group(NamedTuple):
    """A server and the ranks that push to it and pull from it."""

    server: int
    workers: tuple[int, ...]


def piece_sends(groups: Sequence[Group], owner: int) -> list[Send]:
    """The sends of one piece, without its size: workers push it to their group's server, servers push their
    sums to the piece's owner, and it comes back on the same way.  With one group there is one server.

    Pulls are announced at the beginning: a notice that waited for a push would wait behind all of them.
    """
    sends: list[Send] = []

    def add(src: int, dst: int, step: int, needs: Sequence[int] = ()) -> int:
        is_push = step < (1 if len(groups) == 1 else 2)
        sends.append(Send(0, src, dst, 0, 0, is_push, tuple(needs), step=step))
        return len(sends) - 1

    pushes = {group.server: [add(rank, group.server, 0) for rank in group.workers] for group in groups}
    others = [group.server for group in groups if group.server != owner]
    sums = {server: add(server, owner, 1, pushes[server]) for server in others}
    summed = [*pushes[owner], *sums.values()]
    here = {server: [add(owner, server, 2, summed)] for server in others} | {owner: summed}
    for group in groups:
        for rank in group.workers:
            add(group.server, rank, 1 if len(groups) == 1 else 3, here[group.server])
    return sends


def tiled(of_owner: Mapping[int, Sequence[Send]], owners: NDArray[np.integer[Any]], cuts: Nbytes) -> Sends:
    """The sends of all pieces: piece i has the bytes from `cuts[i]` to `cuts[i + 1]`, and is sent as
    `of_owner[owners[i]]` says.

    What one rank sends to another leaves in the order of the ids.  So no push is behind a pull that waits for
    others: all pushes are first.  But what servers exchange would then begin when the last push is in, so of
    each owner's pieces they return one after they have sent the next.  Raise NotServedError for too many.
    """
    pieces = {owner: np.flatnonzero(owners == owner) for owner in of_owner}
    _check_size(of_owner, {owner: len(some) for owner, some in pieces.items()})
    parts = [_repeated(Sends.of(of_owner[owner]), len(some)) for owner, some in pieces.items()]
    piece = np.concatenate([np.repeat(some, len(of_owner[owner])) for owner, some in pieces.items()])
    sends = replace(Sends.joined(parts), offset=cuts[piece], nbytes=cuts[piece + 1] - cuts[piece])
    place = _place_at_owner(owners)[piece]
    if sends.step.max(initial=0) > 1:
        order = np.lexsort((piece, np.where(sends.reduce, 2 * place, 2 * place + 3)))
    else:
        order = np.lexsort((piece, sends.step))
    return _ordered(sends, order).with_bytes()


def _place_at_owner(owners: NDArray[np.integer[Any]]) -> NDArray[np.intp]:
    """The place of each piece among those of its owner."""
    by_owner = np.argsort(owners, kind="stable")
    starts = np.searchsorted(owners[by_owner], owners[by_owner])
    place = np.empty(len(owners), np.intp)
    place[by_owner] = np.arange(len(owners)) - starts
    return place


def _check_size(of_owner: Mapping[int, Sequence[Send]], n_pieces: Mapping[int, int]) -> None:
    n_sends = sum(n_pieces[owner] * len(sends) for owner, sends in of_owner.items())
    n_needs = sum(
        n_pieces[owner] * sum(len(send.needs) for send in sends) for owner, sends in of_owner.items()
    )
    if n_sends > MAX_SENDS or n_needs > MAX_NEEDS:
        raise NotServedError(f"the pieces would make {n_sends:,} sends: choose a larger chunk=")


def _repeated(sends: Sends, times: int) -> Sends:
    def edges(one: Edges) -> Edges:
        starts = np.zeros(len(sends) * times + 1, np.int32)
        np.cumsum(np.tile(one.counts, times), out=starts[1:])
        first = np.repeat(np.arange(times, dtype=np.int32) * np.int32(len(sends)), len(one.ids))
        return Edges(starts, np.tile(one.ids, times) + first)

    names = ("op", "src", "dst", "step", "offset", "shift", "nbytes", "reduce")
    columns: dict[str, Any] = {name: np.tile(getattr(sends, name), times) for name in names}
    return Sends(**columns, needs=edges(sends.needs), ready=edges(sends.ready))


def _ordered(sends: Sends, order: NDArray[np.integer[Any]]) -> Sends:
    """The sends in this order of their ids."""
    new = np.empty(len(order), np.int64)
    new[order] = np.arange(len(order))
    moved = sends.chosen(order, keep_edges=True)
    return replace(moved, needs=moved.needs.renumbered(new), ready=moved.ready.renumbered(new))


def servers_first(sends: Sends, n_servers: int, n_workers: int) -> Sends:
    """Servers take a piece from workers that do not serve when the one before is in from those that do.

    The first `n_servers` of all workers serve, each one its own pieces.  Their pushes share their cables with
    their pulls, and TCP gives a connection that waits at two links less than one that waits at one (its
    segments in the fabric are few, planning.model.segments).  Without this the other workers would be far
    ahead, all pulls wait for the servers' own pushes, and the cables be idle in the end: of 16 workers of
    which 8 serve, packets took 1.14 times the closed form.
    """
    pushes = np.flatnonzero(sends.reduce)
    order = np.lexsort((sends.src[pushes], sends.offset[pushes], sends.dst[pushes]))
    pieces = pushes[order].reshape(-1, n_workers - 1)  # of each the pushes; those of servers come first
    n_others = n_servers - 1
    if not len(pieces) or not n_others or n_servers == n_workers:
        return sends
    follows = np.flatnonzero(np.diff(sends.dst[pieces[:, 0]]) == 0)
    waiting, before = pieces[follows + 1, n_others:], pieces[follows, :n_others]
    starts = np.zeros(len(sends) + 1, np.int32)
    np.cumsum(np.bincount(waiting.ravel(), minlength=len(sends)) * n_others, out=starts[1:])
    ids = np.repeat(before, n_workers - n_servers, axis=0)[np.argsort(waiting.ravel())]
    return replace(sends, ready=Edges(starts, ids.ravel().astype(np.int32)))


def one_by_one(sends: Sends) -> Sends:
    """The sends with steps one after the other: a rank begins one when all that it gets before is in.

    Of each sender the last will do: what one rank sends to another comes in order.
    """
    sends = _ordered(sends, np.argsort(sends.step, kind="stable"))
    needs: list[tuple[int, ...]] = []
    last_into: dict[int, dict[int, int]] = {}
    for step in range(int(sends.step.max(initial=-1)) + 1):
        here = np.flatnonzero(sends.step == step)
        all_in = {rank: tuple(sorted(last.values())) for rank, last in last_into.items()}
        needs += (all_in.get(rank, ()) for rank in sends.src[here].tolist())
        for number, src, dst in zip(
            here.tolist(), sends.src[here].tolist(), sends.dst[here].tolist(), strict=True
        ):
            last_into.setdefault(dst, {})[src] = number
    if sum(map(len, needs)) > MAX_NEEDS:
        raise NotServedError("too many pieces would wait for each other: choose a larger chunk=")
    return replace(sends, needs=Edges.of(needs))
