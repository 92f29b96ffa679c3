"""Holds the ATen graph as data: a program's operator calls in order, with every operand.

Comes in: nothing; the other rooms build graphs. Goes out: `Graph` and its parts, canonical bytes,
digests, recipes, and inputs materialised as numpy arrays. Knows no machine-learning framework and
no other room.
"""

from mindgap.graph.codec import decode, digest, digest_of_bytes, encode, load, save
from mindgap.graph.errors import GraphError, MindgapError, UnknownOperator
from mindgap.graph.graph import (
    Arg,
    Decision,
    Device,
    DType,
    Graph,
    Input,
    Labels,
    Layout,
    MemoryFormat,
    Node,
    Ref,
    Role,
    map_refs,
    operands,
    refs,
)
from mindgap.graph.materialisation import materialise, materialise_all, stored_keys
from mindgap.graph.model_file import ModelFile, read_model, write_model
from mindgap.graph.recipe import (
    Constant,
    Exceptional,
    Integers,
    Literal,
    Normal,
    Permutation,
    Recipe,
    Stored,
    Uniform,
)
from mindgap.graph.spec import DTYPES, Array, TensorSpec, contiguous_stride, dtype_name, kind_of, numpy_dtype
from mindgap.graph.structure import structure_digest
from mindgap.graph.subgraph import concatenate, extract, live_nodes, renumbered, select
from mindgap.graph.tensors import PendingTensors, TensorStore, default_tensor_store, tensor_key
from mindgap.graph.validation import validate

__all__ = [
    "DTYPES",
    "Arg",
    "Array",
    "Constant",
    "DType",
    "Decision",
    "Device",
    "Exceptional",
    "Graph",
    "GraphError",
    "Input",
    "Integers",
    "Labels",
    "Layout",
    "Literal",
    "MemoryFormat",
    "MindgapError",
    "ModelFile",
    "Node",
    "Normal",
    "PendingTensors",
    "Permutation",
    "Recipe",
    "Ref",
    "Role",
    "Stored",
    "TensorSpec",
    "TensorStore",
    "Uniform",
    "UnknownOperator",
    "concatenate",
    "contiguous_stride",
    "decode",
    "default_tensor_store",
    "digest",
    "digest_of_bytes",
    "dtype_name",
    "encode",
    "extract",
    "kind_of",
    "live_nodes",
    "load",
    "map_refs",
    "materialise",
    "materialise_all",
    "numpy_dtype",
    "operands",
    "read_model",
    "refs",
    "renumbered",
    "save",
    "select",
    "stored_keys",
    "structure_digest",
    "tensor_key",
    "validate",
    "write_model",
]
