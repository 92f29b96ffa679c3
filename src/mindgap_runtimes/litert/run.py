"""Runs a model on LiteRT as its users do: litert-torch converts it, and calls the interpreter."""

# pyright: basic, reportMissingImports=false, reportCallIssue=false
# (the runtime is typed in parts only, and lies in an environment of its own)

from __future__ import annotations

from typing import TYPE_CHECKING

import litert_torch
import numpy as np
import torch
from ai_edge_litert.interpreter import Interpreter, OpResolverType

if TYPE_CHECKING:
    from mindgap.platforms.script_runner import Fresh


def run(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of the converted model."""
    converted = litert_torch.convert(model, fresh())
    found = converted(*(a.numpy() for a in fresh()))
    return [torch.as_tensor(np.array(array)) for array in (found if isinstance(found, tuple) else (found,))]


def run_file(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs of a model file."""
    interpreter = Interpreter("FILE", num_threads=None, experimental_op_resolver_type=OpResolverType.AUTO)
    given = interpreter.get_input_details()
    inputs = [(each["name"], [None if size < 0 else size for size in each["shape_signature"]]) for each in given]
    feeds = model.matched(inputs, fresh())
    for each, (_, tensor) in zip(given, feeds, strict=True):
        if list(each["shape"]) != list(tensor.shape):
            interpreter.resize_tensor_input(each["index"], list(tensor.shape))
    interpreter.allocate_tensors()
    for each, (_, tensor) in zip(given, feeds, strict=True):
        interpreter.set_tensor(each["index"], tensor.numpy())
    interpreter.invoke()
    found = [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]
    return [torch.as_tensor(each) if each.dtype.kind not in "OSU" else each for each in found]
