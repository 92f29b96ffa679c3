"""Quantisers of OpenVINO (NNCF) and PyTorch (pt2e), and OpenVINO's hint of precision. Each list is given to the tool by
hand, as a user pastes it."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mindgap.cli.sources import only_program, source_client
from mindgap.graph import Graph, TensorStore
from mindgap.platforms.openvino.pytorch_frontend import import_openvino
from mindgap.platforms.registry import canonical
from mindgap_diagnosis.precision.finding import Bound, Precision, find_precision
from mindgap_diagnosis.precision.targets import opened_target
from platforms.byte_products import ADDS_BYTE_PRODUCTS_EXACTLY

Capture = Callable[[str], Graph]

#: One layer reads a channel 30,000 times as large as the others: one scale for the tensor leaves them no step. Asked in
#: https://github.com/openvinotoolkit/openvino/issues/20437: which layers to leave out of the quantisation.
OUTLIER = """
import torch
from torch import nn


class Outlier(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.wide, self.head = nn.Conv2d(3, 16, 3), nn.Linear(16, 16), nn.Linear(16, 10)
        self.scale = torch.ones(16)
        self.scale[0] = 3e4
        self.wide.weight.data[:, 0] /= 3e4

    def forward(self, x):
        return self.head(self.wide(torch.relu(self.conv(x)).mean((2, 3)) * self.scale))


def make():
    torch.manual_seed(0)
    return Outlier().eval(), (torch.randn(4, 3, 16, 16),)


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 64, bias=False), nn.Linear(64, 8, bias=False)

    def forward(self, x):
        return self.down(nn.functional.layer_norm(self.up(x), (64,)))


def normed():
    torch.manual_seed(0)
    return Normed().eval(), (torch.randn(1, 8, 64),)
"""


@pytest.fixture(scope="module")
def tensors(tmp_path_factory: pytest.TempPathFactory) -> TensorStore:
    return TensorStore(tmp_path_factory.mktemp("tensors"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "outlier.py"
    path.write_text(OUTLIER)
    return str(path)


@pytest.fixture(scope="module")
def capture(tensors: TensorStore) -> Iterator[Capture]:
    with source_client(tensors, 120.0, None) as client:
        yield lambda source: client.capture(only_program(client, source), 0)


def answer(
    capture: Capture, source: str, platform: str, to: str, bound: float, tensors: TensorStore, save: Path | None = None
) -> Precision:
    with opened_target(capture, source, canonical(platform), to, tensors, 120.0) as target:
        found, kept, exact = find_precision(target, Bound(bound), source)
        if save is not None:
            assert Bound(bound).measured(exact, target.save(kept, save)) == pytest.approx(found.after, abs=1e-3)
        return found


def program(source: str, name: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    names: dict[str, Any] = {}
    exec(Path(source).read_text(), names)
    return names[name]()


def share(given: Any, exact: torch.Tensor) -> float:
    wanted = exact.numpy(force=True)
    return float(np.abs(np.asarray(given) - wanted).max() / np.abs(wanted).max())


def test_nncf_leaves_out_the_layer_that_reads_the_outlier(
    capture: Capture, source: str, tmp_path: Path, tensors: TensorStore
) -> None:
    nncf, openvino = pytest.importorskip("nncf"), import_openvino()
    found = answer(capture, f"{source}:make", "openvino/cpu", "int8", 0.05, tensors, tmp_path / "mixed.xml")
    assert found.before > 0.2
    assert found.after < 0.05
    (listed,) = found.lists.values()
    saved = openvino.Core().compile_model(str(tmp_path / "mixed.xml"), "CPU")
    model, (x,) = program(source, "make")
    assert share(saved([x.numpy()])[0], model(x)) < 0.05
    # The printed scope names operators of OpenVINO's model: NNCF refuses others.
    scope = eval(listed.removeprefix("ignored_scope="), {"nncf": nncf})
    nodes = {each.name for each in found.kept}
    assert len(nodes) == 1 or not ADDS_BYTE_PRODUCTS_EXACTLY
    assert [node for node in nodes if {node, f"{node}/WithoutBiases"} <= {*scope.names}]


def test_pt2e_leaves_out_the_module_that_reads_the_outlier(capture: Capture, source: str, tensors: TensorStore) -> None:
    found = answer(capture, f"{source}:make", "cpu/eager", "int8", 0.05, tensors)
    assert [each.name for each in found.kept] == ["wide"]
    assert found.before > 0.2
    # As a user: torchao's flow, with the lines of the list.
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    model, args = program(source, "make")
    exact = model(*args)
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    exec(*found.lists.values(), {"quantizer": quantizer})
    prepared = prepare_pt2e(torch.export.export(model, args).module(), quantizer)
    prepared(*args)
    assert share(convert_pt2e(prepared)(*args).detach(), exact) < 0.05


def test_openvino_keeps_marked_operators_under_its_hint(
    capture: Capture, source: str, tmp_path: Path, tensors: TensorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    openvino = import_openvino()
    core = openvino.Core()
    if core.get_property("CPU", "INFERENCE_PRECISION_HINT").to_string() != "bf16":
        pytest.skip("this processor has no bfloat16")
    found = answer(capture, f"{source}:normed", "openvino/cpu", "bfloat16", 1e-3, tensors, tmp_path / "model.xml")
    assert found.before > 1e-3
    assert found.after < 1e-3
    # As a user: a plain file of the model, marked by the printed lines.
    file = tmp_path / "model.xml"
    file.write_text(re.sub(r"<rt_info>\s*<attribute name=.precise.*?</rt_info>", "", file.read_text()))
    assert "precise" not in file.read_text()
    monkeypatch.chdir(tmp_path)
    exec(*found.lists.values(), {})
    torch_model, (x,) = program(source, "normed")
    marked = core.compile_model(core.read_model("model.xml"), "CPU", {"INFERENCE_PRECISION_HINT": "bf16"})
    assert share(marked([x.numpy()])[0], torch_model(x)) < 1e-3
