"""What decides how products of bytes are computed here."""

from mindgap.platforms.pytorch.device.availability import processor

#: Whether the processor adds products of bytes in 32 bits. Without such instructions runtimes add them in 16 bits,
#: which saturate, and OpenVINO does not quantise operands.
ADDS_BYTE_PRODUCTS_EXACTLY = bool({"avx512_vnni", "avx_vnni", "amx_int8"} & processor().flags)
