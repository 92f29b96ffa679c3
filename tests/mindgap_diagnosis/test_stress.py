"""Sets of arguments that are derived from given ones."""

import json
import re
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


class Pooled(torch.nn.Module):
    def forward(self, images):
        return F.max_pool2d(F.pad(images, (1, 1, 1, 1)), 3, stride=2)


class Gated(torch.nn.Module):
    def forward(self, x):
        return torch.sigmoid(x).log()


class Softened(torch.nn.Module):
    def forward(self, x):
        return F.softplus(x).log()


class Masked(torch.nn.Module):
    def forward(self, x, mask):
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask[:, None, :, None] & mask[:, None, None, :])


class Centred(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(256)

    def forward(self, kelvin):
        return self.norm(kelvin)


class Means(torch.nn.Module):
    def forward(self, words, values):
        rows = words[:, None].expand(values.shape)
        return torch.zeros(8, 4).scatter_reduce(0, rows, values, "mean", include_self=False)


def centred():
    torch.manual_seed(0)
    above = 40 * torch.randn(2, 6, 128)
    return Centred().eval(), (1234 + torch.cat([above, -above], 2),)  # their mean is the thread's number


def means():
    torch.manual_seed(0)
    return Means(), (torch.randperm(8), torch.randn(8, 4))


def pooled():
    torch.manual_seed(0)
    return Pooled(), (torch.rand(1, 3, 15, 15),)


def gated():
    torch.manual_seed(0)
    return Gated(), (torch.randn(4, 64),)


def softened():
    torch.manual_seed(0)
    return Softened(), (torch.randn(4, 64),)


def masked():
    torch.manual_seed(0)
    return Masked(), (torch.randn(2, 2, 6, 8), torch.ones(2, 6, dtype=torch.bool))


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


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("program", "platform", "shown"),
    [
        # https://github.com/onnxsim/onnxsim/issues/290, as ONNX Runtime does it: images from 0 to 1 hide it.
        pytest.param("pooled", "onnxruntime/cpu", "picture", id="onnxsim 290"),
        # Digits are lost far below zero.
        pytest.param("gated", "onnxruntime/cpu", "large_channel", id="onnxruntime 22557"),
        pytest.param("softened", "openvino/cpu@frontend=onnx,precision=f32", "large_channel", id="openvino 23673"),
        # A row that is masked whole.
        pytest.param("masked", "openvino/cpu@precision=f32", "padded_rows", id="openvino 35959"),
        # The exporter's lowest float for minus infinity makes such a row the mean of the values.
        pytest.param("masked", "onnxruntime/cpu", "padded_rows", id="onnxscript 2654"),
        # The variance of equal numbers, as the mean of squares less the square of the mean, is below zero.
        pytest.param("centred", "onnxruntime/cpu@env=1.20.1", "constant_area", id="onnxruntime 21935"),
        # Of several values for one place the exporter takes the last; each place has one where words differ.
        pytest.param("means", "onnxruntime/cpu", "repeated_tokens", id="onnxscript 582"),
    ],
)
def test_a_fault_of_a_thread_that_random_numbers_hide(program: str, platform: str, shown: str, tmp_path: Path) -> None:
    """Faults of released versions; given.npz is calm, and the worst set is one that the thread describes."""
    (tmp_path / "contrast.py").write_text(PROGRAM)
    if version := platform.partition("env=")[2]:
        assert mindgap("env", "create", version, f"onnxruntime=={version}", cwd=tmp_path).status == 0
    ran = mindgap("stress", f"contrast.py:{program}", "-p", platform, "--no-own-path", "--json", cwd=tmp_path)
    assert ran.status == 1, ran.err
    (row,) = json.loads(ran.out)["rows"]
    worst, _, others = row["detail"].partition(".npz (")
    verdicts = {**dict(re.findall(r"(\w+)\.npz: (\w+)", others)), worst: row["verdict"]}
    assert verdicts["given"] in ("identical", "rounding"), row["detail"]
    assert verdicts[shown] not in ("identical", "rounding"), row["detail"]


def test_what_has_no_sets_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "contrast.py").write_text(PROGRAM)
    ran = mindgap("stress", "contrast.py:number", "-p", "cpu/jit", cwd=tmp_path)
    assert (ran.status, ran.out) == (2, "")
    assert "no set can be derived" in ran.err
