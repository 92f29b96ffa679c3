"""The PyTorch module of a translated ONNX model: one submodule for each node, under the node's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import torch

from mindgap.aten.torch_private.modules import put_buffer, put_module, put_parameter
from mindgap.graph import Array
from mindgap.models.corpus.onnx_models.node import TRANSLATIONS, OnnxNode


class OnnxOperator(torch.nn.Module):
    """One node. `operands`: names of values; "" for an operand that is left out or structural."""

    def __init__(self, node: OnnxNode, operands: Sequence[str], outputs: Sequence[str]) -> None:
        super().__init__()
        self.node, self.operands, self.outputs = node, tuple(operands), tuple(outputs)
        #: What `capture` shows in place of a line of code, and the arguments' names.
        self.source_line = node.op
        self.argument_names = tuple(name or f"operand_{i}" for i, name in enumerate(operands))
        self.eval()

    def forward(self, *operands: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        """Returns the node's results in order."""
        result = TRANSLATIONS[self.node.op].function(self.node, *operands)
        return (result,) if isinstance(result, torch.Tensor) else tuple(result)


class OnnxModule(torch.nn.Module):
    """Runs the nodes of a model on its inputs, and returns its outputs by name.

    argument_names: the inputs that it takes, in the file's order.
    fixed_inputs: the inputs that are constants of the program: they give shapes, axes and the like.
    """

    def __init__(
        self, inputs: Sequence[str], fixed: Mapping[str, Array], held: Mapping[str, torch.Tensor], weights: Set[str],
        steps: Sequence[OnnxOperator], outputs: Sequence[str],
    ) -> None:  # fmt: skip
        """`held`: tensors by name. Those in `weights` that hold floats become parameters, the others buffers."""
        super().__init__()
        self.argument_names, self.fixed_inputs, self.outputs = tuple(inputs), dict(fixed), tuple(outputs)
        self._held = tuple(held)
        for name, tensor in held.items():
            if name in weights and tensor.is_floating_point():
                put_parameter(self, name, torch.nn.Parameter(tensor))
            else:
                put_buffer(self, name, tensor)
        self._steps = tuple(step.node.name for step in steps)
        for step in steps:
            put_module(self, step.node.name, step)
        self.eval()

    @property
    def steps(self) -> list[OnnxOperator]:
        """The nodes in order."""
        return [self._modules[name] for name in self._steps]  # pyright: ignore[reportReturnType] # put there above

    def forward(self, *tensors: torch.Tensor) -> dict[str, torch.Tensor]:
        """Returns the outputs by name."""
        held: Any = {**self._parameters, **self._buffers}
        values: dict[str, torch.Tensor] = {**held, **dict(zip(self.argument_names, tensors, strict=True))}
        steps = self.steps
        last = {name: i for i, step in enumerate(steps) for name in step.operands}
        for i, step in enumerate(steps):
            found = step(*[values[name] if name else None for name in step.operands])
            values.update({name: tensor for name, tensor in zip(step.outputs, found, strict=False) if name})
            for name in (*step.operands, *step.outputs):
                if last.get(name, -1) <= i and name not in self.outputs:
                    values.pop(name, None)
        return {name: values[name] for name in self.outputs}
