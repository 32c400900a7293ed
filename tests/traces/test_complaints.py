"""What is said of files of another version."""

import pytest

from gradwire.traces.complaints import other_version

AGAIN = "make it again"


@pytest.mark.parametrize(
    ("found", "writer"), [("gradwire.plan/1", "an older"), ("gradwire.plan/3", "a newer")]
)
def test_another_version_of_the_same_kind_is_named_with_what_to_do(found: str, writer: str) -> None:
    reason = other_version(found, "gradwire.plan/2", AGAIN)
    assert reason.startswith(
        f"it is {found}, which {writer} gradwire wrote; this one reads gradwire.plan/2: "
    )
    assert reason.endswith(AGAIN if writer == "an older" else "use the newer one")


@pytest.mark.parametrize(
    "found",
    ["gradwire.plan/2", "gradwire.plan/", "gradwire.plan/x", "gradwire.workload/1", "", None, 2, ["a"]],
)
def test_what_is_no_other_version_is_not_called_one(found: object) -> None:
    assert other_version(found, "gradwire.plan/2", AGAIN) == ""
