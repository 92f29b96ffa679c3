"""Lists as other tools take them."""

from pathlib import Path

import torch
from torch import nn

from mindgap.graph import TensorStore
from mindgap_diagnosis.precision.candidates import Operator
from mindgap_diagnosis.precision.finding import Bound
from mindgap_diagnosis.precision.paste import file_lists, program_lists
from precision.eager_here import found


def op(name: str, kind: str = "aten.linear.default", line: str = "") -> Operator:
    return Operator(name, line, kind, (0,))


def test_the_pasted_region_brings_the_outputs_of_autocast_back(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10)).eval(), torch.randn(512, 16)
    exact = model.double()(x.double()).detach().numpy()
    model.float()
    answer = found(model, (x,), TensorStore(tmp_path), "bfloat16", Bound(0, "flips"))
    assert [each.name for each in answer.kept] == ["2"]

    def flips() -> float:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            return Bound(0, "flips").measured([exact], [model(x).double().numpy()])

    assert flips() > 0
    exec(answer.lists["PyTorch autocast"], {"torch": torch, "model": model})
    assert flips() == 0


def test_a_module_is_listed_where_all_its_operators_stay_and_a_line_where_not() -> None:
    every = [op("a"), op("a.b"), op("c"), op("c", "aten.add.Tensor", "net.py:7"), op("cc")]
    lists = program_lists([every[0], every[1], every[3]], every, "cpu")
    assert "for name in ['a']:" in lists["PyTorch autocast"]
    assert lists["torchao quantize_"].endswith("name not in {'a', 'a.b'}")
    by_line = next(text for tool, text in lists.items() if tool.startswith("PyTorch, by line"))
    assert by_line == "net.py:7: aten.add.Tensor"


def test_the_selector_of_coremltools_goes_by_the_path_of_modules() -> None:
    lists = program_lists([op("c")], [op("c"), op("cc")], "cpu")
    (text,) = (text for tool, text in lists.items() if tool.startswith("coremltools"))

    class Scoped:
        def __init__(self, *path: str) -> None:
            self.scopes = {"name": list(path)}

    names = {"ScopeSource": type("S", (), {"TORCHSCRIPT_MODULE_NAME": "name"})}
    lowered = eval(text.partition("op_selector=")[2][:-1], names)
    assert [lowered(Scoped("c")), lowered(Scoped("c", "x")), lowered(Scoped("cc")), lowered(Scoped())] == [
        False, False, True, True,
    ]  # fmt: skip


def test_types_are_listed_where_all_nodes_of_them_stay() -> None:
    every = [op("m0", "MatMul"), op("m1", "MatMul"), op("e", "Exp")]
    assert "ONNX Runtime, by type" not in file_lists(every[:1], [], every)
    lists = file_lists(every[2:], ["t"], every)
    assert lists["ONNX Runtime, by type"] == "op_block_list=DEFAULT_OP_BLOCK_LIST + ['Exp']"
    assert lists["ONNX Runtime convert_float_to_float16"].startswith("node_block_list=['e', 't']")
