"""Short scripts of programs whose dtypes numpy does not hold, run with ONNX Runtime."""

from __future__ import annotations

import sys

import ml_dtypes
import numpy as np
import pytest
import torch

from mindgap.findings.script.form import FAULT, NO_FAULT, ScriptForm, script_source
from mindgap.findings.script.script_platform import ScriptPlatform
from mindgap.findings.script.short import ShownCase, short_script, with_cases
from mindgap.graph import Arg, Constant, DType, Graph, Input, Node, Ref, TensorSpec

pytest.importorskip("onnxruntime")


def graph_of(op: str, dtype: str, *args: Arg, result: str = "") -> Graph:
    spec, made = TensorSpec.contiguous(dtype, (3,)), TensorSpec.contiguous(result or dtype, (3,))
    return Graph((Input(spec, Constant(0.0)),), (Node(op, (Ref(0), *args), (), (made,)),), (1,))


def status_of(text: str) -> int:
    hook = sys.excepthook
    try:
        exec(text, {"__name__": "script"})
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        sys.excepthook = hook
    raise AssertionError("the script does not end by itself")


def test_bfloat16_crosses_the_boundary_as_float32_and_is_computed_as_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    values = np.asarray([0.1, -2.0, 3.0]).astype(ml_dtypes.bfloat16)
    text = short_script(
        graph_of("aten.abs.default", "bfloat16"), ScriptPlatform("onnxruntime/cpu"), "a title", inputs=[values]
    )
    assert status_of(text) == 0
    printed = capsys.readouterr().out
    assert "bfloat16[3]" in printed and NO_FAULT in printed


def test_complex_numbers_cross_the_boundary_as_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    values = np.asarray([1 + 2j, -1j, 3], np.complex64)
    graph = graph_of("aten.add.Tensor", "complex64", Ref(0))
    assert status_of(short_script(graph, ScriptPlatform("onnxruntime/cpu"), "a title", inputs=[values])) == 0
    assert "complex64[3]" in capsys.readouterr().out


def test_a_result_that_is_a_conjugate_view_crosses_as_its_values(capsys: pytest.CaptureFixture[str]) -> None:
    given, made = TensorSpec.contiguous("float32", (4,)), TensorSpec.contiguous("complex64", (3,))
    node = Node("aten.fft_ihfft.default", (Ref(0),), (), (made,))
    graph = Graph((Input(given, Constant(0.0)),), (node,), (1,))
    values = np.asarray([1.0, 2.0, -1.0, 0.5], np.float32)
    assert status_of(short_script(graph, ScriptPlatform("onnxruntime/cpu"), "a title", inputs=[values])) == 0
    assert NO_FAULT in capsys.readouterr().out


def test_a_cast_that_cuts_bits_off_is_a_fault_where_elements_must_be_equal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    values = np.asarray([1.4754109, 1.0, 2.0], np.float32)
    graph = graph_of("aten._to_copy.default", "float32", result="bfloat16")
    graph = Graph(graph.inputs, (Node("aten._to_copy.default", (Ref(0),), (("dtype", DType("bfloat16")),),
                                      graph.nodes[0].outputs),), (1,))  # fmt: skip
    shown: dict[str, int] = {}
    for compare in ("largest", "equal"):
        cases = [ShownCase("smallest", graph, [values])]
        form = ScriptForm("a title", ScriptPlatform("cpu/eager"), compare=compare)  # type: ignore[arg-type]
        text = script_source(with_cases(form, cases))
        cut = "return [(model(*fresh())[0].float() - 2**-7).bfloat16()]"
        shown[compare] = status_of(text.replace("return model(*fresh())", cut))
    assert shown == {"largest": 0, "equal": 1}
    assert FAULT in capsys.readouterr().out.splitlines()[-1]
    assert status_of(text) == 0


@pytest.mark.parametrize("platform", ["cpu/eager", "cuda/eager"])
def test_nothing_is_converted_where_the_runtime_takes_tensors_of_pytorch(platform: str) -> None:
    values = [torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16).view(torch.int16).numpy().view(ml_dtypes.bfloat16)]
    text = short_script(graph_of("aten.abs.default", "bfloat16"), ScriptPlatform(platform), "a title", inputs=values)
    assert "Boundary" not in text
