"""Whether two readings of a job are equal in every column: one of whole packets, one of trimmed packets."""

from collections.abc import Iterator

import numpy as np

from gradwire.traces.framing.messages import COLUMNS, Messages
from gradwire.traces.trace import Losses, Trace


def differences(whole: Trace, trimmed: Trace) -> tuple[str, ...]:
    """Sentences on what a trimmed capture shows otherwise than its whole packets do; none if nothing."""
    return tuple(_differences(whole, trimmed))


def _differences(whole: Trace, trimmed: Trace) -> Iterator[str]:
    if whole.framing != trimmed.framing:
        names = [trace.framing or "no training" for trace in (whole, trimmed)]
        yield f"framing: {names[0]} in the whole packets, {names[1]} in the trimmed ones"
    if whole.addresses != trimmed.addresses:
        yield "ranks: the trimmed packets give other hosts, or the same in another order"
    yield from _of_messages(whole.messages, trimmed.messages)
    yield from _of_losses(whole.losses, trimmed.losses)


def _of_messages(whole: Messages, trimmed: Messages) -> Iterator[str]:
    if len(whole) != len(trimmed):
        yield f"messages: {len(whole):,} in the whole packets, {len(trimmed):,} in the trimmed ones"
        return
    if whole.operations != trimmed.operations:
        yield "operations: the trimmed packets name others"
    for name in COLUMNS:
        is_other = np.not_equal(getattr(whole, name), getattr(trimmed, name))
        if is_other.any():
            row = int(np.argmax(is_other))
            values = [getattr(messages, name)[row] for messages in (whole, trimmed)]
            yield (
                f"{name}: {np.count_nonzero(is_other):,} of {len(whole):,} messages differ, the first at "
                f"message {row}: {values[0]} in the whole packets, {values[1]} in the trimmed ones"
            )


def _of_losses(whole: Losses, trimmed: Losses) -> Iterator[str]:
    if whole.unresolved_nbytes != trimmed.unresolved_nbytes or whole.unresolved != trimmed.unresolved:
        yield (
            f"unread: {whole.unresolved_nbytes:,} bytes in {whole.unresolved:,} places of the whole packets, "
            f"{trimmed.unresolved_nbytes:,} in {trimmed.unresolved:,} of the trimmed ones"
        )
