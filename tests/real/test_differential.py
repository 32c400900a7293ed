"""Our switch and Open vSwitch get the same requests and the same packets, and must do the same."""

import os
import tempfile
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck, given, settings
from os_ken.ofproto import ofproto_v1_3 as ofp

from tests.made_frames import Frame
from tests.made_rules import PORTS, Change, FlowChange, GroupBucket, GroupChange, Output, ToGroup
from tests.made_scenarios import Phase, scenarios
from tests.real.inside import inside
from tests.real.two_switches import difference, two_switches

pytestmark = [pytest.mark.real, pytest.mark.untimed]

# Without GRADWIRE_EXAMPLES the same few every time; with it that many, and others every time.
N_EXAMPLES = int(os.environ.get("GRADWIRE_EXAMPLES", "60"))
IS_RANDOM = "GRADWIRE_EXAMPLES" in os.environ
# GRADWIRE_SHRINK=1 looks for the smallest scenario that fails; Hypothesis stops after five minutes.
IS_SHRUNK = os.environ.get("GRADWIRE_SHRINK") == "1"
SHRINK_S = 300
PHASES = (hypothesis.Phase.generate, *([hypothesis.Phase.shrink] if IS_SHRUNK else []))


def differences() -> dict[str, int]:
    """How much was compared; AssertionError at the first difference, with its scenario."""
    seen = {"scenarios": 0, "requests": 0, "refused": 0, "packets": 0, "came out": 0, "unasked": 0}
    with tempfile.TemporaryDirectory(dir="/run") as folder, two_switches(Path(folder)) as both:

        @settings(
            max_examples=N_EXAMPLES,
            derandomize=not IS_RANDOM,
            deadline=None,
            database=None,
            phases=PHASES,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )
        @given(scenarios())
        def same(scenario: tuple[Phase, ...]) -> None:
            both.reset()
            for number, phase in enumerate(scenario, 1):
                ours, peer = both.run(phase)
                assert ours == peer, f"phase {number} of {len(scenario)}:\n{difference(ours, peer)}"
                seen["requests"] += len(phase.changes)
                seen["refused"] += len(ours.refusals)
                seen["packets"] += len(phase.frames)
                seen["unasked"] += len(ours.unasked)
                seen["came out"] += sum(came.total() for came in ours.came.values())
            ours_removed, peer_removed = both.removals()
            assert ours_removed == peer_removed
            seen["unasked"] += len(ours_removed)
            seen["scenarios"] += 1

        same()
    return seen


def test_any_requests_and_packets_have_the_same_effect_on_both_switches() -> None:
    seen = inside(differences, timeout_s=120 + 2 * N_EXAMPLES + SHRINK_S * IS_SHRUNK)
    assert seen["came out"] > seen["packets"] / 4
    assert seen["refused"] < seen["requests"] / 4


IN_PORT = PORTS[0]
# (output, watched port) of each bucket.  The last group has no bucket left when 2 and 3 are cut.
FAILOVER = {1: ((2, 2), (3, 3), (7, 7)), 2: ((2, 3), (3, 7), (7, 2)), 3: ((7, 3), (3, 2))}
CUTS = ((), (2,), (3,), (7,), (2, 3), (2, 7), (3, 7), (2,), ())
N_PACKETS = 3


def failover_phases() -> list[Phase]:
    """Packets to each group of FAILOVER, with each of CUTS; halfway the first group is modified."""
    groups = {
        number: tuple(GroupBucket((Output(out),), watch_port=watched) for out, watched in buckets)
        for number, buckets in FAILOVER.items()
    }
    added: list[Change] = [
        GroupChange(ofp.OFPGC_ADD, ofp.OFPGT_FF, number, groups[number]) for number in groups
    ]
    added += [
        FlowChange(ofp.OFPFC_ADD, (("eth_dst", f"02:00:00:00:00:{number:02x}"),), 1, (ToGroup(number),))
        for number in groups
    ]
    frames = tuple(
        Frame(
            IN_PORT, bytes((2, 0, 0, 0, 0, number, 2, 0, 0, 0, 9, 9, 0x88, 0xB6)) + bytes(60), f"to {number}"
        )
        for number in groups
        for _ in range(N_PACKETS)
    )
    modified = GroupChange(ofp.OFPGC_MODIFY, ofp.OFPGT_FF, 1, groups[1])
    changes = {0: tuple(added), len(CUTS) // 2: (modified,)}
    return [Phase(changes.get(i, ()), frozenset(down), frames) for i, down in enumerate(CUTS)]


def failover_outputs() -> list[list[dict[int, list[int]]]]:
    """For each of CUTS and each switch, the groups whose packets came out of each port, in order."""
    outputs = []
    with tempfile.TemporaryDirectory(dir="/run") as folder, two_switches(Path(folder)) as both:
        both.reset()
        for phase in failover_phases():
            ours, peer = both.run(phase)
            assert ours == peer, f"with {sorted(phase.down)} cut:\n{difference(ours, peer)}"
            outputs.append(
                [
                    {port: sorted(frame[5] for frame in came.elements()) for port, came in side.came.items()}
                    for side in (ours, peer)
                ]
            )
    return outputs


def test_a_fast_failover_group_uses_its_first_bucket_whose_port_is_live_on_both_switches() -> None:
    for down, sides in zip(CUTS, inside(failover_outputs, timeout_s=120), strict=True):
        expected: dict[str, list[int]] = {}
        for number, buckets in FAILOVER.items():
            out = next((out for out, watched in buckets if watched not in down), None)
            if out is not None and out not in down:
                expected.setdefault(str(out), []).extend([number] * N_PACKETS)
        assert sides == [expected, expected], f"with {down} cut"
