"""Messages that differ only by what changes from run to run have one signature; others keep apart.

The messages are real: taken from PyTorch 2.13, ONNX Runtime 1.31 and OpenVINO 2026.4, two runs each. That of
ONNX Runtime's OpenVINO provider is shortened.
"""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given, strategies as st

from mindgap.run.failure_signature import signature

#: What ONNX Runtime 1.24's OpenVINO provider writes before the reason, in one line.
_OPENVINO_PROVIDER = (
    "/onnxruntime/onnxruntime/core/providers/openvino/backends/basic_backend.cc:136 onnxruntime::openvino_ep::"
    "BasicBackend::BasicBackend(std::unique_ptr<onnx::ModelProto>&, onnxruntime::openvino_ep::SessionContext&) "
    "/onnxruntime/onnxruntime/core/providers/openvino/ov_interface.cc:28 auto onnxruntime::openvino_ep::"
    "OvExceptionBoundary(Func&&, Args&& ...) [with Func = OVCore::CompileModel(const std::string&)::<lambda()>] "
    "[OpenVINO-EP] Exception while Loading Network for graph OpenVINOExecutionProvider_OpenVINO-EP-subgraph"
)

ALIKE = {
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (<n> and <n>)": [
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (128x768 and 64x1024)",
    ],
    "RuntimeError: Given groups=<n>, weight of size [<n>], expected input[<n>] to have <n> channels, but got <n> "
    "channels instead": [
        "RuntimeError: Given groups=1, weight of size [4, 2, 3, 3], expected input[1, 3, 8, 8] to have 2 channels, "
        "but got 3 channels instead",
        "RuntimeError: Given groups=2, weight of size [8, 4, 3], expected input[9, 9, 8] to have 8 channels, "
        "but got 9 channels instead",
    ],
    "RuntimeError: [enforce fail at <path>] err == <n>. DefaultCPUAllocator: can't allocate memory: you tried to "
    "allocate <n> bytes. Error code <n> (Cannot allocate memory)": [
        "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 4000000000000000 bytes. Error code 12 (Cannot allocate memory)",
    ],
    "NO_SUCHFILE: Load model from <path> failed:Load model <path> failed. File doesn't exist": [
        "NoSuchFile: [ONNXRuntimeError] : 3 : NO_SUCHFILE : Load model from /tmp/tmpx123/nothing.onnx failed:"
        "Load model /tmp/tmpx123/nothing.onnx failed. File doesn't exist",
        "NoSuchFile: [ONNXRuntimeError] : 3 : NO_SUCHFILE : Load model from /var/t/b/x.onnx failed:"
        "Load model /var/t/b/x.onnx failed. File doesn't exist",
    ],
    "FAIL: Exception during initialization: OpenVINO provider | <node> not found in graph cache": [
        f"[ONNXRuntimeError] : 1 : FAIL : Exception during initialization: {_OPENVINO_PROVIDER}_12_0: Exception from "
        "src/inference/src/cpp/core.cpp:154:\nException from src/frontends/onnx/frontend/src/core/graph_cache.cpp:27:\n"
        f"{node} node not found in graph cache\n\n\n"
        for node in ("getitem_1", "mean_dim")
    ],
}


@pytest.mark.parametrize("expected", list(ALIKE))
def test_real_messages(expected: str) -> None:
    assert {signature(message) for message in ALIKE[expected]} == {expected}


def test_object_ids_and_addresses_go() -> None:
    def message(address: int) -> str:
        return (
            "RuntimeError: aten::add() Expected a value of type 'Tensor' for argument 'other' but instead found type "
            f"'object'.\nPosition: 1\nValue: <object object at {hex(address)}>\n"
            "Declaration: aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
        )

    assert signature(message(0x7FB5CF582080)) == signature(message(0x55D0C0FFEE00))
    assert "aten::add()" in signature(message(1)) and "<addr>" in signature(message(1))


def test_names_of_inputs_and_outputs_that_exporters_number_go() -> None:
    assert signature("Fail: node in12 has no shape, out3 neither") == signature(
        "Fail: node in9 has no shape, out1 neither"
    )


def test_places_that_openvino_puts_before_the_reason_go() -> None:
    message = (
        "Exception from src/inference/src/cpp/core.cpp:105:\nException from src/inference/src/model_reader.cpp:188:\n"
        "Unable to read the model. Please check if the model format is supported and model is correct.\n"
    )
    assert signature(message) == (
        "Unable to read the model. Please check if the model format is supported and model is correct."
    )


def test_stack_traces_go() -> None:
    message = (
        "Traceback (most recent call last):\n"
        '  File "/home/x/lib/torch/_ops.py", line 875, in __call__\n'
        "    return self._op(*args, **kwargs)\n"
        "           ^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "RuntimeError: Expected all tensors to be on the same device\n"
        "Exception raised from check at ../aten/src/ATen/TensorIterator.cpp:42 (most recent call first):\n"
        "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x57 (0x7f1 in /x/libc10.so)\n"
    )
    assert signature(message) == "RuntimeError: Expected all tensors to be on the same device"


def test_generated_names_go_and_names_of_operators_stay() -> None:
    def message(number: int) -> str:
        return (
            f"cannot lower buf{number} = aten.conv2d.default(primals_{number}, float32, float8_e4m3fn) "
            f"in c{'abcdef2345' * 4}{number}x to tensor<{number}x3xf32>"
        )

    assert signature(message(7)) == signature(message(1234))
    for word in ("aten.conv2d.default", "float32", "float8_e4m3fn", "xf32"):
        assert word in signature(message(7))


def test_different_causes_keep_apart() -> None:
    messages = [
        "RuntimeError: shape '[3]' is invalid for input of size 2",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
        "_LinAlgError: linalg.cholesky: The factorization could not be completed",
        "aten.float16.out: no kernel",
        "aten.float32.out: no kernel",
    ]
    assert len({signature(m) for m in messages}) == len(messages)


volatile = st.fixed_dictionaries(
    {
        "number": st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False),
        "address": st.integers(0, 2**64 - 1).map(hex),
        "path": st.lists(st.from_regex(r"[A-Za-z0-9_.]{1,8}", fullmatch=True), min_size=1, max_size=4).map(
            lambda parts: "/" + "/".join(parts)
        ),
        "uuid": st.integers(0, 2**128 - 1).map(lambda n: str(uuid.UUID(int=n))),
        "shape": st.lists(st.integers(0, 10**6), min_size=1, max_size=6),
    }
)


@given(volatile, volatile)
def test_nothing_volatile_matters(one: dict[str, object], other: dict[str, object]) -> None:
    template = "kernel at {address} of {path}: got {number} for {shape} in session {uuid} (limit {number})"
    assert signature(template.format(**one)) == signature(template.format(**other))


@given(st.text(max_size=2000))
def test_any_text_gives_a_short_single_line(text: str) -> None:
    found = signature(text)
    assert len(found) <= 300 and "\n" not in found
