"""Describes the format of LiteRT files: who decides about one, and what it leaves open of integers."""

from __future__ import annotations

from typing import Final

from mindgap.platforms.model_formats import ModelFormat, QuantisationRule, Referee
from mindgap.platforms.name import parse

#: Sums of 64 bits, of int16, are multiplied by the upper 16 bits of the factor, 15 without the sign
#: (`MultiplyByQuantizedMultiplier` of int64 in `lite/kernels/internal/common.h`). Where a node's `quantized_bias_type`
#: is int32, the sums of int16 are too, and are multiplied by all of it.
TFLITE_RULE: Final = QuantisationRule(
    "no further from the exact quotient than rounding and a factor of 31 bits (of int16 15) lead",
    "further from the exact quotient than rounding and a factor of 31 bits (of int16 15) lead",
    even_ties=False,
    rescales=True,
    factor={"int16": 2.0**-15},
)
_KERNELS: Final = tuple(parse(f"litert/cpu{each}") for each in ("@delegate=none", "@kernels=reference", ""))
FORMAT: Final = ModelFormat(
    suffix=".tflite",
    scheme="tflitefile",
    probe="mindgap_runtimes.litert_files.probing:write_probed",
    shows_results=True,
    referees=(Referee(parse("litert/cpu@kernels=reference"), "an interpreter with LiteRT's reference kernels"),),
    reference_defines=False,
    rule=TFLITE_RULE,
    checks=lambda judged: [each for each in _KERNELS if each != judged],
    checks_words="LiteRT's other kernels give",
    quantising=("QUANTIZE", "DEQUANTIZE"),
)
