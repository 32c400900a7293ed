"""How a job is sent, from the words of a user: the same in commands and in Python."""

from dataclasses import replace

from gradwire.planning.experiment import Experiment
from gradwire.traces.schedules.dtypes import parse_dtype
from gradwire.traces.schedules.keys import keys_named
from gradwire.traces.schedules.names import parse_pace
from gradwire.traces.schedules.outbox import parse_order
from gradwire.traces.units import parse_ns


def sent_as(
    job: Experiment, *, wire: str, keys: str | None, pace: str | None, send_delay: str, order: str
) -> Experiment:
    """`job` with these choices; `keys` as `traces.schedules.keys.keys_named` reads them.

    Raise ValueError for a word that there is not, a delay that is too long, and a file of keys that cannot be
    used, or OSError.
    """
    return replace(
        job,
        wire=parse_dtype(wire),
        keys=tuple(key.n_elements for key in keys_named(keys)) if keys is not None else (),
        pace=None if pace is None else parse_pace(pace),
        send_delay_ns=parse_ns(send_delay),
        order=parse_order(order),
    )
