"""The messages of a replay, from the events that its agents recorded, and how well they match a capture."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from gradwire.emu.events import load_events
from gradwire.planning.plan import Plan
from gradwire.traces.fidelity import SentMessage, fidelity


def replayed_messages(folder: Path, plan: Plan, repeats: int) -> list[tuple[SentMessage, ...]]:
    """Of each repeat the sends that arrived, from being handed to TCP to the last byte's arrival.

    Raise BadRun, or OSError.
    """
    of_repeat = [load_events(folder, plan, number) for number in range(repeats)]
    queued, arrived = ([events.of(name).send_ns for events in of_repeat] for name in ("queued", "arrived"))
    sends, ops = list(plan.schedule.sends), plan.schedule.ops

    def message(number: int, start_ns: int, end_ns: int) -> SentMessage:
        send = sends[number]
        return SentMessage(ops[send.op].iteration, send.src, send.dst, send.nbytes, start_ns, end_ns)

    return [
        tuple(message(number, begins[number], ends[number]) for number in begins if number in ends)
        for begins, ends in zip(queued, arrived, strict=True)
    ]


def likeness(
    plan: Plan, captured: Sequence[SentMessage], replayed: Sequence[Sequence[SentMessage]]
) -> float | None:
    """The median fidelity of the repeats, over the plan's iterations without the set-up; None if the capture
    shows nothing of them.
    """
    iterations = {op.iteration for op in plan.schedule.ops if op.iteration >= 0}
    same, *others = (
        [message for message in messages if message.iteration in iterations]
        for messages in (captured, *replayed)
    )
    return median(fidelity(same, each).score for each in others) if same else None
