"""Does the cells of a study on a Ray cluster; cells of a node that dies are done again on others."""

import logging
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from typing import Any

from gradwire import COMMAND
from gradwire.results.studyresults import CellResult
from gradwire.tools.sweep.cellreplaying import plan_cell, replay_on_node
from gradwire.tools.sweep.progress import Tell
from gradwire.tools.sweep.study import StudyCell, code_digest
from gradwire.tools.thismachine import need_root_and_tools
from gradwire.traces.units import show_count

ANSWER_S = 60.0
RETRIES = 10  # of a cell whose node has died
SENDS = "gradwire"  # the resource of a root node on which one cell at a time may send packets
OFFER = "ray start --resources='{\"gradwire\": 1}'"


def on_cluster(
    todo: Sequence[StudyCell], tell: Tell, address: str
) -> Generator[tuple[StudyCell, CellResult], None, None]:
    """Each cell as it is done: plans anywhere, packets only on nodes that offer `SENDS`.

    Raise FileNotFoundError without Ray; OSError without a cluster at the address, for a node that does not
    answer, has other code or cannot send packets though it offers that, where none does, and for a cell whose
    nodes died one after the other.
    """
    if not todo:
        return
    # Ray's threads print what happens to nodes, and results are printed to standard output.
    with redirect_stdout(sys.stderr), _connected(address) as ray:
        n_nodes = _check_nodes(ray, sending=[each for each in todo if each.run])
        tell(f"on {show_count(n_nodes, 'node')} of {address}")
        plan = ray.remote(num_cpus=1, max_retries=RETRIES)(plan_cell)
        replay = ray.remote(num_cpus=1, max_retries=RETRIES, resources={SENDS: 1})(replay_on_node)
        left = {(replay if each.run else plan).remote(each): each for each in todo}
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


def _node_fault(needs: Sequence[StudyCell]) -> tuple[bytes, str | None]:
    """Of a node its `code_digest`, and why it cannot send the packets of these cells."""
    try:
        for each in needs:
            assert each.run
            need_root_and_tools("sweep", each.run.switch, each.run.captures, each.run.controller)
    except OSError as error:
        return code_digest(sends=True), str(error)
    return code_digest(sends=True), None


def _check_nodes(ray: Any, sending: Sequence[StudyCell]) -> int:
    """How many nodes there are, or how many may send packets if some cells are `sending`.

    Raise OSError for a node that does not answer, that has other code or packages, or that offers to send
    packets and cannot.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node for node in ray.nodes() if node["Alive"]]
    offering = [node for node in nodes if node["Resources"].get(SENDS, 0) >= 1]
    if sending and not offering:
        raise OSError(
            f"this study sends packets, and no node of the cluster offers {SENDS}: start Ray as root on one "
            f"with {OFFER}"
        )
    needs = list({each.run: replace(each, original=None) for each in sending}.values())
    probe = ray.remote(num_cpus=0, max_retries=0)(_node_fault)
    asked = {}
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        what = needs if node in offering else []
        asked[probe.options(scheduling_strategy=there).remote(what)] = node["NodeManagerAddress"]
    answered, silent = ray.wait(list(asked), num_returns=len(asked), timeout=ANSWER_S)
    for answer in silent:
        raise OSError(f"the node at {asked[answer]} did not answer within {ANSWER_S:.0f} s")
    for answer in answered:
        try:
            digest, fault = ray.get(answer)
        except ray.exceptions.RayError as error:
            last = str(error).strip().splitlines()[-1]
            raise OSError(
                f"the node at {asked[answer]} cannot run gradwire ({last}): start Ray there in a checkout, "
                "with PYTHONPATH=$PWD"
            ) from None
        if digest != code_digest(sends=True):
            raise OSError(
                f"the node at {asked[answer]} and this one have different code, Python or packages: check "
                "out the same commit on both, and set both up"
            )
        if fault is not None:
            raise OSError(f"the node at {asked[answer]} offers {SENDS}, but cannot send packets: {fault}")
    return len(offering if sending else nodes)
