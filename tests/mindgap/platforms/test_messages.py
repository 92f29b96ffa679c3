"""Every row of every table of messages, against a message that the backend really gives.

A row whose message cannot be provoked on a CPU stands in `UNPROVOKED` with the reason; any other must have its test.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator
from typing import Any

import onnx
import pytest
import torch
import torch.nn.functional as F

from mindgap.platforms.messages import MessageRow, MessageTable, failure, loading_error, refusal, running_error
from mindgap.platforms.onnx import messages as onnx_export_messages
from mindgap.platforms.onnx.export import export
from mindgap.platforms.onnxruntime import backend as onnxruntime, messages as onnxruntime_messages
from mindgap.platforms.openvino import backend as openvino_platform, messages as openvino_messages
from mindgap.platforms.protocol import CompileFailure, RunFailure, Unsupported
from mindgap.platforms.pytorch import messages as pytorch_messages
from mindgap.platforms.pytorch.refusals import refusing
from platforms import test_refusals
from platforms.onnx_graphs import captured, normal
from platforms.torch_graphs import arrays, opened

Provoke = Callable[[], BaseException]
TABLES = (onnxruntime_messages.TABLE, openvino_messages.TABLE, onnx_export_messages.TABLE, pytorch_messages.TABLE)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@functools.cache
def platform(backend: Any) -> Any:
    return backend.open({"frontend": "onnx"} if backend is OPENVINO else {})


def raised(call: Callable[[], Any]) -> BaseException:
    try:
        call()
    except Exception as error:
        return error
    pytest.fail("it did not stop")


def on(backend: Any, program: Any, *args: torch.Tensor) -> Provoke:
    """What the platform raises when it loads and runs the program."""

    def call() -> Any:
        graph, inputs = captured(program, *args)
        return platform(backend).load(graph, inputs)(inputs)

    return lambda: raised(call)


def exporting(program: Any, *args: torch.Tensor) -> Provoke:
    return lambda: raised(lambda: export(*captured(program, *args)))


def eager(name: str) -> Provoke:
    """An error of eager PyTorch that stands among those of `test_refusals`."""
    return lambda: raised(test_refusals.REFUSED[name])


def traced(program: Any, *args: torch.Tensor) -> Provoke:
    """What stops TorchScript, as the platform raises it."""

    def call() -> Any:
        graph, _ = captured(program, *args)
        return opened("cpu/jit").load(graph, arrays(graph))

    return lambda: raised(call)


def by_pytorch(program: Any, *args: torch.Tensor) -> Provoke:
    """What stops OpenVINO behind its own PyTorch front end."""

    def call() -> Any:
        graph, inputs = captured(program, *args)
        return OPENVINO.open({}).load(graph, inputs)(inputs)

    return lambda: raised(call)


class EmptyWeights(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(torch.empty(0, 2, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.bmm(x, self.weights)


ORT, OPENVINO = onnxruntime.BACKEND, openvino_platform.BACKEND
double = torch.float64
HALVES = normal(2, 3, dtype=torch.float16)
LSTM = (normal(3, 1, 2, dtype=double), *(normal(1, 1, 2, dtype=double),) * 2, *(normal(8, 2, dtype=double),) * 2,
        *(normal(8, dtype=double),) * 2)  # fmt: skip


def lstm(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
    return torch.lstm(x, (h, c), weights, True, 1, 0.0, False, False, False)[0]


def scattered(x: torch.Tensor, i: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    return x.scatter_reduce(1, i, s, "sum")


#: Backend -> row -> what provokes its message; several where the row is for several wordings.
PROVOKED: dict[str, dict[str, list[Provoke]]] = {
    "ONNX Runtime": {
        "kernel missing": [on(ORT, torch.maximum, *(torch.ones(2, dtype=torch.int16),) * 2)],
        "dtype outside the definition": [
            on(ORT, torch.isnan, torch.ones(2, dtype=torch.int8)),
            on(ORT, F.cross_entropy, normal(2, 3), normal(2, 3).softmax(1)),
        ],
        "operands of unlike dtypes": [on(ORT, torch.divide, normal(3), torch.ones(3, dtype=torch.int64))],
        "shapes that do not fit": [on(ORT, lambda x: x.topk(1), normal())],
        "dtype not supported by a kernel": [
            on(ORT, scattered, HALVES, torch.zeros(2, 3, dtype=torch.int64), HALVES),
            on(ORT, lstm, *LSTM),
        ],
    },
    "OpenVINO": {
        "no conversion rule": [
            on(OPENVINO, torch.linalg.det, normal(2, 2, dtype=double)),
            by_pytorch(torch.digamma, normal(2)),
        ],
        "scalar operand of a matrix product": [on(OPENVINO, EmptyWeights(), normal(0, 2, 2))],
        "dtype not supported": [
            on(OPENVINO, lambda x: x.amax(0), torch.ones(3, dtype=torch.int16)),
            on(OPENVINO, torch.fft.fft, normal(4, dtype=double)),
        ],
        "rank not supported": [on(OPENVINO, F.grid_sample, normal(1, 1, 3, 3, 3), normal(1, 2, 2, 2, 3))],
        "no kernel in the plugin": [by_pytorch(F.conv1d, normal(1, 2, 8), normal(3, 2, 3))],
        "complex output": [by_pytorch(torch.view_as_complex, normal(3, 2))],
        "dtype unknown to the front end": [by_pytorch(lambda x: x.reshape(1, 2), torch.ones(2, dtype=torch.uint16))],
        "attribute not supported": [
            on(OPENVINO, lambda x: F.pad(x, (1, 1, 1, 1), mode="circular"), normal(1, 1, 3, 3)),
            by_pytorch(lambda x: F.avg_pool2d(x, 2, divisor_override=3), normal(1, 1, 4, 4)),
        ],
    },
    "PyTorch's ONNX exporter": {
        "no translation for the operands": [exporting(lambda z: z.unsqueeze(0), torch.ones(3, dtype=torch.complex64))],
        "translation incomplete": [exporting(lambda x: torch.histc(x, 4), normal(9))],
        "rank not supported": [exporting(F.scaled_dot_product_attention, *(normal(2, 3, 4),) * 3)],
    },
    "PyTorch": {
        "not implemented": [eager("another backend"), eager("complex clamp"), eager("float8 add")],
        "float8 promotion": [eager("float8 promotion")],
        "low precision": [eager("half inverse")],
        "unsupported dtype": [eager("half fft")],
        "does not support dtype": [eager("bool topk")],
        "is not supported for dtype": [eager("complex heaviside")],
        "on a tensor of a dtype": [eager("bool negation"), eager("bool minus")],
        "floating point only": [eager("integer mean"), eager("integer std")],
        "not deterministic": [eager("no deterministic algorithm")],
        "no attention kernel": [eager("attention without a kernel")],
        "tracer lacks argument type": [traced(lambda x: torch.gradient(x, spacing=(2.0, 2.1)), normal(3, 4))],
        "tracer lost an output": [traced(lambda x: x.clone().resize_(2, 2), normal(3, 4))],
    },
}  # fmt: skip

UNPROVOKED = {
    ("ONNX Runtime", "kernel missing for a fusion"): "1.24.4 gives it, in docs/upgrades/silu_onnxruntime_1_24.py",
    ("ONNX Runtime", "no provider for a node"): "needs the WebGPU provider",
    ("ONNX Runtime", "format version missing"): "a graph is exported in a format that it reads; files have it",
    ("ONNX Runtime", "case that a kernel lacks"): "com.microsoft alone; tests/mindgap/own_path/test_file_referees.py",
    ("ONNX Runtime", "float16 on a device without it"): "needs the WebGPU provider",
    (
        "OpenVINO",
        "no tensor",
    ): "a captured graph has tensors alone; tests/mindgap/own_path/test_file_values.py has a file",
    ("PyTorch", "compiler lacks operator"): "the classes are Inductor's and the fake tensors' own; compiling is slow",
    ("PyTorch", "kernel lacks dtype"): "since 2.13 at the latest it is a NotImplementedError, which comes first",
    ("PyTorch", "no kernel for the backend"): "the dispatcher raises NotImplementedError for it, which comes first",
    ("PyTorch", "MPS"): "needs an Apple device",
    ("PyTorch", "NPU"): "needs an Ascend device",
    ("PyTorch", "XLA"): "needs torch_xla",
}

ROWS = [(table, row) for table in TABLES for row in table]
CASES = [
    pytest.param(row, provoke, id=f"{table.backend}: {row.name} {number}")
    for table, row in ROWS
    for number, provoke in enumerate(PROVOKED[table.backend].get(row.name, []))
]


def test_every_row_is_provoked_or_says_why_not() -> None:
    rows = {(table.backend, row.name) for table, row in ROWS}
    provoked = {(backend, name) for backend, known in PROVOKED.items() for name in known}
    assert not provoked & UNPROVOKED.keys()
    assert provoked | UNPROVOKED.keys() == rows


def row_of(error: BaseException) -> MessageRow | None:
    """The row that decides on an error of any of the backends, found as the platforms find it."""
    text = error.why if isinstance(error, Unsupported) else str(error)
    if "ONNXRuntimeError" in text:
        return onnxruntime_messages.read(text).row
    cause = error.__cause__ or error
    if "openvino" in type(cause).__module__ or "Exception from src/" in text or isinstance(cause, KeyError):
        return openvino_messages.read(str(cause), type(cause).__name__).row
    if type(cause).__name__ == "ConversionError":
        return onnx_export_messages.read(cause)[0].row
    found = refusing(error)
    return None if found is None else found[0]


@pytest.mark.parametrize(("row", "provoke"), CASES)
def test_a_row_is_for_a_message_that_the_backend_gives(row: MessageRow, provoke: Provoke) -> None:
    error = provoke()
    found = row_of(error)
    # A newer PyTorch may raise the dispatcher's typed error where an older one raised another, in the same words.
    typed = isinstance(error, NotImplementedError) and row.kind == "refusal"
    assert found is not None and found.name in (row.name, *(["not implemented"] if typed else [])), str(error)[:1000]
    if isinstance(error, (Unsupported, CompileFailure, RunFailure)):
        assert isinstance(error, Unsupported) == (row.kind == "refusal")
        # Neither TorchScript's tracer nor OpenVINO's look-up of dtypes says where it stopped.
        named = error.op.startswith("aten.")
        assert named or row.name.startswith(("tracer", "dtype unknown")), "the platform did not name the operator"


#: Programs that the official exporter writes as models that ONNX's own checker rejects.
INVALID = {
    "isnan of int8": (torch.isnan, (torch.ones(2, dtype=torch.int8),)),
    "class probabilities": (F.cross_entropy, (normal(2, 3), normal(2, 3).softmax(1))),
    "bfloat16 convolution": (F.conv1d, (torch.ones(1, 1, 4).bfloat16(), torch.ones(1, 1, 2).bfloat16())),
}


@pytest.mark.parametrize("name", INVALID)
def test_a_failure_by_dtype_is_an_invalid_model_of_the_official_exporter(name: str) -> None:
    """Not our translation, and not ONNX Runtime's opinion."""
    program, args = INVALID[name]

    class Program(torch.nn.Module):
        def forward(self, *given: torch.Tensor) -> Any:
            return program(*given)

    written = io.BytesIO()
    exported = torch.onnx.export(Program(), args, dynamo=True, verbose=False)
    assert exported is not None
    exported.save(written)
    model = onnx.load_from_string(written.getvalue())
    with pytest.raises(onnx.shape_inference.InferenceError, match=r"typestr|type"):
        onnx.checker.check_model(model, full_check=True)
    error = on(ORT, program, *args)()
    assert isinstance(error, CompileFailure) and "Type Error" in str(error)


def test_one_operator_without_a_rule_makes_a_report_a_refusal() -> None:
    """The report also holds the failure of an operator: the graph cannot run, whoever mends that."""
    both = lambda x, y: (torch.linalg.det(x), y.topk(1)[0])  # noqa: E731
    error = on(OPENVINO, both, normal(2, 2, dtype=double), normal())()
    assert isinstance(error, Unsupported) and "Input rank must be greater than 0" in error.why


def test_a_failure_is_not_hidden_by_what_follows_from_it() -> None:
    """OpenVINO infers a wrong shape for the DFT of real numbers, and then misses the dtype of the sum.

    The message on the product is decisive; "unsupported input type dynamic" only follows from it.
    """

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (torch.view_as_real(torch.ops.aten._fft_r2c(x, [2], 1, False)) * y).sum()

    error = on(OPENVINO, program, normal(5, 6, 7), normal(5, 6, 7, 2))()
    assert isinstance(error, CompileFailure) and "Unsupported input type dynamic" in str(error)
    assert error.op == "aten.mul.Tensor"


def test_what_no_row_matches_is_a_failure() -> None:
    assert openvino_messages.read("Check 'a > b' failed at src/x.cpp:1:\nsomething else").kind == "failure"
    assert onnxruntime_messages.read("[ONNXRuntimeError] : 1 : FAIL : something else").kind == "failure"


def test_the_first_row_that_matches_decides() -> None:
    table = MessageTable("test", (failure("wrong", "not supported here", "…"), refusal("right", "not supported", "…")))
    assert [table.find(text) for text in ("Not supported here", "not supported", "?")] == [*table.rows, None]
    typed = MessageTable("test", (refusal("typed", "", "…", "KeyError"),))
    assert typed.find("anything") is None and typed.find("anything", "KeyError") is typed.rows[0]


def test_names_are_unique() -> None:
    with pytest.raises(ValueError, match="one name"):
        MessageTable("test", (refusal("a", "x", "…"), refusal("a", "y", "…")))


@pytest.mark.parametrize("message", [
    "INTERNAL; VK_ERROR_DEVICE_LOST; while invoking native function", "vkQueueSubmit failed -4",
    "[Device (unlabeled)] is lost.", "WebGPU device lost (2):\n  a reset",
])  # fmt: skip
def test_a_lost_device_ends_the_worker_with_one_line(message: str):
    for raised in (loading_error, running_error):
        with pytest.raises(SystemExit, match="the device is lost to this process: ") as caught:
            raised("failure", message, "")
        assert "\n" not in str(caught.value)


def test_other_failures_of_a_driver_do_not_end_the_worker():
    # onnxruntime-web starts its runner again by itself.
    for message in ("vkQueueSubmit failed -3", "the device is lost", "VK_ERROR_OUT_OF_DEVICE_MEMORY"):
        assert isinstance(running_error("failure", message, ""), RunFailure)
