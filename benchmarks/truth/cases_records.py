"""Lists cases from records of real models, reduced to the calls that show them. Each was run and judged by hand.

The versions are those of `cases_ort_ov`.
"""

from __future__ import annotations

import torch

from truth.case import Case
from truth.cases_ort_ov import ORT, OV, OV_ONNX, normal

FINDINGS = (
    Case(
        "record_squeeze_of_a_long_dimension", lambda x: x.squeeze(-1) * 2, (normal(1, 1, 12),), ORT,
        "finding", ("failed",),
        "From CANINE. PyTorch documents that a dimension that is not 1 stays; the exporter writes Squeeze for it "
        "all the same, and ONNX Runtime rejects the model that it got.",
        "platform",
    ),
    Case(
        "record_fft_of_the_last_dimension", lambda x: torch.fft.fftn(x, dim=(2,)).real, (normal(1, 13, 32),), OV_ONNX,
        "finding", ("discrepant",),
        "From FNet. DFT's third input says which axis to transform; OpenVINO transforms the first one after the batch "
        "whatever it says: its answer is torch.fft.fftn(x, dim=(1,)). ONNX Runtime agrees with PyTorch on this model.",
        "platform",
    ),
    Case(
        "record_empty_output", lambda x: (torch.zeros(3, 0), x + 1), (normal(3, 4),), OV_ONNX,
        "finding", ("structural",),
        "From Falcon's cached mask. An output of shape (3, 0) comes out with shape (); ONNX Runtime keeps it.",
        "platform",
    ),
)  # fmt: skip

CALM = (
    Case(
        "record_empty_intermediate", lambda x: torch.cat([torch.zeros(3, 0).half(), x], -1).exp().softmax(-1),
        (normal(3, 4, dtype=torch.float16),), OV, "calm", ("identical", "rounding"),
        "From Falcon as it is: nobody sees the shape of the empty mask, which is joined with the rest.",
    ),
    Case(
        "record_power_in_place", lambda x: x.abs().add(1).pow_(-0.5), (normal(3, 4),), ORT,
        "calm", ("identical", "rounding"),
        "From LightGCN. `pow_` with a number: its functional overload has another name.",
    ),
    Case(
        "record_power_in_place_ov", lambda x: x.abs().add(1).pow_(-0.5), (normal(3, 4),), OV,
        "calm", ("identical", "rounding"), "The same in OpenVINO.",
    ),
)  # fmt: skip

CASES: tuple[Case, ...] = FINDINGS + CALM
