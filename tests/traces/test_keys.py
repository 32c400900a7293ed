"""Keys: the tensors of ResNet-50, files of keys, and keys of a scaled buffer."""

from fractions import Fraction
from pathlib import Path

import pytest

from gradwire.traces.schedules.keys import Key, keys_named, load_keys, scaled


def test_resnet50_has_the_tensors_that_torchvision_counts() -> None:
    """161 of 25,557,032 elements: torchvision.models.resnet50, as its documentation says."""
    keys = keys_named("resnet50")
    assert (len(keys), len({key.name for key in keys})) == (161, 161)
    assert sum(key.n_elements for key in keys) == 25_557_032
    largest = sorted(keys, key=lambda key: -key.n_elements)[:5]
    assert [key.n_elements for key in largest] == [512 * 512 * 9] * 3 + [1024 * 2048, 2048 * 1000]
    assert keys[-2:] == (Key("fc.weight", 2_048_000), Key("fc.bias", 1000))


def test_a_file_has_a_name_and_a_number_in_each_line(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("conv1.weight 9408\n\n  bn1.bias\t64\n")
    assert keys_named(str(tmp_path / "keys")) == (Key("conv1.weight", 9408), Key("bn1.bias", 64))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no keys"),
        ("a 1\nb\n", "line 2 must be a name and a number of elements"),
        ("a 1 2\n", "line 1 must be a name and"),
        ("a -1\n", "line 1: '-1' is not a whole number from 1 to 274,877,906,944"),
        ("a 1.5\n", "line 1: '1.5' is not a whole number"),
        ("a 1\nb 0\n", "line 2: '0' is not a whole number from 1"),
        ("a 99999999999999999999\n", "line 1: '9{20}' is not a whole number"),
        (
            "a 274877906944\nb 1\n",
            "line 2: a file has at most 100,000 keys, of 274,877,906,944 elements together",
        ),
        ("a 1\n" * 100_001, "line 100001: a file has at most 100,000 keys"),
        ("\n" * 200_001, "a file of keys has at most 200,000 lines"),
        ("\x00" * 5000, "line 1 must be a name and"),
    ],
)
def test_what_is_not_a_file_of_keys_is_refused_with_its_line(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "keys").write_text(text)
    with pytest.raises(ValueError, match=reason):
        load_keys(tmp_path / "keys")


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(1, 8), Fraction(1, 1000), Fraction(3)])
def test_scaled_keys_fill_the_scaled_buffer(scale: Fraction) -> None:
    sizes = [key.n_elements for key in keys_named("resnet50")]
    assert sum(scaled(sizes, scale)) == round(25_557_032 * scale)
    assert all(abs(new - n * scale) <= 1 for n, new in zip(sizes, scaled(sizes, scale), strict=True))
