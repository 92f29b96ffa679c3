"""The execution providers of ONNX Runtime that mindgap knows, one row each, and their backends.

The chips of QNN's option `soc`, with the generation of their NPU, are those of ExecuTorch 1.5.1
(`backends/qualcomm/serialization/qc_schema.py`).
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mindgap.platforms import vulkan_driver
from mindgap.platforms.host_runtime import Option, threads
from mindgap.platforms.onnxruntime.execution_provider import ExecutionProvider, LogReason, ProviderOption
from mindgap.platforms.onnxruntime.provider_backend import provider_backend

#: Qualcomm's chips -> the number by which its runtime knows them. The first is of generation v68, which computes
#: float32 in float32; v69 (SM8450), v73 (SM8550, SC8380XP), v75, v79 and v81 compute it in a 16-bit format.
_SOC: Final = {
    "SM8350": "30", "SM8450": "36", "SM8550": "43", "SC8380XP": "60", "SM8650": "57", "SM8750": "69", "SM8850": "87",
}  # fmt: skip


def bundled_openvino() -> str:
    """The version of the OpenVINO that the package brings, by its library's file name; `unknown` without one."""
    package = package_folder()
    names = [] if package is None else [path.name for path in (package / "capi").glob("libopenvino.so.*.*")]
    return max(names, key=len, default="libopenvino.so.unknown").removeprefix("libopenvino.so.")


def package_folder() -> Path | None:
    """The folder of the installed ONNX Runtime, of whatever distribution; None without one."""
    spec = importlib.util.find_spec("onnxruntime")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _openvino_facts() -> Mapping[str, Any]:
    return {"bundled_openvino": bundled_openvino()}


def _qnn_facts() -> Mapping[str, Any]:
    module: Any = importlib.import_module("onnxruntime_qnn.build_and_package_info")
    return {"qnn": str(module.qnn_version), "device": "Hexagon NPU (HTP), Qualcomm's simulator on x86-64"}


OPENVINO_PROVIDER: Final = ExecutionProvider(
    name="OpenVINOExecutionProvider",
    mode="openvino",
    distribution="onnxruntime-openvino",
    hardware="the host's processors",
    script="run_openvino",
    fixed={"device_type": "CPU"},
    options=(
        ProviderOption(
            Option(
                "precision",
                "precision of float32 (default: the provider's choice, float32 on CPUs)",
                ("default", "f32", "bf16"),
            ),
            entries={
                "f32": {"precision": "FP32"},
                # The provider's option `precision` has no such value.
                "bf16": {"load_config": json.dumps({"CPU": {"INFERENCE_PRECISION_HINT": "bf16"}})},
            },
            dtype={"f32": "float32", "bf16": "bfloat16"},
        ),
        ProviderOption(
            threads("threads of the provider and within an operator (default: one per core)"), key="num_of_threads"
        ),
    ),
    shares=True,
    facts=_openvino_facts,
)
QNN_PROVIDER: Final = ExecutionProvider(
    name="QNNExecutionProvider",
    mode="qnn",
    distribution="onnxruntime-qnn",
    hardware="Qualcomm's NPUs",
    plugin="onnxruntime_qnn",
    plugin_options={"backend_path": "get_qnn_htp_path"},
    # By default it leaves the first QuantizeLinear and the last DequantizeLinear of a model to the CPU provider.
    fixed={"offload_graph_io_quantization": "0"},
    options=(
        ProviderOption(
            Option("soc", "the chip whose NPU is simulated (default: none, which is as SM8350)", ("default", *_SOC)),
            entries={chip: {"soc_model": number} for chip, number in _SOC.items()},
            dtype={chip: "float32" if chip == "SM8350" else "float16" for chip in _SOC},
        ),
    ),
    execution="simulated",
    facts=_qnn_facts,
    # "ERROR:no properties registered for q::QNN_Gelu"; the error has the status QNN_COMMON_ERROR_MEM_ALLOC.
    log_reason=LogReason(
        re.compile(r"Failed to finalize QNN graph"), re.compile(r"no properties registered for q::(?:QNN_)?([\w.]+)")
    ),
)

WEBGPU_PROVIDER: Final = ExecutionProvider(
    name="WebGpuExecutionProvider",
    mode="webgpu",
    distribution="onnxruntime-webgpu",
    hardware="GPUs with Vulkan",
    options=(ProviderOption(vulkan_driver.DEVICE),),
    accuracy="WGSL",
    variables=vulkan_driver.variables,
    facts=vulkan_driver.described,
)

OPENVINO: Final = provider_backend(OPENVINO_PROVIDER, Path(__file__).with_name("onnxruntime-openvino.toml"))
QNN: Final = provider_backend(QNN_PROVIDER, Path(__file__).with_name("qnn.toml"))
WEBGPU: Final = provider_backend(WEBGPU_PROVIDER, Path(__file__).with_name("webgpu.toml"))
CUDA: Final = provider_backend(
    ExecutionProvider(
        "CUDAExecutionProvider", "cuda", "onnxruntime-gpu", "NVIDIA's GPUs", nodes=("/dev/nvidia[0-9]*",),
        options=(
            ProviderOption(
                Option("tf32", "products of float32 in TF32 (default on)", ("on", "off")),
                entries={"on": {"use_tf32": "1"}, "off": {"use_tf32": "0"}}, dtype={"off": "float32"},
            ),
        ),
    )
)  # fmt: skip
TENSORRT: Final = provider_backend(
    ExecutionProvider(
        "TensorrtExecutionProvider", "tensorrt", "onnxruntime-gpu", "NVIDIA's GPUs", nodes=("/dev/nvidia[0-9]*",),
        options=(
            ProviderOption(
                Option("precision", "the narrowest dtype that TensorRT may choose (default f32)", ("f32", "f16")),
                entries={"f16": {"trt_fp16_enable": "1"}},
            ),
        ),
    )
)  # fmt: skip
MIGRAPHX: Final = provider_backend(
    ExecutionProvider(
        "MIGraphXExecutionProvider", "migraphx", "onnxruntime-migraphx", "AMD's GPUs", nodes=("/dev/kfd",),
        options=(
            ProviderOption(
                Option("precision", "the dtype of float32 (default f32)", ("f32", "f16")),
                entries={"f16": {"migraphx_fp16_enable": "1"}},
            ),
        ),
    )
)  # fmt: skip
DIRECTML: Final = provider_backend(
    ExecutionProvider(
        "DmlExecutionProvider", "directml", "onnxruntime-directml", "GPUs with DirectX 12", systems=("win32",)
    )
)
COREML: Final = provider_backend(
    ExecutionProvider(
        "CoreMLExecutionProvider", "coreml", "onnxruntime", "Apple's processors, GPUs and NPUs", systems=("darwin",)
    )
)
VITISAI: Final = provider_backend(
    ExecutionProvider(
        "VitisAIExecutionProvider", "vitisai", "onnxruntime-vitisai", "AMD's NPUs", nodes=("/dev/accel/accel*",)
    )
)
