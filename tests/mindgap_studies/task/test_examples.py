"""The models of examples/task: their data in short, their training at night."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from mindgap.graph_capture import capture

FOLDER = Path(__file__).parents[3] / "examples" / "task"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"task_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_boxes_of_scenes_hold_the_digits() -> None:
    detector = example("detector")
    images, labels = torch.ones(2, 10, 10), torch.tensor([4, 7])
    drawn, boxes, found = detector.scenes(20, images, labels, np.random.default_rng(0))
    assert set(found.reshape(-1)) == {-1, 4, 7}
    for scene in range(20):
        inside = np.zeros((32, 32), bool)
        for left, top, right, bottom in boxes[scene][found[scene] >= 0].astype(int):
            inside[top:bottom, left:right] = True
        image = drawn[scene, 0].numpy()
        assert image[inside].mean() > 0.9 and abs(image[~inside].mean()) < 0.1
    one = detector.loss_of(detector.Detector(), drawn, boxes, found)
    assert one.requires_grad and float(one.detach()) > 0


def test_the_text_model_is_causal_and_can_be_captured() -> None:
    characters = example("characters")
    torch.manual_seed(0)
    model = characters.Characters().eval()
    tokens = torch.from_numpy(characters.text()[: 2 * 48].reshape(2, 48))
    later = tokens.clone()
    later[:, 30:] = 0
    with torch.no_grad():
        assert torch.allclose(model(tokens)[:, :30], model(later)[:, :30], atol=1e-5)
        graph = capture(model, (tokens,))
    assert graph.values[graph.outputs[0]].shape == (2, 48, 96)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "says"), [("digits", 464), ("detector", None), ("characters", 6.46)])
def test_training_gives_the_documented_figure(name, says, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    module = example(name)
    module.main()
    said = capsys.readouterr().out
    if name == "digits":
        # The same figure within what another processor's rounding changes over the training.
        assert abs(int(said.split(": ")[1].split()[0]) - says) < 15
        assert {"digits_dynamic.onnx", "digits_static.onnx"} <= {
            file.name for file in (tmp_path / "out/task").iterdir()
        }
    elif name == "characters":
        assert abs(float(said.split("perplexity ")[1].split()[0]) - says) < 0.3
    else:
        with np.load(tmp_path / "out/task/detector.npz") as data:
            assert data["images"].shape == (200, 1, 32, 32)
        assert float(said.split("loss ")[1].split()[0]) < 1
