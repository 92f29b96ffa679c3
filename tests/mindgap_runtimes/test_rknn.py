"""Rockchip's NPUs on the maker's simulator. Its workers run where the environment of its recipe exists."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from mindgap.platforms.delegation import delegation_of
from mindgap.platforms.environments import EnvironmentProblem, find
from mindgap.platforms.onnx.export import export
from mindgap.platforms.protocol import PlatformError, Unsupported
from mindgap.platforms.registry import canonical
from mindgap.run.outcome import Job
from mindgap_runtimes.rknn.backend import BACKEND, OPSET, RknnPlatform
from mindgap_runtimes.rknn.messages import delegation, last_line, read
from platforms.elsewhere import workers
from platforms.onnx_graphs import captured, normal

PLATFORM = "rknn/simulator"
TABLE = """\
D RKNN: [23:53:10] ID OpType         DataType Target InputShape  OutputShape Cycles(DDR/NPU/Total) RW(KB) FullName
D RKNN: [23:53:10] 0  InputOperator  FLOAT16  CPU    \\           (1,3,32,32) 0/0/0          0  InputOperator:x
D RKNN: [23:53:10] 1  ConvRelu       FLOAT16  NPU    (1,3,32,32) (1,8,32,32) 1694/9216/9216 7  Conv:node_conv
D RKNN: [23:53:10] 2  Reshape        FLOAT16  CPU    (1,8,32,32) (1,8192)    0/0/0          7  Reshape:made-rs
D RKNN: [23:53:10] 3  OutputOperator FLOAT16  CPU    (1,8192)    \\           0/0/0          32 OutputOperator:y
"""


def test_the_compilers_table_tells_what_the_npu_runs():
    found = delegation(TABLE, "rk3588", {"node_conv": "aten.conv2d.default"})
    assert (found.ran, found.gave_back) == ({"aten.conv2d.default": 1}, {"Reshape": 1})
    assert found.summary == "rk3588's NPU ran 1 of 2 operators; rk3588's processors ran Reshape (1)"


def test_the_error_at_the_end_of_a_traceback_counts():
    text = (
        "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nValueError: Not support input\n  'int16'!"
    )
    assert last_line(ValueError(text), "") == "ValueError: Not support input 'int16'!"
    printed = "\x1b[1;31mE\x1b[0m \x1b[1;31minference: Unsupport inputs[0].dtype: float64\x1b[0m\n"
    assert last_line(ValueError(), f"I begin\n{printed}") == "inference: Unsupport inputs[0].dtype: float64"
    assert "says nothing" in last_line(ValueError(), "I begin\n")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ValueError: Not support input data type 'int16'!", "refusal"),
        ("inference: Unsupport inputs[0].dtype: float64", "refusal"),
        ("[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find an implementation for Add(14)", "refusal"),
        ("ValueError: inputs or 'outputs' must be set!", "failure"),
        ("IndexError: list index out of range", "failure"),
    ],
)
def test_messages(text: str, kind: str):
    assert read(text, "Op type: GatherND\nOp name: node_GatherND_7\n").kind == kind
    assert read(text, "Op type: GatherND\nOp name: node_GatherND_7\n").node == "node_GatherND_7"


def test_a_model_without_inputs_is_refused():
    graph, inputs = captured(lambda: torch.full((3, 4), 2.5))
    with pytest.raises(Unsupported, match="builds no model without inputs"):
        RknnPlatform({"target": "rk3588", "opt": "3"}).load(graph, inputs)


def test_the_model_is_of_an_operator_set_that_the_toolkit_reads():
    graph, inputs = captured(lambda x: torch.nn.functional.gelu(x), normal(3, 4))
    model = onnx.load_from_string(export(graph, inputs, opset=OPSET).model)
    assert [(each.domain, each.version) for each in model.opset_import] == [("", OPSET)]
    # Gelu came with set 20: PyTorch's own export of set 18 has no such node either.
    names = {node.op_type for node in model.graph.node}
    program = torch.onnx.export(torch.nn.GELU(), (normal(3, 4),), dynamo=True, opset_version=OPSET, verbose=False)
    assert names == {node.op_type for node in program.model_proto.graph.node} and "Gelu" not in names


def test_a_list_of_calibration_data_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(PlatformError, match=r"calibration=no\.txt: no such file; give a list of \.npy files"):
        RknnPlatform({"target": "rk3588", "opt": "3", "calibration": "no.txt"})
    (tmp_path / "list.txt").write_text("a.npy\n")
    script = BACKEND.script_runner({"calibration": f"{tmp_path}/list.txt"})
    assert f"rknn.build(do_quantization=True, dataset='{tmp_path}/list.txt')" in script.run
    assert "do_quantization=False" in BACKEND.script_runner({}).run


@pytest.mark.nightly
def test_a_list_of_calibration_data_quantises_to_int8(tmp_path):
    torch.manual_seed(0)
    graph, inputs = captured(torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU()), normal(1, 3, 16, 16))
    np.save(tmp_path / "given.npy", inputs[0])
    (tmp_path / "list.txt").write_text(f"{tmp_path}/given.npy\n")
    name = canonical(f"{PLATFORM}@calibration={tmp_path}/list.txt")
    with workers(PLATFORM, name) as pool:
        plain, quantised = (pool.run(Job(canonical(each), graph, want="outputs")) for each in (PLATFORM, name))
        assert pool.describe(name)["quantised"] == f"int8, calibrated by {tmp_path}/list.txt"
    assert plain.ran and quantised.ran and plain.arrays and quantised.arrays
    assert len(np.unique(quantised.arrays[0])) <= 256 < len(np.unique(plain.arrays[0]))


def test_a_graph_runs_in_float16_and_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph, inputs = captured(lambda x: torch.relu(x @ x) * 1.1, normal(8, 8))
    with workers(PLATFORM) as pool:
        outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
        assert outcome.status == "ok", outcome.message
        (array,) = outcome.arrays
        exact = np.maximum(inputs[0].astype("f8") @ inputs[0], 0) * 1.1
        assert array.dtype == np.float32 and 0 < np.abs(array - exact).max() < 0.01
        taken = delegation_of(outcome.facts)
        assert taken is not None and taken.delegate == "rk3588's NPU" and taken.ran
        # The toolkit drops the input that nothing reads.
        unread, (_, z) = captured(lambda x, z: torch.relu(z), normal(8), normal(8) + 5)
        outcome = pool.run(Job(PLATFORM, unread, want="outputs"))
        assert outcome.status == "ok" and np.abs(outcome.arrays[0] - z).max() < 0.01
        description = pool.describe(PLATFORM)
    assert description["execution"] == "simulated" and description["dtypes"]["float32"]["computes_in"] == "float16"
    assert not [*tmp_path.iterdir()]


#: Gives the script a simulator that is one step off in one element, and prints what it finds.
SPOILED = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
import rknn_quantised as script
from pathlib import Path
right = script._simulated
def spoiled(*given):
    found = right(*given)
    steps = np.unique(found["relu"])
    found["relu"].flat[7] = steps[1] if found["relu"].flat[7] == steps[0] else 0
    return found
script._simulated = spoiled
sys.exit(script.main(*[Path(each) for each in sys.argv[2:]]))
"""


class Layers(torch.nn.Module):
    """What a net for pictures is made of, a sum of a convolution among it."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.Linear(16, 10)
        self.second, self.third = torch.nn.Conv2d(16, 16, 3, padding=1, groups=16), torch.nn.Conv2d(16, 16, 1)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = self.third(torch.relu(self.second(x))) + x
        x = torch.nn.functional.avg_pool2d(torch.sigmoid(torch.nn.functional.max_pool2d(x, 2)), 2)
        return self.last(torch.cat([x, x * 0.3], 1)[:, :16].mean((2, 3)))


@pytest.mark.nightly
def test_of_the_toolkits_own_quantisation_each_integer_is_right(tmp_path):
    scripts = Path(__file__).parents[2] / "docs" / "platforms" / "scripts"
    try:
        python = str(find("rknn").python)
    except EnvironmentProblem as problem:
        pytest.skip(str(problem))
    torch.manual_seed(1)
    model, x = Layers().eval(), torch.randn(1, 3, 16, 16)
    torch.onnx.export(model, (x,), dynamo=True, opset_version=OPSET, verbose=False).save(tmp_path / "model.onnx")
    np.save(tmp_path / "given.npy", x.numpy())
    (tmp_path / "list.txt").write_text(f"{tmp_path}/given.npy\n")
    files = [str(tmp_path / name) for name in ("model.onnx", "list.txt", "out.onnx")]

    def run(*command: str) -> tuple[int, dict[str, tuple[int, int]]]:
        done = subprocess.run([python, *command, *files], capture_output=True, text=True, check=False)
        layers = re.findall(r"^(\w+): (\d+) of (\d+) integers are wrong", done.stdout, re.MULTILINE)
        return done.returncode, {name: (int(bad), int(count)) for name, bad, count in layers}

    status, layers = run(str(scripts / "rknn_quantised.py"))
    assert status == 0 and len(layers) > 10 and sum(count for _, count in layers.values()) == 16420, layers
    assert not any(bad for bad, _ in layers.values())
    # Of the layer whose element is off; what follows it is off too.
    status, layers = run("-c", SPOILED, str(scripts))
    assert status == 1 and layers["relu"][0] == 1, layers
