"""Lists cases where ONNX Runtime 1.31.1 and OpenVINO 2026.4.1 are wrong, and cases where they only round.

Each was run and judged by hand. "The exporter" is `torch.onnx.export(dynamo=True)` with onnxscript 0.7.2: its
errors reach all users of the models that it writes, so they count as the platform's.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from truth.case import Case

ORT = "onnxruntime/cpu@threads=1"
OV = "openvino/cpu@precision=f32,threads=1"
OV_ONNX = "openvino/cpu@frontend=onnx,precision=f32,threads=1"
OV_DEFAULT = "openvino/cpu@threads=1"
INF, NAN = float("inf"), float("nan")


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normal values, equal on every machine that has this numpy generator."""
    return torch.from_numpy(np.random.RandomState(seed).standard_normal(shape)).to(dtype)


def values(*numbers: float, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(numbers, dtype=dtype)


def _holed(shape: tuple[int, ...], *places: tuple[int, ...]) -> Tensor:
    """Normal values with NaN at some places."""
    filled = normal(*shape)
    for place in places:
        filled[place] = NAN
    return filled


def _linears(x: Tensor, *weights: Tensor) -> Tensor:
    for weight in weights:
        x = F.gelu(F.linear(x, weight))
    return x


def _convolutions(x: Tensor, *weights: Tensor) -> Tensor:
    for weight in weights:
        x = torch.tanh(F.conv2d(x, weight, padding=1))
    return x


def _chaos(x: Tensor) -> Tensor:
    for _ in range(60):
        x = 0.99 * torch.sin(3.1415927 * x)
    return x


def _horner(x: Tensor) -> Tensor:
    """(x - 1)^7, expanded: next to its root nothing but rounding is left."""
    total = torch.ones_like(x)
    for factor in (-7.0, 21.0, -35.0, 35.0, -21.0, 7.0, -1.0):
        total = total * x + factor
    return total


def _weights(count: int, *shape: int, scale: float, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    return tuple((normal(*shape, seed=10 + i) * scale).to(dtype) for i in range(count))


_SCRAMBLED = values(NAN, 1.0, 3.0, 3.0, -INF, NAN, INF, 2.0)

FINDINGS_ORT = (
    Case(
        "ort_avg_pool_divisor", lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=2), (normal(1, 2, 7, 7),), ORT,
        "finding", ("discrepant",),
        "The exporter drops divisor_override: sums are divided by 9 instead of 2. PyTorch documents the divisor.",
    ),
    Case(
        "ort_small_addend", lambda x: (x + 1e-12) - x, (torch.ones(4, dtype=torch.float64),), ORT,
        "finding", ("discrepant",),
        "onnxscript's optimiser removes `x + 1e-12` as adding zero (it compares with a tolerance): 0 instead of "
        "1.0e-12, which float64 holds to four digits. Without the optimiser the answer is eager's.",
    ),
    Case(
        "ort_plus_zero", lambda x: 1.0 / (x + 0.0), (values(-0.0, 2.0),), ORT,
        "finding", ("exceptional",),
        "The optimiser removes `x + 0.0`, but -0.0 + 0.0 is +0.0 (IEEE 754): -inf instead of +inf.",
    ),
    Case(
        "ort_half_sum", lambda x: x.sum(), (normal(64, dtype=torch.float16),), ORT,
        "finding", ("structural",),
        "The exporter casts to float32 for the sum and forgets to cast back: a float32 output for a float16 graph.",
    ),
    Case(
        "ort_half_cumsum", lambda x: x.cumsum(-1), (normal(4, 8, dtype=torch.float16),), ORT,
        "finding", ("structural",),
        "As the sum: the output is float32 where the graph says float16.",
    ),
    Case(
        "ort_byte_shift", lambda x: x >> 1, (torch.arange(250, 256).to(torch.uint8),), ORT,
        "finding", ("structural", "discrepant"),
        "The exporter writes the arithmetic shift of signed numbers for uint8 too and answers in int8.",
    ),
    Case(
        "ort_logsigmoid_tail", lambda x: F.logsigmoid(x), (values(-200.0, -120.0, 0.5),), ORT,
        "finding", ("exceptional",),
        "The exporter writes log(sigmoid(x)), whose sigmoid underflows to 0: -inf where the value is x itself.",
    ),
    Case(
        "ort_clamp_min_inf", lambda x: torch.clamp_min(x, 0.5), (values(INF, 0.0, 1.0),), ORT,
        "finding", ("exceptional",),
        "Clip gets the largest finite float as its upper bound: +inf becomes 3.4e38. max(inf, 0.5) is inf.",
    ),
    Case(
        "ort_topk_nan", lambda x: torch.topk(x, 3).values, (_SCRAMBLED,), ORT,
        "finding", ("exceptional", "discrepant"),
        "With NaN present TopK's comparisons are no order: [3, 1, nan]. PyTorch ranks NaN highest: [nan, nan, inf]; "
        "under no ranking of NaN is 1 among the three largest finite or infinite values here.",
    ),
    Case(
        "ort_sort_nan", lambda x: torch.sort(x).values, (_SCRAMBLED,), ORT,
        "finding", ("exceptional", "discrepant"),
        "The result is not sorted: nan nan stands between 1 and 2. PyTorch documents NaN as the greatest.",
    ),
    Case(
        "ort_signbit_negative_zero", lambda x: torch.signbit(x), (values(-0.0, 0.0, -1.0),), ORT,
        "finding", ("discrepant",),
        "The exporter writes x < 0, which is false for -0.0; the sign bit of -0.0 is set.",
    ),
    Case(
        "ort_atan2_nan", lambda a, b: torch.atan2(a, b), (values(NAN, 1.0), values(1.0, 1.0)), ORT,
        "finding", ("exceptional",),
        "The exporter's Where chain answers 0 for NaN. C's atan2 and PyTorch answer NaN.",
    ),
    Case(
        "ort_max_pool_nan", lambda x: F.max_pool2d(x, 3, 2, 1), (_holed((1, 2, 7, 7), (0, 0, 3, 3)),), ORT,
        "finding", ("exceptional",),
        "NaN is kept in some windows and lost in others, depending on where in the window it stands. "
        "PyTorch propagates it in all.",
    ),
    Case(
        "ort_scatter_mean", lambda x, i, s: x.scatter_reduce(0, i, s, "mean"),
        (torch.zeros(4), torch.tensor([0, 0, 2]), normal(3)), ORT,
        "finding", ("discrepant",),
        "The exporter writes ScatterElements without a reduction for `mean`: the last write stays (0.40), where the "
        "mean of the old value and the two written ones is asked for (0.72).",
    ),
    Case(
        "ort_mean_of_nothing", lambda x: x.mean(), (torch.zeros(0),), ORT,
        "finding", ("exceptional",),
        "ReduceMean of an empty tensor gives 0; 0/0 is NaN in PyTorch, numpy and IEEE 754.",
    ),
    Case(
        "ort_attention_masked_row", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        (normal(1, 1, 3, 4), normal(1, 1, 3, 4, seed=1), normal(1, 1, 3, 4, seed=2),
         torch.tensor([[True, False, True], [False, False, False], [True, True, True]])), ORT,
        "finding", ("discrepant",),
        "A query that may attend to nothing gets 0 from PyTorch's safe softmax, and the mean of all values from the "
        "exporter, which masks with the lowest finite number instead of -inf.",
    ),
    Case(
        "ort_baddbmm_beta_zero", lambda c, a, b: torch.baddbmm(c, a, b, beta=0),
        (torch.full((1, 2, 2), NAN), normal(1, 2, 2), normal(1, 2, 2, seed=1)), ORT,
        "finding", ("exceptional",),
        "PyTorch documents: with beta 0 the input is ignored, its NaN not propagated. The exporter multiplies by 0.",
    ),
    Case(
        "ort_logaddexp_overflow", lambda a, b: torch.logaddexp(a, b), (values(200.0, 1.0), values(100.0, 2.0)), ORT,
        "finding", ("exceptional",),
        "The exporter writes log(exp(a) + exp(b)): inf where the value is 200.",
    ),
    Case(
        "ort_gelu_inf", lambda x: F.gelu(x), (torch.full((16,), INF),), ORT,
        "finding", ("exceptional",),
        "Eager's gelu vectorised with AVX-512 answers NaN for +inf where x * Phi(x) is +inf, as ONNX Runtime says: the "
        "reference is wrong. With AVX2 it answers +inf.",
        needs=frozenset({"avx512f"}),
    ),
    Case(
        "ort_sign_nan", lambda x: torch.sign(x), (values(NAN, -2.0, 0.0),), ORT,
        "finding", ("exceptional",),
        "PyTorch answers 0 for NaN, ONNX Runtime NaN, as numpy. Nothing documented settles it.",
    ),
    Case(
        "ort_floor_divide_inf", lambda a, b: torch.floor_divide(a, b), (values(INF, -INF, 5.0), values(2.0, 3.0, 2.0)),
        ORT, "finding", ("exceptional",),
        "PyTorch follows Python, where inf // 2 is NaN; the exporter writes Floor(Div), which gives inf.",
    ),
)  # fmt: skip

FINDINGS_OV = (
    Case(
        "ov_default_is_bfloat16", lambda x, w: F.linear(x, w), (normal(8, 256), normal(64, 256, seed=1)), OV_DEFAULT,
        "finding", ("reduced_precision",),
        "A float32 product in bfloat16 without being asked: errors of 1e-2 on every element.",
        needs=frozenset({"avx512_bf16", "amx_bf16"}),
    ),
    Case(
        "ov_relu_nan", lambda x: torch.relu(x), (values(NAN, -1.0, 2.0),), OV,
        "finding", ("exceptional",),
        "The kernel's max(x, 0) answers 0 for NaN; PyTorch and ONNX (max propagates NaN) answer NaN.",
    ),
    Case(
        "ov_clamp_nan", lambda x: torch.clamp(x, -1.0, 1.0), (values(NAN, -3.0, 0.5),), OV,
        "finding", ("exceptional",),
        "NaN becomes the lower bound; PyTorch propagates it.",
    ),
    Case(
        "ov_exp_nan", lambda x: torch.exp(x), (values(NAN, 0.0, 1.0),), OV,
        "finding", ("exceptional",),
        "The kernel clamps its argument first, which turns NaN into the upper limit: exp(nan) = inf.",
    ),
    Case(
        "ov_max_nan", lambda x: x.max(), (values(1.0, NAN, 2.0),), OV,
        "finding", ("exceptional",),
        "ReduceMax drops NaN; PyTorch documents that it propagates.",
    ),
    Case(
        "ov_maximum_nan", lambda a, b: torch.maximum(a, b), (values(NAN, 1.0), values(0.5, 2.0)), OV,
        "finding", ("exceptional",),
        "PyTorch documents: if one of the elements is a NaN, that element is returned.",
    ),
    Case(
        "ov_softmax_nan", lambda x: x.softmax(-1), (values(1.0, NAN, 2.0, 0.0),), OV,
        "finding", ("exceptional",),
        "Only the NaN's own place becomes NaN and the others 0; a sum with NaN is NaN, so all are.",
    ),
    Case(
        "ov_greater_nan", lambda a, b: a > b, (values(NAN, 1.0), values(0.0, 2.0)), OV,
        "finding", ("discrepant",),
        "nan > 0 is false (IEEE 754); the kernel with AVX-512 says true, the one with AVX2 does not.",
        needs=frozenset({"avx512f"}),
    ),
    Case(
        "ov_logical_and_nan", lambda a, b: torch.logical_and(a, b), (values(NAN, 1.0), values(1.0, 1.0)), OV,
        "finding", ("discrepant",),
        "NaN is not zero, so it is true, in C, Python, numpy and PyTorch.",
    ),
    Case(
        "ov_nan_to_bool", lambda x: x.to(torch.bool), (values(NAN, 0.0, 1.0),), OV,
        "finding", ("discrepant",),
        "As logical_and: NaN converts to true.",
    ),
    Case(
        "ov_addmm_beta_zero", lambda c, a, b: torch.addmm(c, a, b, beta=0),
        (torch.full((2, 2), NAN), normal(2, 2), normal(2, 2, seed=1)), OV,
        "finding", ("exceptional",),
        "PyTorch documents: with beta 0 the input is ignored, its NaN not propagated.",
    ),
    Case(
        "ov_int8_wraps", lambda a, b: a + b,
        (values(-128, 127, 5, dtype=torch.int8), values(-1, 1, 3, dtype=torch.int8)), OV,
        "finding", ("discrepant",),
        "The sum saturates at -128 and 127; integer addition wraps in PyTorch and in ONNX.",
    ),
    Case(
        "ov_uint8_saturates", lambda a, b: a * b,
        (values(200, 16, 3, dtype=torch.uint8), values(2, 17, 5, dtype=torch.uint8)), OV,
        "finding", ("discrepant",),
        "200 * 2 is 144 modulo 256; the kernel answers 255.",
    ),
    Case(
        "ov_int8_negate", lambda x: -x, (values(-128, 3, dtype=torch.int8),), OV,
        "finding", ("discrepant",),
        "-(-128) wraps to -128 in eight bits; the kernel answers 127.",
    ),
    Case(
        "ov_int64_truncated", lambda x: x * 3 + 1, (values(2**40 + 1, 2**53 + 1, -(2**62), dtype=torch.int64),), OV,
        "finding", ("discrepant", "reduced_precision"),
        "The CPU plugin turns int64 into int32: the upper half of every number is lost.",
    ),
    Case(
        "ov_int64_compare", lambda a, b: a > b,
        (values(2**31 + 1, 5, dtype=torch.int64), values(2**31, 6, dtype=torch.int64)), OV,
        "finding", ("discrepant",),
        "Compared as int32 both are equal or negative: 2147483649 > 2147483648 is false.",
    ),
    Case(
        "ov_shift_negative", lambda x: x >> 1, (values(-7, -1, 9, dtype=torch.int32),), OV_ONNX,
        "finding", ("discrepant",),
        "-7 >> 1 is -4 and -1 >> 1 is -1 (arithmetic shift, as PyTorch documents for signed numbers), and ONNX "
        "Runtime agrees on the same model; the answers are -1 and -2147483648.",
    ),
    Case(
        "ov_avg_pool_ceil", lambda x: F.avg_pool2d(x, 4, 3, 1, ceil_mode=True), (normal(1, 2, 7, 7),), OV,
        "finding", ("discrepant",),
        "In the windows that ceil_mode adds at the edge, elements beyond the padding count in the divisor: 16 where "
        "PyTorch, and ONNX Runtime on the same model, divide by the 12 inside it.",
    ),
    Case(
        "ov_antialias_ignored", lambda x: F.interpolate(x, size=(3, 3), mode="bilinear", antialias=True),
        (normal(1, 2, 9, 9),), OV_ONNX,
        "finding", ("discrepant",),
        "Resize's antialias attribute is ignored: the plain bilinear result, wrong by as much as the data.",
    ),
    Case(
        "ov_rfft_shape", lambda x: torch.fft.rfft(x), (normal(3, 4),), OV_ONNX,
        "finding", ("structural",),
        "The output keeps a dimension of size 1 that the model squeezes away: (3, 3, 1) for (3, 3).",
    ),
    Case(
        "ov_any_nan", lambda x: x.any(), (values(NAN, 0.0),), OV,
        "finding", ("discrepant",),
        "NaN is true, so any() is true; the answer is false.",
    ),
)  # fmt: skip

#: `python benchmarks/truth/openvino_alone.py` prints what each of these gives without mindgap.
FINDINGS_OV_PYTORCH = (
    Case(
        "ov_pt_floor_divide", lambda a, b: a // b,
        (values(7, -7, 5, -5, dtype=torch.int64), values(2, 2, -3, -3, dtype=torch.int64)), OV,
        "finding", ("discrepant",),
        "-7 // 2 is -4 and 5 // -3 is -2, in Python and in PyTorch, which rounds down; the answers are -3 and -1.",
        "platform",
    ),
    Case(
        "ov_pt_vstack_of_vectors", lambda a, b: torch.vstack([a, b]), (normal(5), normal(5, seed=1)), OV,
        "finding", ("structural",),
        "PyTorch documents that vstack makes rows of vectors first: (2, 5); the answer has shape (10,).",
        "platform",
    ),
    Case(
        "ov_pt_product_of_int32", lambda x: x.prod(1), (values(3, 5, 7, 11, dtype=torch.int32).reshape(2, 2),), OV,
        "finding", ("structural",),
        "PyTorch computes products and sums of integers in int64; the answer is int32.",
        "platform",
    ),
    Case(
        "ov_pt_clamp_to_float", lambda x: x.clamp(min=0.5), (values(7, -7, 5, dtype=torch.int64),), OV,
        "finding", ("structural",),
        "A float bound makes the result float32 (PyTorch's type promotion), 0.5 for -7; the answer is int64.",
        "platform",
    ),
    Case(
        "ov_pt_kth_value", lambda x: torch.kthvalue(x, 2, 1).values, (normal(3, 4),), OV,
        "finding", ("structural",),
        "One value for each of 3 rows is documented; the answer has shape ().",
        "platform",
    ),
    Case(
        "ov_pt_vector_norm", lambda x: torch.linalg.vector_norm(x), (normal(3, 4),), OV,
        "finding", ("failed",),
        "The conversion expects arguments that have defaults to be written out: one input where it wants three.",
        "platform",
    ),
    Case(
        "ov_pt_index_add", lambda x, i, s: x.index_add(0, i, s),
        (normal(3, 4), values(0, 2, dtype=torch.int64), normal(2, 4, seed=1)), OV,
        "finding", ("failed",),
        "The conversion wants five inputs; the fifth, alpha, is keyword-only in the schema, and so never one of them.",
        "platform",
    ),
    Case(
        "ov_pt_squeeze_of_other_dimensions", lambda x: torch.squeeze(x, 1), (normal(1, 3, 1),), OV,
        "finding", ("failed", "structural"),
        "PyTorch leaves a dimension that is not of size 1; the conversion removes it. The model cannot run, or with "
        "one thread and one stream gives shape (0, 0).",
        "platform",
    ),
    Case(
        "ov_pt_erfinv_near_one", lambda x: torch.erfinv(x), (values(0.9, 0.99, 0.999, 0.9999),), OV,
        "finding", ("discrepant", "reduced_precision"),
        "erfinv of 0.999 in float32 is 2.32676 (mpmath); the conversion writes an approximation, which gives 2.32185.",
        "platform",
    ),
    Case(
        "ov_pt_one_tensor_returned_twice", lambda x: (lambda y: (y, y))(x + 1), (normal(3),), OV,
        "finding", ("failed",),
        "A program may return a tensor twice; the front end fails with 'Tensor name is not a number'.",
        "platform",
    ),
)  # fmt: skip

_DEEP_HALF = _weights(12, 64, 64, scale=0.2, dtype=torch.float16)
_DEEP_BRAIN = _weights(12, 64, 64, scale=0.2, dtype=torch.bfloat16)
_SPREAD = torch.cat([normal(1 << 15) * 1e4, normal(1 << 15, seed=1) * 1e-3])

CALM = (
    Case(
        "calm_long_sum", lambda x: x.sum(), (normal(1 << 20),), ORT, "calm", ("identical", "rounding"),
        "A million terms that cancel to the size of the rounding of some hundred: order of summation only.",
    ),
    Case(
        "calm_spread_sum", lambda x: x.sum(), (_SPREAD,), OV, "calm", ("identical", "rounding"),
        "Large terms cancel and small ones are absorbed: any order of summation is as good as another.",
    ),
    Case(
        "calm_long_mean", lambda x: (x + 1e4).mean(-1), (normal(4, 1 << 16),), ORT, "calm", ("identical", "rounding"),
        "A mean of values far from zero: the last digits are the order of summation.",
    ),
    Case(
        "calm_deep_product", lambda a, b: a @ b, (normal(4, 8192), normal(8192, 4, seed=1)), OV,
        "calm", ("identical", "rounding"), "Products of length 8192, blocked differently.",
    ),
    Case(
        "calm_far_variance", lambda x: x.var(-1), (normal(3, 64) + 1e4,), ORT,
        "calm", ("identical", "rounding", "ill_conditioned"),
        "The mean is 10,000 times the deviation: one ulp of the mean is 1e-3 of the deviation.",
    ),
    Case(
        "calm_constant_norm", lambda x: F.layer_norm(x, (7,)), (torch.full((2, 7), 1000.1),), OV,
        "calm", ("rounding", "ill_conditioned"),
        "A constant row: the mean is off by an ulp (6e-5), and 1/sqrt(1e-5) makes 0.04 of it. Exactly 0 is luck of "
        "the order of summation.",
    ),
    Case(
        "calm_half_stack_ort", _linears, (normal(4, 64, dtype=torch.float16), *_DEEP_HALF), ORT,
        "calm", ("identical", "rounding", "ill_conditioned"),
        "Twelve layers in float16: ONNX Runtime computes some in float32 and rounds at the end, eager at each step.",
    ),
    Case(
        "calm_half_stack_ov", _linears, (normal(4, 64, dtype=torch.float16), *_DEEP_HALF), OV,
        "calm", ("identical", "rounding", "ill_conditioned"), "The same in OpenVINO.",
    ),
    Case(
        "calm_brain_stack", _linears, (normal(4, 64, dtype=torch.bfloat16), *_DEEP_BRAIN), OV,
        "calm", ("identical", "rounding", "ill_conditioned"), "Twelve layers in bfloat16, as the graph itself asks.",
    ),
    Case(
        "calm_half_scalar", lambda x: x + x * 0.3, (normal(64, dtype=torch.float16),), ORT,
        "calm", ("identical", "rounding"),
        "0.3 rounded to float16 first, or kept in the accumulator's precision: both are legal for a half operand.",
    ),
    Case(
        "calm_distance_to_self", lambda x: torch.cdist(x, x, compute_mode="use_mm_for_euclid_dist"),
        (normal(30, 4) * 100,), ORT, "calm", ("identical", "rounding", "ill_conditioned"),
        "Through |a|² + |b|² - 2ab: on the diagonal, the square root of rounding errors.",
    ),
    Case(
        "calm_sine_of_large", lambda x: torch.sin(x * x * x), (normal(64) * 100,), OV,
        "calm", ("identical", "rounding", "ill_conditioned"),
        "Arguments of a million: an ulp is 0.06, so the sine of a rounded argument is another.",
    ),
    Case(
        "calm_chaos_ort", _chaos, (torch.linspace(0.1, 0.4, 16),), ORT,
        "calm", ("identical", "rounding", "ill_conditioned"),
        "Sixty steps of the sine map, each of which doubles an error: nothing is left of float32.",
    ),
    Case(
        "calm_chaos_ov", _chaos, (torch.linspace(0.1, 0.4, 16),), OV,
        "calm", ("identical", "rounding", "ill_conditioned"), "The same with another sine.",
    ),
    Case(
        "calm_near_root", _horner, (torch.linspace(0.99, 1.01, 32),), OV,
        "calm", ("identical", "rounding", "ill_conditioned"),
        "The true values are below 1e-14; all that float32 gives is rounding of terms of size 35.",
    ),
    Case(
        "calm_near_tie", lambda x: torch.stack([x.sum(-1), x.flip(-1).cumsum(-1)[:, -1]], -1).argmax(-1),
        (normal(64, 512),), ORT, "calm", ("identical", "rounding", "ill_conditioned"),
        "The same numbers summed in two orders: which sum is larger is the rounding's choice.",
    ),
    Case(
        "calm_tied_indices", lambda x: torch.sort(x).indices, (torch.tensor([1, 1, 3, 0, 0, 2, 2, 1]),), OV,
        "calm", ("identical", "undefined"),
        "torch.sort without stable=True promises no order among equals: the sorted values agree.",
    ),
    Case(
        "calm_out_of_range_cast", lambda x: x.to(torch.int64), (values(1e19, -1e19, 5.5, -7.25),), OV,
        "calm", ("identical", "undefined"), "No standard says what 1e19 is in int64.",
    ),
    Case(
        "calm_round_of_sum", lambda x, w: torch.round(x @ w),
        (torch.from_numpy(np.random.RandomState(7).randint(0, 7, (64, 1000))).float(), torch.full((1000, 1), 0.1)), OV,
        "calm", ("identical", "rounding", "ill_conditioned"),
        "Sums of tenths, some of which end in exactly one half but for rounding, and round to either side.",
    ),
    Case(
        "calm_negative_zero", lambda x: F.celu(x), (values(-0.0, 0.0, 1.0),), ORT,
        "calm", ("identical", "rounding"), "The sign of a zero that nobody looks at.",
    ),
    Case(
        "calm_convolutions", _convolutions, (normal(1, 8, 16, 16), *_weights(8, 8, 8, 3, 3, scale=0.3)), ORT,
        "calm", ("identical", "rounding", "ill_conditioned"),
        "Eight convolutions whose products are grouped differently: each layer multiplies what it inherits.",
    ),
    Case(
        "calm_long_softmax", lambda x: x.softmax(-1), (normal(2, 50000) * 8,), OV,
        "calm", ("identical", "rounding"), "50,000 exponentials of another polynomial, summed in another order.",
    ),
)  # fmt: skip

CASES: tuple[Case, ...] = FINDINGS_ORT + FINDINGS_OV + FINDINGS_OV_PYTORCH + CALM
