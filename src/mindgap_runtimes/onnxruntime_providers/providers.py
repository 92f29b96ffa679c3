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

from mindgap.platforms.host_runtime import Option, threads
from mindgap.platforms.protocol import Options, PlatformError
from mindgap_runtimes import vulkan_driver
from mindgap_runtimes.onnxruntime_providers.execution_provider import ExecutionProvider, LogReason, ProviderOption
from mindgap_runtimes.onnxruntime_providers.provider_backend import provider_backend

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
    """The folder of the installed ONNX Runtime, of any distribution; None without one."""
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
_NVIDIA: Final = ("/dev/nvidia[0-9]*",)
#: Providers without a recipe: none of them has run here.
_OTHERS: Final = (
    ExecutionProvider(
        "CUDAExecutionProvider", "cuda", "onnxruntime-gpu", "NVIDIA's GPUs", nodes=_NVIDIA,
        options=(
            ProviderOption(
                Option("tf32", "products of float32 in TF32 (default on)", ("on", "off")),
                entries={"on": {"use_tf32": "1"}, "off": {"use_tf32": "0"}}, dtype={"off": "float32"},
            ),
        ),
    ),
    ExecutionProvider(
        "TensorrtExecutionProvider", "tensorrt", "onnxruntime-gpu", "NVIDIA's GPUs", nodes=_NVIDIA,
        options=(
            ProviderOption(
                Option("precision", "the narrowest dtype that TensorRT may choose (default f32)", ("f32", "f16")),
                entries={"f16": {"trt_fp16_enable": "1"}},
            ),
        ),
    ),
    ExecutionProvider(
        "NvTensorRTRTXExecutionProvider", "tensorrt-rtx", "onnxruntime-trt-rtx", "NVIDIA's GPUs", nodes=_NVIDIA
    ),
    ExecutionProvider(
        "MIGraphXExecutionProvider", "migraphx", "onnxruntime-migraphx", "AMD's GPUs", nodes=("/dev/kfd",),
        options=(
            ProviderOption(
                Option("precision", "the dtype of float32 (default f32)", ("f32", "f16")),
                entries={"f16": {"migraphx_fp16_enable": "1"}},
            ),
        ),
    ),
    ExecutionProvider("ROCMExecutionProvider", "rocm", "onnxruntime-rocm", "AMD's GPUs", nodes=("/dev/kfd",)),
    ExecutionProvider(
        "DmlExecutionProvider", "directml", "onnxruntime-directml", "GPUs with DirectX 12", systems=("win32",)
    ),
    ExecutionProvider(
        "CoreMLExecutionProvider", "coreml", "onnxruntime", "Apple's processors, GPUs and NPUs", systems=("darwin",)
    ),
    ExecutionProvider(
        "VitisAIExecutionProvider", "vitisai", "onnxruntime-vitisai", "AMD's NPUs", nodes=("/dev/accel/accel*",)
    ),
    ExecutionProvider(
        "CANNExecutionProvider", "cann", "onnxruntime-cann", "Ascend's NPUs", nodes=("/dev/davinci[0-9]*",)
    ),
    ExecutionProvider("NnapiExecutionProvider", "nnapi", "onnxruntime", "Android's devices", systems=("android",)),
    # Of these no registry of packages has a build.
    ExecutionProvider("XnnpackExecutionProvider", "xnnpack", "onnxruntime", "processors", built_with="--use_xnnpack"),
    ExecutionProvider("DnnlExecutionProvider", "dnnl", "onnxruntime-dnnl", "processors", built_with="--use_dnnl"),
    ExecutionProvider("ACLExecutionProvider", "acl", "onnxruntime-acl", "Arm's processors", built_with="--use_acl"),
    ExecutionProvider(
        "VSINPUExecutionProvider", "vsinpu", "onnxruntime", "VeriSilicon's NPUs", built_with="--use_vsinpu"
    ),
    ExecutionProvider("RknpuExecutionProvider", "rknpu", "onnxruntime", "Rockchip's NPUs", built_with="--use_rknpu"),
)  # fmt: skip
(
    CUDA, TENSORRT, TENSORRT_RTX, MIGRAPHX, ROCM, DIRECTML, COREML, VITISAI, CANN, NNAPI, XNNPACK, DNNL, ACL, VSINPU,
    RKNPU,
) = map(provider_backend, _OTHERS)  # fmt: skip
#: ONNX Runtime's name of a provider -> the platform that runs it.
PLATFORMS: Final[Mapping[str, str]] = {
    each.name: f"onnxruntime/{each.mode}" for each in (OPENVINO_PROVIDER, QNN_PROVIDER, WEBGPU_PROVIDER, *_OTHERS)
}
#: Providers of ONNX Runtime that are none of these platforms -> why.
LEFT_OUT: Final[Mapping[str, str]] = {
    "CPUExecutionProvider": "onnxruntime/cpu runs it",
    "AzureExecutionProvider": "it calls services of the web, and computes on no device",
    "JsExecutionProvider": "it is within onnxruntime-web only, which ortweb/webgpu runs",
    "WebNNExecutionProvider": "it is within onnxruntime-web only, in browsers with navigator.ml",
}
_MODULE: Final = r"[A-Za-z_]\w*(?:\.\w+)*"


def _named(options: Options) -> ExecutionProvider:
    """The provider that `name` and `plugin` name. Raises `PlatformError` for neither, and a name with a platform."""
    name, plugin = options.get("name", ""), options.get("plugin", "")
    if not name and not plugin:
        raise PlatformError(
            "onnxruntime/provider: name=PROVIDER says which provider of the installed ONNX Runtime, or plugin=MODULE "
            "the module of a plug-in, such as plugin=onnxruntime_ggml"
        )
    if not plugin and name in LEFT_OUT:
        raise PlatformError(f"name={name}: {LEFT_OUT[name]}")
    if not plugin and name in PLATFORMS:
        raise PlatformError(f"name={name}: that is {PLATFORMS[name]}")
    script = "run_plugin" if plugin else "run_alone"
    return ExecutionProvider(
        name, "provider", plugin or "onnxruntime", "", script=script, plugin=plugin, measures=False
    )


PROVIDER: Final = provider_backend(
    ExecutionProvider("", "provider", "onnxruntime", "what the provider runs on"),
    named=_named,
    declared=(
        Option("name", "the provider, as onnxruntime.get_available_providers() or the plug-in names it", (), r"[\w.-]+",
               "the name of a provider"),
        Option("plugin", "the module of a plug-in, which has get_library_path()", (), _MODULE, "the name of a module"),
    ),
)  # fmt: skip
