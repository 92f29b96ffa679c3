"""Platform `triton/interpreter`: the Triton kernels that Inductor writes for GPUs, interpreted."""

from mindgap_runtimes.triton.triton_interpreter import BACKEND

__all__ = ["BACKEND"]
