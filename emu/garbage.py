"""Python's garbage collector, in processes that keep much for long, such as 100,000 rules."""

import gc

_NEW = 50_000  # more objects than there were, before it looks through these; Python's own choice is 700


def spare_what_is_there() -> None:
    """The collector passes over all that there is now, and seldom looks at what comes.

    What nobody refers to goes at once all the same; it is there for rings of objects only.
    """
    gc.freeze()
    gc.set_threshold(_NEW)
