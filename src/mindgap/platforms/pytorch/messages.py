"""Classifies the errors of PyTorch's kernels, TorchScript's tracer and the compilers."""

from __future__ import annotations

from typing import Final

from mindgap.platforms.messages import MessageTable, refusal

_DTYPE: Final = (
    r"(?:torch\.)?(?:c10::)?(?:complex(?:32|64|128)?|ComplexHalf|ComplexFloat|ComplexDouble|half|float16|bfloat16|"
    r"float8\w*|float32|float64|float|double|bool|boolean|byte|char|short|int|long|u?int(?:8|16|32|64))"
)
#: What a kernel raises for a refusal. An assertion with the same words is a bug.
_RAISED: Final = ("RuntimeError", "TypeError")

#: Each row names a dtype, an operator or a construct that is not supported, so that a wrong shape, a bad index or a
#: mixture of dtypes matches none of them.
TABLE: Final = MessageTable(
    "PyTorch",
    (
        refusal(
            "compiler lacks operator",
            r"",
            "the compiler's own class of errors for what it cannot compile; classes are private and move",
            "UnsupportedOperatorException", "MissingOperatorWithDecomp", "MissingOperatorWithoutDecomp",
            "DynamicOutputShapeException", "DataDependentOutputException",
        ),
        refusal(
            "not implemented",
            r"\S",
            "the dispatcher's typed error; without a message, it is a method that somebody forgot",
            "NotImplementedError",
        ),
        refusal(
            "kernel lacks dtype",
            r'"[^"]+" not implemented for \'\w+\'',
            "the dispatch over dtypes inside a kernel has no branch for this one",
            *_RAISED,
        ),
        refusal(
            "float8 promotion",
            r"promotion for float8 types is not supported",
            "type promotion has no rule for float8",
            *_RAISED,
        ),
        refusal(
            "low precision",
            r"low precision dtypes not supported",
            "linear algebra has no 16-bit kernels",
            *_RAISED,
        ),
        refusal("unsupported dtype", r"^unsupported dtype \w+", "the operator lists its dtypes", *_RAISED),
        refusal(
            "does not support dtype",
            rf"(?:do(?:es)?(?: not|n't)|do(?:es)?n't) (?:currently |yet )?support (?:\w+ )?{_DTYPE}\b(?! ?\d)",
            "the operator names the dtype that it does not support",
            *_RAISED,
        ),
        refusal(
            "is not supported for dtype",
            rf"(?:is|are) not (?:yet |currently )?(?:implemented|supported) (?:for|with|on) (?:the )?{_DTYPE}\b",
            "the operator names the dtype that it does not support",
            *_RAISED,
        ),
        refusal(
            "on a tensor of a dtype",
            rf"on a {_DTYPE} tensor is not supported|with (?:two|a) {_DTYPE} tensors? is not supported",
            "the operator names the dtype that it does not support",
            *_RAISED,
        ),
        refusal(
            "no kernel for the backend",
            r"could not run '[\w:.]+' with arguments from the '\w+' backend",
            "the dispatcher has no kernel for the device",
            *_RAISED,
        ),
        refusal(
            "floating point only",
            r"only supports? floating[- ]point(?: and complex)? dtypes|"
            r"input dtype must be either a floating point or complex dtype",
            "the operator lists its dtypes",
            *_RAISED,
        ),
        refusal(
            "not deterministic",
            r"does not have a deterministic implementation, but you set",
            "the platform is asked for deterministic algorithms only, and has none for the operator",
            *_RAISED,
        ),
        refusal(
            "no attention kernel",
            r"^no (?:viable backend|available kernel)(?: for scaled_dot_product_attention was found|"
            r"\. Aborting execution)",
            "none of the attention kernels that are allowed takes these operands",
            *_RAISED,
        ),
        refusal(
            "tracer lacks argument type",
            r"unsupported argument type in the JIT tracer|Tracing a list of arbitrary type is currently not supported",
            "TorchScript's tracer says which arguments it cannot record",
            *_RAISED,
        ),
        refusal(
            "tracer lost an output",
            r"^output of traced region did not have observable data dependence with trace inputs",
            "TorchScript's tracer says that it does not understand the program: it has no rule for an operator",
            *_RAISED,
        ),
        refusal("MPS", r"the MPS framework doesn't support \w+", "Apple's framework lacks the dtype", *_RAISED),
        refusal(
            "NPU",
            r"TORCH_NPU_FALLBACK_CPU_DISABLE",
            "torch_npu has no kernel, and may not go to the CPU",
            *_RAISED,
        ),
        refusal("XLA", r"^UNIMPLEMENTED:", "XLA's typed status", *_RAISED),
    ),
)  # fmt: skip
