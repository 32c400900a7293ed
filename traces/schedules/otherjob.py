"""A captured job as another one: with other ranks and other buckets."""

from gradwire.traces.schedules.buckets import rebucketed
from gradwire.traces.schedules.other import Other
from gradwire.traces.schedules.otherranks import with_ranks
from gradwire.traces.workload import Workload


def other_job(workload: Workload, n_ranks: int | None, bucket_nbytes: int | None) -> Other:
    """The job on `n_ranks` ranks with buckets of `bucket_nbytes` (None: as it has them), and what that takes
    for granted, a sentence for each.  Raise ValueError as `with_ranks` and `rebucketed` do.
    """
    ranked = Other(workload) if n_ranks is None else with_ranks(workload, n_ranks)
    cut = Other(ranked.workload) if bucket_nbytes is None else rebucketed(ranked.workload, bucket_nbytes)
    return Other(cut.workload, (*ranked.notes, *cut.notes))
