"""The algorithms of convolutions, observed on a CPU: the same code reads the kernels of a GPU."""

from __future__ import annotations

import re

import pytest

from machines.conftest import tiny_suite
from mindgap.graph import TensorStore
from mindgap_studies.machines.convolution_algorithms import observed_algorithms, processes
from mindgap_studies.machines.profiled_backend import approach


@pytest.mark.nightly
def test_each_process_reports_every_convolution(tmp_path):
    store = TensorStore(tmp_path)
    model = tiny_suite(store)[0]
    convolutions = sum(node.op == "aten.conv2d.default" for node in model.graph.nodes)
    fast = processes(model, "mindgap_studies.machines.profiled_backend:CPU@threads=1", 2, store)
    slow = processes(model, "mindgap_studies.machines.profiled_backend:CPU@onednn=off,threads=1", 1, store)
    assert [len(each) for each in fast["approaches"]] == [convolutions] * 2
    # PyTorch takes oneDNN for some sizes only.
    assert "oneDNN" in fast["approaches"][0] and set(fast["approaches"][0]) <= {"oneDNN", "explicit GEMM"}
    assert fast["approaches"][0] == fast["approaches"][1]
    assert len(set(fast["outputs"])) == 1
    assert set(slow["approaches"][0]) == {"explicit GEMM"}
    assert slow["outputs"][0] != fast["outputs"][0]


def test_without_a_gpu_the_reason_is_given(tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    (found,) = observed_algorithms([], TensorStore(tmp_path)).values()
    assert re.search("CUDA|NVIDIA", found["unavailable"])


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("void cudnn::winograd_nonfused::winogradForwardData4x4<float>", "Winograd"),
        ("void fft2d_r2c_32x32<float, false, 0u>", "FFT"),
        ("void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3>", "implicit GEMM"),
        ("sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw", "implicit GEMM"),
        ("volta_sgemm_64x32_sliced1x4_nn", "explicit GEMM"),
        ("void at::native::conv_depthwise2d_forward_kernel", "direct"),
        ("elementwise_kernel", "unknown"),
    ],
)
def test_names_of_kernels_are_grouped_by_approach(kernel, name):
    assert approach([kernel]) == name
