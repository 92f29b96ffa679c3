"""Memory formats: which one the strides of a tensor amount to."""

from torch._prims_common import suggest_memory_format as suggest_memory_format
