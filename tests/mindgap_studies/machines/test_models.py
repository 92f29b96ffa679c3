"""Weights and inputs are the same on every machine: their digests are written down here."""

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

from mindgap.graph.compare.digest import digest_array
from mindgap_studies.machines.models.digits import enlarged
from mindgap_studies.machines.models.initial_weights import initial_weights, limit, load
from mindgap_studies.machines.models.networks import ResNet18, ResNet50V2, SmallCnn
from mindgap_studies.machines.models.trained_weights import expand
from mindgap_studies.machines.models.variants import VARIANTS, build, samples


def parameters(module):
    return sum(each.numel() for each in module.parameters())


def test_sizes_are_those_of_the_paper():
    # Table SUP-6; its two dense layers and the head have the printed numbers too.
    assert parameters(SmallCnn()) == 59_354
    assert [parameters(each) for each in SmallCnn().features if isinstance(each, torch.nn.Conv2d)] == [84, 380]
    convolutions = [m for m in ResNet18().modules() if isinstance(m, torch.nn.Conv2d)]
    assert len(convolutions) == 20
    assert abs(sum(map(parameters, convolutions)) / 11_170_816 - 1) < 0.001
    convolutions = [m for m in ResNet50V2().modules() if isinstance(m, torch.nn.Conv2d)]
    assert len(convolutions) == 53
    # Table SUP-5 gives 23,556,608 and 24,744,457 in all.
    assert abs(sum(map(parameters, convolutions)) / 23_500_000 - 1) < 0.01


def test_initial_weights_are_the_same_everywhere():
    module = SmallCnn()
    found = initial_weights(module, "he", 1)
    assert digest_array(found["features.3.weight"]) == "2753e724753f736214661d2c15c2f77f"
    for array in found.values():
        if array.ndim > 1:
            assert np.abs(array).max() <= limit(array.shape, "he")
            assert np.abs(array).max() > 0.9 * limit(array.shape, "he")
            assert np.unique(array).size > array.size * 0.7  # of 65,536 steps, so that some are drawn twice


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.architecture == "small" and v.trained], ids=str)
def test_trained_weights_are_the_same_everywhere(variant):
    state = build(variant).state_dict()
    found = digest_array(np.concatenate([state[name].numpy().reshape(-1) for name in sorted(state)]))
    assert (
        found
        == {"relu": "b6f6720b293359b436a17281dfc4bf12", "sigmoid": "f50c484404d523b921b504549f00e7ee"}[
            variant.activation
        ]
    )


def test_trained_weights_come_back_from_their_integers():
    draw = np.random.Generator(np.random.PCG64(1))
    begun = {"w": draw.normal(size=(6, 4, 3, 3)).astype(np.float32)}
    left, right, bias = draw.normal(size=(6, 2)), draw.normal(size=(2, 36)), draw.normal(size=6)
    tool = runpy.run_path(str(Path(__file__).parents[3] / "tools" / "train_digits.py"))
    found = expand(begun, {**tool["low_rank_entries"]("w", left, right), **tool["whole_entries"]("b", bias)})
    assert np.abs(found["w"] - begun["w"] - (left @ right).reshape(6, 4, 3, 3)).max() < 0.1
    assert np.abs(found["b"] - bias).max() < 1e-4
    assert found["w"].dtype == found["b"].dtype == np.float32


def test_the_trained_model_recognises_the_samples():
    for variant in VARIANTS:
        if variant.architecture == "small" and variant.trained and variant.activation == "relu":
            module = build(variant)
            with torch.no_grad():
                found = [int(module(torch.from_numpy(image)).argmax()) for image in samples(32).values()]
            assert found == [2, 3, 8]  # scikit-learn's digits 1437, 1438 and 1443


def test_images_are_enlarged_exactly():
    image = np.arange(64, dtype=np.int8).reshape(1, 8, 8) % 17
    found = enlarged(image, 32)
    assert found.shape == (1, 3, 32, 32) and found.dtype == np.float32
    assert (found[0, 1, ::4, ::4] * 16 == image[0]).all() and (found[0, 2, 3::4, 3::4] * 16 == image[0]).all()
    with pytest.raises(ValueError, match="no multiple of 8"):
        enlarged(image, 30)


def test_loading_reaches_parameters_and_buffers():
    module = ResNet18(width=4)
    load(module, {"bn1.running_mean": np.full(4, 3.0, np.float32), "fc.bias": np.full(10, 2.0, np.float32)})
    assert module.bn1.running_mean.tolist() == [3.0] * 4 and module.fc.bias.tolist() == [2.0] * 10
