"""What is said of files of another version, and of words that a field cannot have."""

from typing import Literal

import pytest
from pydantic import TypeAdapter, ValidationError

from gradwire.traces.complaints import complaint, other_version

AGAIN = "make it again"
Spread = Literal["a", "b", "c"]
Single = Literal["d"]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Literal["a"], "'a'"),
        (Literal["a", "b"], "'a' or 'b'"),
        (Spread | Single | int, "'a', 'b', 'c' or 'd'"),
    ],
)
def test_a_word_that_a_field_cannot_have_is_refused_with_all_that_it_can(kind: object, words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(dict[str, kind]).validate_python({"kind": "x"})  # type: ignore[valid-type]
    assert complaint(refused.value) == f"kind is not {words}"


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
