"""Sets of arguments that are derived from given ones."""

from pathlib import Path

import numpy as np
import pytest

from cli.command_line import mindgap
from mindgap_diagnosis.stress import derived_sets, standard_normal

RANDOM = np.random.default_rng(0)


def test_a_picture_gets_areas_channels_and_ranges_of_its_own() -> None:
    images = RANDOM.normal(size=(2, 3, 8, 8)).astype(np.float32)
    sets = derived_sets({"images": images})
    assert list(sets) == [
        "given", "constant_area", "zeros", "large_channel", "times_8", "picture", "sorted", "padded_rows",
    ]  # fmt: skip
    made = {name: arrays["images"] for name, arrays in sets.items()}
    assert all(each.dtype == np.float32 and each.shape == images.shape for each in made.values())
    assert np.unique(made["constant_area"][:, :, :4]).size == 1
    assert np.array_equal(made["constant_area"][:, :, 4:], images[:, :, 4:])
    assert np.array_equal(made["large_channel"][:, 0], images[:, 0] * 100)
    assert not made["padded_rows"][:, :, 4:].any()
    assert (np.diff(made["sorted"], axis=-1) >= 0).all()
    assert made["picture"].min() == pytest.approx(-2.118, abs=1e-3)  # black in red, by torchvision's constants
    assert np.array_equal(images, sets["given"]["images"])


def test_tokens_are_repeated_and_padded_together_with_their_mask() -> None:
    tokens = np.array([[7, 3, 9, 5]], np.int64)
    sets = derived_sets({"ids": tokens, "mask": np.ones((1, 4), np.int64), "scale": np.float32(2).reshape(())})
    assert list(sets) == ["given", "sorted", "repeated_tokens", "padded_rows"]
    assert sets["repeated_tokens"]["ids"].tolist() == [[7, 7, 7, 7]]
    assert sets["padded_rows"]["ids"].tolist() == [[7, 3, 0, 0]]
    assert sets["padded_rows"]["mask"].tolist() == [[1, 1, 0, 0]]
    assert sets["sorted"]["mask"].tolist() == [[1, 1, 1, 1]]


def test_random_numbers_are_told_from_others() -> None:
    normal = RANDOM.normal(size=(4, 100))
    assert standard_normal({"x": normal})
    assert not standard_normal({"x": normal, "y": RANDOM.random((4, 100))})
    assert not standard_normal({"x": normal * 1.5})
    assert not standard_normal({"ids": np.arange(100)})


PROGRAM = """
import torch
from torch.nn import functional as F


class Contrast(torch.nn.Module):
    def forward(self, x):
        mean = F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
        variance = F.avg_pool2d(x * x, 3, 1, 1, count_include_pad=False) - mean * mean
        return (x - mean) / torch.sqrt(variance + 1e-12)


def make():
    torch.manual_seed(0)
    return Contrast(), (torch.randn(1, 3, 16, 16),)


def number():
    return torch.nn.Identity(), (torch.tensor(1.0),)
"""


def test_a_fault_that_random_numbers_hide_is_found_with_its_set(tmp_path: Path) -> None:
    """https://github.com/roboflow/rf-detr/issues/1233: a difference that images show and random inputs do not."""
    (tmp_path / "contrast.py").write_text(PROGRAM)
    ran = mindgap("stress", "contrast.py:make", "-p", "onnxruntime/cpu", "--no-own-path", cwd=tmp_path)
    assert ran.status == 1, ran.err
    assert "discrepant  aten.add.Tensor, contrast.py:10" in ran.out
    assert "given.npz: rounding" in ran.out
    assert "stress/given.npz,stress/constant_area.npz" in ran.out  # reduce opens them all
    assert "standard normal" in ran.err


def test_what_has_no_sets_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "contrast.py").write_text(PROGRAM)
    ran = mindgap("stress", "contrast.py:number", "-p", "cpu/jit", cwd=tmp_path)
    assert (ran.status, ran.out) == (2, "")
    assert "no set can be derived" in ran.err
