"""Lists the versions of mindgap, Python, PyTorch and the installed runtimes, from metadata: nothing is imported."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from mindgap import __version__

#: Distributions of PyTorch and of runtimes. Of ONNX Runtime and others, several hold one module.
_DISTRIBUTIONS: Final = (
    "torch", "onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-qnn", "onnxruntime-webgpu",
    "onnxruntime-migraphx", "onnxruntime-directml", "openvino", "jax", "torchax", "iree-base-runtime", "iree-turbine",
    "apache-tvm", "executorch", "ai-edge-litert", "tinygrad", "ncnn", "rknn-toolkit2", "torch-xla", "torch-npu",
)  # fmt: skip


def versions() -> str:
    """Returns a line for each, `NAME VERSION`; mindgap's is the first. What is not installed has none."""
    lines = [f"mindgap {__version__}", f"python {platform.python_version()}"]
    for name in _DISTRIBUTIONS:
        try:
            lines.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return "\n".join(lines)
