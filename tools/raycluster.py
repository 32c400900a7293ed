"""Plans the cells of a study on a Ray cluster; cells of a node that dies are planned again on others."""

import logging
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

from gradwire import COMMAND
from gradwire.results.studyresults import CellResult
from gradwire.tools.cellplanning import plan_cell
from gradwire.tools.study import StudyCell, code_digest

ANSWER_S = 60.0
RETRIES = 10  # of a cell whose node has died


def on_cluster(
    todo: Sequence[StudyCell], address: str
) -> Generator[tuple[StudyCell, CellResult], None, None]:
    """Each cell as it is done.

    Raise FileNotFoundError without Ray; OSError without a cluster at the address, for a node that does not
    answer or has other code, and for a cell whose nodes died one after the other.
    """
    if not todo:
        return
    # Ray's threads print what happens to nodes, and results are printed to standard output.
    with redirect_stdout(sys.stderr), _connected(address) as ray:
        _check_nodes(ray)
        plan = ray.remote(num_cpus=1, max_retries=RETRIES)(plan_cell)
        left = {plan.remote(each): each for each in todo}
        while left:
            finished, _ = ray.wait(list(left))
            for answer in finished:
                each = left.pop(answer)
                try:
                    yield each, ray.get(answer)
                except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError) as error:
                    raise OSError(
                        f"{each.name}: its process or its node ended {RETRIES + 1} times"
                    ) from error


@contextmanager
def _connected(address: str) -> Generator[Any, None, None]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise FileNotFoundError(f"--ray: Ray is not installed: run {COMMAND} setup --ray") from None
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise OSError(f"--ray {address}: no cluster answers there: {str(error).splitlines()[0]}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _node_code_digest() -> bytes:
    """The node's `code_digest`, as a plain function: Ray takes none that functools.cache has wrapped."""
    return code_digest()


def _check_nodes(ray: Any) -> None:
    """Raise OSError for a node that does not answer, or has other code or packages."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    probe = ray.remote(num_cpus=0, max_retries=0)(_node_code_digest)
    asked = {}
    for node in ray.nodes():
        if node["Alive"]:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            asked[probe.options(scheduling_strategy=there).remote()] = node["NodeManagerAddress"]
    answered, silent = ray.wait(list(asked), num_returns=len(asked), timeout=ANSWER_S)
    for answer in silent:
        raise OSError(f"the node at {asked[answer]} did not answer within {ANSWER_S:.0f} s")
    for answer in answered:
        try:
            is_same = ray.get(answer) == code_digest()
        except ray.exceptions.RayError as error:
            last = str(error).strip().splitlines()[-1]
            raise OSError(
                f"the node at {asked[answer]} cannot run gradwire ({last}): start Ray there in a checkout, "
                "with PYTHONPATH=$PWD"
            ) from None
        if not is_same:
            raise OSError(
                f"the node at {asked[answer]} has other code, Python or packages than this one: bring both "
                "to one commit, and set both up"
            )
