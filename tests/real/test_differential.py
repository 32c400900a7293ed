"""Our switch and Open vSwitch get the same requests and the same packets, and must do the same."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.made_scenarios import Phase, scenarios
from tests.real.inside import inside
from tests.real.two_switches import difference, two_switches

pytestmark = pytest.mark.real

# Without GRADWIRE_EXAMPLES the same few every time; with it that many, and others every time.
N_EXAMPLES = int(os.environ.get("GRADWIRE_EXAMPLES", "60"))
IS_RANDOM = "GRADWIRE_EXAMPLES" in os.environ


def differences() -> dict[str, int]:
    """How much was compared; AssertionError at the first difference, with the smallest scenario."""
    seen = {"scenarios": 0, "requests": 0, "refused": 0, "packets": 0, "came out": 0, "told": 0}
    with tempfile.TemporaryDirectory(dir="/run") as folder, two_switches(Path(folder)) as both:

        @settings(
            max_examples=N_EXAMPLES,
            derandomize=not IS_RANDOM,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(scenarios())
        def same(scenario: tuple[Phase, ...]) -> None:
            both.reset()
            for phase in scenario:
                ours, peer = both.run(phase)
                assert ours == peer, difference(ours, peer)
                seen["requests"] += len(phase.changes)
                seen["refused"] += len(ours.refusals)
                seen["packets"] += len(phase.frames)
                seen["told"] += len(ours.told)
                seen["came out"] += sum(came.total() for came in ours.came.values())
            ours_removed, peer_removed = both.removals()
            assert ours_removed == peer_removed
            seen["told"] += len(ours_removed)
            seen["scenarios"] += 1

        same()
    return seen


def test_any_requests_and_packets_have_the_same_effect_on_both_switches() -> None:
    seen = inside(differences, timeout_s=60 + N_EXAMPLES)
    assert seen["came out"] > seen["packets"] / 4
    assert seen["refused"] < seen["requests"] / 4
