"""Opens `hub:OWNER/NAME` or `hub:FOLDER`: a published model, built from its `config.json` by its library's own class.

Code in the model's repository is never run. Weights come from safetensors, bit for bit. If there are only pickles
(which can run code) or no weights, they are seeded. `layers=N` takes the weights of the first N blocks. A submodule of
a model that is larger than memory is made alone (`one_submodule`).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import nn

from mindgap.aten.tensors import TORCH_DTYPES, torch_dtype_name
from mindgap.graph import Normal, kind_of
from mindgap.graph_capture.errors import SourceNote
from mindgap.graph_capture.module_calls import WHOLE, call_inside
from mindgap.sources.libraries import import_library, silence_output, stay_offline
from mindgap.sources.program import Built, Program
from mindgap.sources.source import Source, SourceError, SourceOptions, one_line, source_options
from mindgap.sources.type_guards import is_list, is_table
from mindgap.sources.weights.construction import construct
from mindgap.sources.weights.initialisation import SkippedInitialisation
from mindgap.sources.weights.tensor_registry import TensorRegistry, seed_of
from mindgap_zoo.argument_makers.image_inputs import with_pictures
from mindgap_zoo.argument_makers.shrinking import Shrinking, first_layers, shrink_configuration
from mindgap_zoo.hubs.hugging_face_folder import HubModel, located
from mindgap_zoo.hubs.one_submodule import (
    OnlySubmodule,
    draw_outside,
    fill_submodule,
    parameters_on_meta_device,
    submodule_at,
)
from mindgap_zoo.hubs.safetensors_folder import tensor_folder
from mindgap_zoo.hubs.size_limit import refuse_size, too_large
from mindgap_zoo.hubs.tokenizer import encoded_text, with_text
from mindgap_zoo.weights.seeding import finished, seed_weights

#: Entries that name code to fetch, kernels to fetch or weights to fetch: what is built is the architecture.
_NOT_ARCHITECTURE: Final = frozenset({"auto_map", "_attn_implementation", "attn_implementation", "_name_or_path"})


class SeededInstead(SourceNote):
    """A model has trained weights only in a form that is never loaded or does not fit; seeded ones are used."""


def open_hub(source: Source) -> list[Program]:
    """Returns one program, or one for each component of a pipeline.

    Raises `SourceError` if the folder or name does not exist, and if no library has the model's class (its code
    repository is not run).
    """
    chosen = source_options(source)
    models = located(source)
    stay_offline()
    programs: list[Program] = []
    refused: list[SourceError] = []
    for one in models:
        try:
            programs.append(
                Program(
                    one.name,
                    one.source,
                    functools.partial(_build, source, one, chosen, _maker(one, chosen)),
                    make_submodule=functools.partial(_submodule, source, one, chosen),
                )
            )
        except SourceError as error:
            refused.append(error)
    if not programs:
        raise refused[0]
    return programs


_Maker = Callable[[Source, HubModel, SourceOptions], Built]


def _build(source: Source, model: HubModel, chosen: SourceOptions, make: _Maker) -> Built:
    if model.pickles and not model.safetensors:
        warnings.warn(
            f"{model.source}: its weights are in {', '.join(model.pickles[:3])}, which can run code and are not "
            f"loaded: seeded weights instead",
            SeededInstead,
            stacklevel=2,
        )
    with silence_output():
        return make(source, model, chosen)


def _maker(model: HubModel, chosen: SourceOptions) -> _Maker:
    """Returns the function that builds the model, chosen by the form of its configuration. Raises `SourceError` if
    none fits."""
    config = model.config
    if chosen.text is not None:
        for name, given in (("batch", chosen.batch), ("length", chosen.length)):
            if given is not None:
                raise SourceError(
                    f"{model.source}: --text gives one example of its own length: leave {name}={given} out"
                )
    if chosen.text is not None and any(isinstance(config.get(each), str) for each in ("architecture", "_class_name")):
        raise SourceError(f"{model.source}: --text is for language models of transformers, and this is none")
    if isinstance(config.get("architecture"), str):
        return functools.partial(_build_timm, str(config["architecture"]))
    if isinstance(config.get("_class_name"), str):
        name = str(config["_class_name"])
        model_class = getattr(import_library("diffusers", f"{model.source}: diffusers", "diffusers"), name, None)
        if not (isinstance(model_class, type) and issubclass(model_class, nn.Module)):
            raise SourceError(f"{model.source}: diffusers has no model {name!r}, and other code is not run")
        return functools.partial(_build_diffusers, model_class)
    return functools.partial(_build_transformers, _transformers_class(model))


def _transformers_class(model: HubModel) -> Any:
    """Returns the class that `architectures` names, or the base class of the model type."""
    library = import_library("transformers", f"{model.source}: transformers", "transformers")
    named: Any = model.config.get("architectures")
    names: list[Any] = list(named) if is_list(named) else []
    own = " (it brings its own code, auto_map, which is not run)" if "auto_map" in model.config else ""
    for name in names:
        model_class = getattr(library, str(name), None)
        if (
            isinstance(model_class, type)
            and issubclass(model_class, nn.Module)
            and hasattr(model_class, "config_class")
        ):
            return model_class
    if names:
        raise SourceError(f"{model.source}: transformers has no class {', '.join(map(str, names))}{own}")
    kind = model.config.get("model_type")
    types: Any = library.models.auto.modeling_auto.MODEL_MAPPING_NAMES
    base: Any = types.get(kind)
    if base is None:
        raise SourceError(f"{model.source}: its config.json names no architecture that transformers has{own}")
    return getattr(library, base if isinstance(base, str) else base[0])


def _build_transformers(model_class: Any, source: Source, model: HubModel, chosen: SourceOptions) -> Built:
    config, loaded = _transformers_config(model_class, source, model, chosen)
    dtype = _dtype_of_files(model) if loaded else chosen.dtype or "float32"
    refuse_size(source, chosen, dtype, lambda: model_class(config), shrinks=True, narrows=not loaded)
    registry = TensorRegistry()

    def load(absent: set[str]) -> nn.Module:
        if chosen.layers is None:
            return _pretrained(model_class, model, absent, config=config)
        cut = _in_dtype(dtype, lambda: model_class(config))
        absent.update(tensor_folder(model.folder, _prefix(model_class)).fill(cut))
        if absent:
            note = f"the files have no {', '.join(sorted(absent)[:3])} of these shapes: seeded weights instead"
            warnings.warn(f"{source.text}: {note}", SeededInstead, stacklevel=2)
        return cut

    built, seeded = _weights(source, model, chosen, registry, lambda: _in_dtype(dtype, lambda: model_class(config)),
                             load, loaded)  # fmt: skip
    fixed, given = _transformers_call(source, model, config, chosen, built, registry)
    return finished(built, chosen, registry, kwargs=given, fixed=fixed, seeded=seeded)


def _transformers_config(model_class: Any, source: Source, model: HubModel, chosen: SourceOptions) -> tuple[Any, bool]:
    """Returns the configuration, with fewer layers where requested, and whether the files' weights fit it."""
    if "quantization_config" in model.config:
        raise _quantised(source, model.config["quantization_config"])
    table, loaded = _architecture(model.config), model.safetensors
    if chosen.layers is not None:
        cut = first_layers(table, chosen.layers) if loaded else None
        loaded = cut is not None
        table = cut or shrink_configuration(table, Shrinking("shallow", chosen.layers, chosen.size))
        if model.safetensors and not loaded:
            warnings.warn(
                f"{source.text}: layers={chosen.layers} cuts stages of several blocks, which its files' weights do not "
                f"fit: seeded weights instead",
                SeededInstead,
                stacklevel=2,
            )
    config = model_class.config_class.from_dict(table)
    # One matrix product for all experts: the other ways loop over what the router decided.
    config._experts_implementation = "batched_mm"
    return config, loaded


def _transformers_call(
    source: Source, model: HubModel, config: Any, chosen: SourceOptions, built: nn.Module, registry: TensorRegistry
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the arguments that its Python code decides by, and the others."""
    from mindgap_zoo.argument_makers.transformers_arguments import Sizes
    from mindgap_zoo.argument_makers.transformers_models import arguments_of

    tokens: Mapping[str, torch.Tensor] = {} if chosen.text is None else encoded_text(source, model, config, chosen.text)
    length = tokens["input_ids"].shape[1] if tokens else chosen.length or 12
    sizes = Sizes(chosen.batch or 1, length, chosen.size, chosen.seed, _dtype_of(built))
    failures: list[str] = []
    arguments = arguments_of(built, sizes, registry, failures)
    if arguments is None:
        raise _unanswered(source, failures)
    return arguments.fixed, arguments.given if not tokens else with_text(source, arguments.given, tokens)


def _submodule(source: Source, model: HubModel, chosen: SourceOptions, path: str, call: int) -> Built | None:
    """Returns a submodule of a model of transformers whose weights are here and too large to hold whole.

    None for any other. Raises `SourceError`, and `CaptureError` where the model does not call the submodule.
    """
    if path == WHOLE or not model.safetensors or "architecture" in model.config or "_class_name" in model.config:
        return None
    with silence_output():
        model_class = _transformers_class(model)
        config, loaded = _transformers_config(model_class, source, model, chosen)
        dtype = _dtype_of_files(model)
        if not loaded or not (needed := too_large(chosen, dtype, lambda: model_class(config))):
            return None
        with parameters_on_meta_device():
            built = construct(source, SourceOptions(chosen.seed), lambda: _in_dtype(dtype, lambda: model_class(config)),
                              SkippedInitialisation)  # fmt: skip
        part = submodule_at(source, built, path)
        refuse_size(source, chosen, dtype, lambda: part, inside=path)
        registry, as_dtype = TensorRegistry(), TORCH_DTYPES[chosen.dtype or dtype]
        files = tensor_folder(model.folder, _prefix(model_class))
        read = fill_submodule(source, built, path, files, as_dtype)
        draw_outside(source, built, path, chosen.seed, registry)
        built.train(chosen.train)
        if chosen.dtype:
            built.to(as_dtype)
        fixed, given = _transformers_call(source, model, config, chosen, built, registry)
        module, args, kwargs = call_inside(functools.partial(built, **fixed) if fixed else built, (), given, path, call)
    warnings.warn(
        f"{source.text}: {needed:.1f} GiB are more than half of this machine's memory: of its "
        f"{len(set(files.files.values()))} files {read} are read, for {path} alone; what modules with weights "
        f"compute before it is drawn (standard normal)",
        OnlySubmodule,
        stacklevel=2,
    )
    return Built(module, args, kwargs, registry)


def _quantised(source: Source, about: Any) -> SourceError:
    method = about.get("quant_method") if is_table(about) else None
    return SourceError(
        f"{source.text}: its weights are quantised by {method or 'an unnamed method'} (quantization_config), and "
        f"kernels of that library compute on them: load and dequantise it in a function of your own, FILE.py:CALLABLE "
        f"(from_pretrained, then model.dequantize()), or name the float checkpoint that it was made from"
    )


def _build_diffusers(model_class: Any, source: Source, model: HubModel, chosen: SourceOptions) -> Built:
    from mindgap_zoo.argument_makers.diffusers_cases import CASES
    from mindgap_zoo.argument_makers.diffusers_inputs import InputMaker, ModelCase

    table = _architecture(model.config)
    if chosen.layers is not None:
        raise SourceError(f"{source.text}: a network of diffusers keeps its layers; leave layers= out")
    refuse_size(source, chosen, "float32", lambda: model_class.from_config(table))
    registry = TensorRegistry()
    built, seeded = _weights(source, model, chosen, registry, lambda: model_class.from_config(table),
                             lambda absent: _pretrained(model_class, model, absent))  # fmt: skip
    case = CASES.get(model_class.__name__, ModelCase())
    made, fixed = InputMaker(built, case, chosen, registry).call_arguments(source)
    try:
        with torch.no_grad():
            built(**made, **fixed)
    except Exception as error:
        raise _unanswered(source, [f"with {', '.join([*made, *fixed])} it raised {one_line(error)}"]) from error
    return finished(built, chosen, registry, kwargs=made, fixed=fixed, seeded=seeded)


def _build_timm(architecture: str, source: Source, model: HubModel, chosen: SourceOptions) -> Built:
    timm: Any = import_library("timm", f"{model.source}: timm", "timm")
    config = model.config
    if not timm.is_model(architecture):
        raise SourceError(f"{source.text}: timm has no model {architecture!r}")
    arguments: dict[str, Any] = dict(config["model_args"]) if is_table(config.get("model_args")) else {}
    if isinstance(config.get("num_classes"), int):
        arguments["num_classes"] = config["num_classes"]
    published: Any = config.get("pretrained_cfg")
    shape: Any = published.get("input_size") if is_table(published) else None
    channels, height, width = shape if is_list(shape) and len(shape) == 3 else (3, 224, 224)
    if chosen.size is not None:
        height = width = chosen.size
    shapes = [(chosen.examples, channels, height, width)]

    def create() -> nn.Module:
        return timm.create_model(architecture, pretrained=False, **arguments)

    refuse_size(source, chosen, "float32", create)
    if not model.safetensors:
        return with_pictures(construct(source, chosen, create), shapes, chosen)
    registry = TensorRegistry()
    built, _ = _weights(source, model, chosen, registry, create, lambda _: _filled(create(), model))
    picture = registry.draw(Normal(seed_of("picture 0", chosen.seed)), _dtype_of(built), shapes[0])
    return finished(built, chosen, registry, (picture,), seeded=False)


def _architecture(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the configuration, towers included, without entries that fetch something or choose a kernel."""
    kept: dict[str, Any] = {}
    for key, value in config.items():
        if key in _NOT_ARCHITECTURE:
            continue
        kept[key] = _architecture(dict(value)) if is_table(value) else value
    if "use_pretrained_backbone" in kept:
        kept["use_pretrained_backbone"] = False
    return kept


def _prefix(model_class: Any) -> str:
    return str(getattr(model_class, "base_model_prefix", ""))


def _dtype_of_files(model: HubModel) -> str:
    """Returns the floating dtype that a configuration names for its weights, else float32."""
    named: object = model.config.get("dtype", model.config.get("torch_dtype"))
    return named if isinstance(named, str) and named in TORCH_DTYPES and kind_of(named) == "float" else "float32"


def _in_dtype(dtype: str, make: Callable[[], nn.Module]) -> nn.Module:
    """Makes a model whose weights have a dtype from the beginning."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(TORCH_DTYPES[dtype])
    try:
        return make()
    finally:
        torch.set_default_dtype(before)


def _weights(
    source: Source, model: HubModel, chosen: SourceOptions, registry: TensorRegistry,
    create: Callable[[], nn.Module], load: Callable[[set[str]], nn.Module], loaded: bool | None = None,
) -> tuple[nn.Module, bool]:  # fmt: skip
    """Returns the model, and whether its weights are seeded rather than trained.

    `load` adds the names of parameters that the files lack to the set it is given; those are seeded. `loaded`: whether
    the files' weights fit, by default whether there are any.
    """
    if not (model.safetensors if loaded is None else loaded):
        built = construct(source, chosen, create)
        seed_weights(built, chosen.seed, registry)
        return built, True
    absent: set[str] = set()
    built = construct(source, chosen, lambda: load(absent))
    seed_weights(built, chosen.seed, registry, only=absent)
    return built, False


def _pretrained(model_class: Any, model: HubModel, absent: set[str], **more: Any) -> nn.Module:
    """Returns the class filled from the folder's safetensors. Raises the library's error if they do not fit."""
    built, report = model_class.from_pretrained(
        str(model.folder), use_safetensors=True, local_files_only=True, output_loading_info=True, **more
    )
    absent.update(report["missing_keys"])
    return built


def _filled(built: nn.Module, model: HubModel) -> nn.Module:
    """Returns the model with the tensors of the folder's safetensors. Raises if a name or shape differs."""
    files = tensor_folder(model.folder)
    built.load_state_dict(files.read({name: name for name in files.files}))
    return built


def _dtype_of(built: nn.Module) -> str:
    """Returns the dtype of most weights, which its arguments take too."""
    return next((torch_dtype_name(p.dtype) for p in built.parameters() if p.is_floating_point()), "float32")


def _unanswered(source: Source, failures: list[str]) -> SourceError:
    return SourceError(f"{source.text}: {failures[0] if failures else 'there is no telling what it takes'}")
