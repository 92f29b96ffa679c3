"""Makes one submodule of a checkpoint that is larger than memory, without the weights of the rest.

The model is made with parameters on the meta device. Only the submodule's tensors are read from the files. A module
outside of it that has weights runs on the meta device, for the shapes of its results; their values are drawn. What
depends on no weights, such as positions, rotations and masks, is computed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# (modules and trees are partly untyped in PyTorch)

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from mindgap.aten.tensors import torch_dtype_name
from mindgap.aten.torch_private.modules import tree_leaves, tree_map
from mindgap.graph import Constant, Normal
from mindgap.graph_capture.errors import SourceNote
from mindgap.sources.source import Source, SourceError, suggest
from mindgap.sources.weights.tensor_registry import TensorRegistry, seed_of
from mindgap_zoo.hubs.safetensors_folder import TensorFolder


class OnlySubmodule(SourceNote):
    """Only one submodule's weights are read; what enters it is drawn."""


@contextmanager
def parameters_on_meta_device() -> Generator[None]:
    """Moves each parameter that a module registers inside the block to the meta device. Buffers stay."""
    register = nn.Module.register_parameter

    def register_on_meta(self: nn.Module, name: str, param: nn.Parameter | None) -> None:
        register(self, name, None if param is None else nn.Parameter(param.to("meta"), param.requires_grad))

    nn.Module.register_parameter = register_on_meta
    try:
        yield
    finally:
        nn.Module.register_parameter = register


def submodule_at(source: Source, model: nn.Module, path: str) -> nn.Module:
    """Returns the submodule at a path. Raises `SourceError` with the nearest path if there is none."""
    known = dict(model.named_modules())
    if path not in known:
        raise SourceError(f"{source.text}: inside={path}: the model has no such submodule{suggest(path, known)}")
    return known[path]


def fill_submodule(source: Source, model: nn.Module, path: str, files: TensorFolder, dtype: torch.dtype) -> int:
    """Reads the parameters and persistent buffers of the submodule at a path, and those of the modules around it that
    are no submodule's. Parameters come in `dtype`, buffers in that of the model.

    Returns how many files were read. Raises `SourceError` for one that the files lack or have in another shape.
    """
    wanted: dict[str, tuple[nn.Module, str, torch.Tensor]] = {}
    for at, module in model.named_modules():
        inside = at == path or at.startswith(f"{path}.")
        if inside or _is_around(at, path):
            buffers = [each for each in module.named_buffers(recurse=False) if each[0] in module.state_dict()]
            for leaf, tensor in (*module.named_parameters(recurse=False), *buffers):
                wanted[f"{at}.{leaf}" if at else leaf] = (module, leaf, tensor)
    names = {parameter: files.name_of(parameter) for parameter in wanted}
    absent = [parameter for parameter, name in names.items() if name is None]
    if absent:
        raise SourceError(
            f"{source.text}: the safetensors files have no {', '.join(absent[:3])}: inside= another submodule"
        )
    held = {parameter: name for parameter, name in names.items() if name is not None}
    for name, tensor in files.read(held).items():
        module, leaf, made = wanted[name]
        if tensor.shape != made.shape:
            raise SourceError(
                f"{source.text}: {name} is {list(tensor.shape)} in the files, and config.json asks for "
                f"{list(made.shape)}"
            )
        is_parameter = isinstance(made, nn.Parameter)
        setattr(module, leaf, nn.Parameter(tensor.to(dtype)) if is_parameter else tensor.to(made.dtype))
    return len({files.files[name] for name in held.values()})


def draw_outside(source: Source, model: nn.Module, path: str, seed: int, registry: TensorRegistry) -> None:
    """Gives the modules with weights outside a submodule results that are drawn: floats are standard normal, integers
    0.

    Their shapes and dtypes are those that the modules give on the meta device.
    """
    for at, module in _outermost_others(model, path):
        on_meta = copy.deepcopy(module).to("meta")
        for part in module.modules():
            # Empty, on the processor: a model asks its first parameter where to make its masks.
            for leaf, parameter in part.named_parameters(recurse=False):
                setattr(part, leaf, nn.Parameter(torch.empty(0, dtype=parameter.dtype)))
        module.forward = _drawn(source, at, on_meta, seed, registry)


def _is_around(at: str, path: str) -> bool:
    return at == "" or path.startswith(f"{at}.")


def _outermost_others(model: nn.Module, path: str) -> list[tuple[str, nn.Module]]:
    """Returns the outermost modules with parameters that neither hold the submodule nor lie in it."""
    modules: list[tuple[str, nn.Module]] = []
    for at, module in model.named_modules():
        held = at == path or _is_around(at, path) or any(at.startswith(f"{other}.") for other, _ in modules)
        if not held and not at.startswith(f"{path}.") and next(module.parameters(), None) is not None:
            modules.append((at, module))
    return modules


def _drawn(source: Source, at: str, on_meta: nn.Module, seed: int, registry: TensorRegistry) -> Callable[..., Any]:
    def drawn(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map(
            lambda leaf: leaf.to("meta") if isinstance(leaf, torch.Tensor) else leaf, (args, kwargs)
        )
        try:
            result = on_meta(*args, **kwargs)
        except (RuntimeError, NotImplementedError) as error:
            raise SourceError(
                f"{source.text}: what {at} gives cannot be told without its weights "
                f"({str(error).splitlines()[0][:200]}): take a machine that holds the whole model"
            ) from error
        count = 0

        def value_of(leaf: Any) -> Any:
            nonlocal count
            if not isinstance(leaf, torch.Tensor) or not leaf.is_meta:
                return leaf
            count += 1
            recipe = Normal(seed_of(f"{at} result {count}", seed)) if leaf.is_floating_point() else Constant(0)
            return registry.draw(recipe, torch_dtype_name(leaf.dtype), tuple(leaf.shape))

        # A cache among the arguments has got this module's keys and values.
        for holder in tree_leaves((args, kwargs)):
            for layer in getattr(holder, "layers", ()):
                for name, value in vars(layer).items():
                    setattr(layer, name, value_of(value))
        return tree_map(value_of, result)

    return drawn
