"""Opens `FILE.onnx`: a model file, translated to PyTorch and checked against ONNX's reference evaluator.

The file is read as data and runs no code. Its external data must lie in its folder or below.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import torch

from mindgap.aten.tensors import to_numpy
from mindgap.graph_capture.errors import UnprovenCapture
from mindgap.onnx_files.completion import (
    RUNTIME_DOMAINS,
    complaint,
    complete,
    shapes_fit,
    with_types,
)
from mindgap.onnx_files.inputs import (
    ChosenInputs,
    held_inputs,
    input_choices,
    model_inputs,
    shape_of,
    size_choices,
    symbols,
)
from mindgap.onnx_files.model_proto import initial_value, initial_values, op_of, subgraphs
from mindgap.onnx_files.node import ConstantResults
from mindgap.onnx_files.pointwise import element_type
from mindgap.onnx_files.reference_check import ReferenceCheck
from mindgap.onnx_files.translation import (
    bakeable,
    is_translated,
    structural_names,
    translated,
)
from mindgap.sources.program import ArgumentChange, Built, Program
from mindgap.sources.source import Source, SourceError, one_line, require_file, suggest
from mindgap.sources.translated_model import (
    CHECKED,
    InvalidFile,
    MissingTranslation,
    TranslatedModel,
    Unrunnable,
    Untranslated,
    UntranslatedModel,
)

#: Bytes of a protobuf message, at most.
_LARGEST: Final = 2 << 30
#: Seconds for the comparison with the reference evaluator.
_CHECK_S: Final = 20.0
#: Versions of ONNX's operator set before this one broadcast in another way.
_OLDEST: Final = 7


def open_onnx_file(source: Source) -> list[Program]:
    """Returns one program. Raises `SourceError` if there is no such file."""
    path = Path(source.target)
    require_file(path)
    build = functools.partial(_build, source, path)
    return [Program(path.stem, source.text, build, remake=build)]


def _build(source: Source, path: Path, change: ArgumentChange | None = None) -> Built:
    """Translates the file for the first sizes that fit, or for those of the arguments that a change of drawn ones
    gives: its graph depends on them. Raises `SourceError`, one line that begins with the path."""
    try:
        import onnx  # noqa: F401  # pyright: ignore[reportUnusedImport] # the first use, for a message
    except ImportError as error:
        raise SourceError(f"{path}: needs the package onnx ({error}); pip install 'mindgap[onnxruntime]'") from error
    model = load_model(path)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if reason := complaint(model):
                raise InvalidFile(reason)
            built, note = _translated(source, expanded(model), change, path.resolve().parent)
    except Unrunnable as reason:
        raise SourceError(f"{path}: {reason}") from reason
    except Untranslated as reason:
        valid = not isinstance(reason, InvalidFile)
        return _untranslated(source, model, f"{path}: {reason}", change, valid)
    except MemoryError as error:
        raise SourceError(f"{path}: its tensors take more memory than there is") from error
    if note:
        warnings.warn(f"{path}: {note}", UnprovenCapture, stacklevel=2)
    return built


def _untranslated(source: Source, model: Any, reason: str, change: ArgumentChange | None, valid: bool) -> Built:
    """Returns what stands for a file that has no translation: its inputs, of the first sizes that fit by ONNX's shape
    inference. Raises `SourceError` where these are not known."""
    try:
        inputs = model_inputs(model.graph)
        seed, given = _options(source, symbols(inputs))
        drawn: ChosenInputs | None = None
        for each in input_choices(model.graph, inputs, given, structural_names(model.graph.node), seed, change):
            drawn = drawn or each
            if shapes_fit(model, each.tensors):
                drawn = each
                break
        assert drawn is not None, "at least one choice is tried"
        fixed = {name: to_numpy(each) for name, each in _overridable(model).items()}
        fixed |= held_inputs(model, {**drawn.chosen, **given}, seed)[0]
    except Untranslated as error:
        raise SourceError(reason if str(error) in reason else f"{reason}; {error}") from None
    stand_in = UntranslatedModel([*drawn.tensors], reason, fixed=fixed, valid=valid)
    return Built(stand_in, tuple(drawn.tensors.values()), {}, drawn.registry)


def _overridable(model: Any) -> dict[str, torch.Tensor]:
    """The initializers that are inputs too: a runtime may ask for them."""
    inputs = {each.name for each in model.graph.input}
    return {
        one.name: initial_value(one) for one in model.graph.initializer if one.name in inputs and not one.external_data
    }


def load_model(path: Path) -> Any:
    """Reads a model with its external data, and completes it as runtimes do. Raises `SourceError` for a file that is
    damaged or too large."""
    import onnx

    if path.stat().st_size > _LARGEST:
        raise SourceError(
            f"{path}: {path.stat().st_size / (1 << 30):.1f} GiB, and a protobuf file holds at most 2: save the model "
            "with external data (onnx.save_model with save_as_external_data=True)"
        )
    try:
        library: Any = onnx  # typed in parts
        model = library.load(str(path), load_external_data=False)
    except Exception as error:
        raise SourceError(f"{path}: damaged, or no ONNX model ({one_line(error)})") from error
    if not model.ir_version:
        raise SourceError(f"{path}: damaged, or no ONNX model")
    for graph in (model.graph, *model.functions):
        if (name := next((each for each in _names(graph) if isinstance(each, bytes)), None)) is not None:
            raise SourceError(f"{path}: damaged: the name {name[:40]!r} is no UTF-8")
    _find_external(path, model)
    complete(model)
    return model


def _names(graph: Any) -> Iterator[str | bytes]:
    """The names in a graph or function that its nodes hold, and inner graphs with theirs. protobuf gives bytes where
    one is no UTF-8."""
    for node in graph.node:
        yield from (node.op_type, node.domain, node.name, *node.input, *node.output)
        yield from (each.name for each in node.attribute)
        for inner in subgraphs(node):
            yield from _names(inner)


def _find_external(path: Path, model: Any) -> None:
    """Finds the tensors in the files next to the model. Those of nodes are loaded; initializers stay in their files
    (`model_proto.initial_values` maps them). Raises `SourceError` for one that is outside, missing or short."""
    from onnx import external_data_helper

    folder = path.resolve().parent
    loaded = 0
    for tensor, mapped in _stored_tensors(model):
        if not external_data_helper.uses_external_data(tensor):
            continue
        fields = {each.key: each.value for each in tensor.external_data}
        location = fields.get("location", "")
        file = (folder / location).resolve()
        if not location or not file.is_relative_to(folder):
            raise SourceError(
                f"{path}: tensor {tensor.name} lies in {location!r}, outside the model's folder: not read"
            )
        if not file.is_file():
            raise SourceError(f"{path}: its file {location} is missing: put it beside the model (tensor {tensor.name})")
        try:
            end = int(fields.get("offset", 0)) + int(fields.get("length", 0))
        except ValueError:
            raise SourceError(f"{path}: tensor {tensor.name} has an offset or length that is no number") from None
        if end > file.stat().st_size:
            raise SourceError(
                f"{path}: its file {location} has {file.stat().st_size} bytes and tensor {tensor.name} ends at {end}: "
                "it is damaged, or of another model"
            )
        if mapped:
            continue
        loaded += int(fields.get("length", 0)) or file.stat().st_size
        if loaded > _LARGEST:
            raise SourceError(f"{path}: tensors inside nodes take more than 2 GiB: make initializers of them")
        try:
            external_data_helper.load_external_data_for_tensor(tensor, str(folder))
        except Exception as error:
            raise SourceError(f"{path}: tensor {tensor.name} of {location}: {one_line(error)}") from error
        tensor.data_location = 0
        del tensor.external_data[:]


def _stored_tensors(model: Any) -> Iterator[tuple[Any, bool]]:
    """All tensors of a model, and whether each is an initializer of its main graph."""
    yield from ((tensor, True) for tensor in model.graph.initializer)
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        yield from ((tensor, False) for tensor in _tensors_of_nodes(nodes))


def _tensors_of_nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    for node in nodes:
        for one in node.attribute:
            if one.HasField("t"):
                yield one.t
        for inner in subgraphs(node):
            yield from inner.initializer
            yield from _tensors_of_nodes(inner.node)


def expanded(model: Any) -> Any:
    """Returns the model with its functions, and ONNX's functions that have no translation, written out. Raises
    `MissingTranslation` with all operators that are left."""
    import onnx
    from onnx import inliner

    if not model.graph.node:
        raise Untranslated("its graph has no nodes")
    model = _newer(model)
    if model.functions:
        model = inliner.inline_local_functions(model)
    missing = _missing(model.graph)
    schemas: dict[str, Any] = {op: onnx.defs.get_schema(op) for op in missing if onnx.defs.has(op)}
    bodies = [("", op) for op, s in schemas.items() if s.has_function or s.has_context_dependent_function]
    if bodies:
        try:
            model = inliner.inline_selected_functions(
                with_types(model), bodies, exclude=False, inline_schema_functions=True
            )
        except Exception as error:  # it asserts what a model need not hold
            # A failed check of the model names a line of the library, which is of no use to a user.
            why = f"a check in onnx {onnx.__version__} fails" if "inliner.cc" in str(error) else one_line(error)
            raise MissingTranslation(
                f"onnx.inliner cannot write out {', '.join(op for _, op in bodies)}: {why}"
            ) from error
        missing = _missing(model.graph)
    if missing:
        other = {domain for op in missing if (domain := op.rpartition(".")[0]) not in ("", *RUNTIME_DOMAINS)}
        needs = f"; a runtime needs the library of {', '.join(sorted(other))}, which is not ONNX's" if other else ""
        counted = ", ".join(_counted(op, *each) for op, each in missing.items())
        raise MissingTranslation(f"no translation of {counted}{needs}")
    return model


def _newer(model: Any) -> Any:
    """The model in the oldest operator set that has translations. Raises `MissingTranslation` for an older one that
    onnx does not convert."""
    import onnx

    version = max((each.version for each in model.opset_import if not each.domain), default=_OLDEST)
    if version >= _OLDEST:
        return model
    try:
        converter: Any = onnx.version_converter  # typed in parts
        return converter.convert_version(model, _OLDEST)
    except Exception as error:  # it asserts what a model need not hold
        raise MissingTranslation(
            f"no translation of operator set {version}, older than {_OLDEST}, which onnx {onnx.__version__} does not "
            "convert"
        ) from error


def _counted(op: str, node: str, count: int) -> str:
    return f"operator {op} (node {node}{f' and {count - 1} more' if count > 1 else ''})"


def _missing(graph: Any) -> dict[str, tuple[str, int]]:
    """Operators without a translation: the first node of each, and their number."""
    missing: dict[str, tuple[str, int]] = {}
    for node in graph.node:
        if not is_translated(node):
            name, count = missing.get(op_of(node), (node.name or (node.output[0] if node.output else "?"), 0))
            missing[op_of(node)] = name, count + 1
        for inner in subgraphs(node):
            for op, (name, count) in _missing(inner).items():
                missing[op] = name, missing.get(op, ("", 0))[1] + count
    return missing


def _translated(source: Source, model: Any, change: ArgumentChange | None, folder: Path) -> tuple[Built, str]:
    """Returns the program and the note about it. `folder`: of the model's tensors that lie in files."""
    inputs = model_inputs(model.graph)
    if why := held_inputs(model, {}, 0)[1]:
        raise Untranslated(why)
    initial = initial_values(model, folder)
    seed, given = _options(source, symbols(inputs))
    refused: Untranslated | None = None
    for drawn in input_choices(model.graph, inputs, given, structural_names(model.graph.node), seed, change):
        baked = bakeable(model, drawn.tensors)
        try:
            translated(model, drawn.tensors, baked=baked, initial=initial)
        except ConstantResults as constant:
            if constant.program is None:
                raise
        except MissingTranslation:
            raise
        except Untranslated as error:
            refused = refused or error
            continue
        check = ReferenceCheck(model, _CHECK_S)
        try:
            program = translated(model, drawn.tensors, None if CHECKED.get() else check, baked, initial)
        except ConstantResults as constant:
            assert constant.program is not None, "it is raised above"
            program = constant.program
        notes = [_check_note(program, check, drawn.chosen), _declared_otherwise(model, program, drawn.tensors)]
        program.fixed_inputs |= {name: to_numpy(each) for name, each in _overridable(model).items()}
        tensors = tuple(drawn.tensors[name] for name in program.argument_names)
        return Built(program, tensors, {}, drawn.registry), "; ".join(filter(None, notes))
    assert refused is not None, "at least one choice is tried"
    free = [name for name in symbols(inputs) if name not in given]
    if change is not None or not inputs:
        raise refused
    if not free:
        raise type(refused)(f"{refused}; other inputs may fit: --inputs FILE.npz") from refused
    shapes = ", ".join(f"{each.name} {list(shape_of(each, next(size_choices(inputs, given))))}" for each in inputs)
    raise type(refused)(
        f"no size that was tried fits ({shapes}: {refused}); give sizes (--set {free[0]}=…) or inputs "
        "(--inputs FILE.npz)"
    )


def _check_note(program: TranslatedModel, check: ReferenceCheck, chosen: Mapping[str, int]) -> str:
    parts: list[str] = []
    if unchecked := check.words():
        parts.append(f"not compared with ONNX's reference evaluator: {unchecked}")
    for name, array in program.fixed_inputs.items():
        parts.append(f"input {name} decides shapes and is fixed at {array.tolist()}")
    if chosen:
        parts.append(
            f"sizes were chosen: {', '.join(f'{name}={size}' for name, size in chosen.items())} (--set sets them)"
        )
    return "; ".join(parts)


def _options(source: Source, names: list[str]) -> tuple[int, dict[str, int]]:
    """Returns the seed and the sizes that the source sets."""
    for name in source.options:
        if name not in (*names, "seed"):
            known = ", ".join(["seed", *names])
            raise SourceError(f"{source.text}: no option {name!r} here; there are: {known}{suggest(name, names)}")
    return source.number("seed", least=0), {name: source.number(name) for name in source.options if name != "seed"}


def _declared_otherwise(model: Any, program: TranslatedModel, drawn: Mapping[str, torch.Tensor]) -> str:
    """Says which outputs have another shape than the file declares, of which runtimes warn. Raises `Untranslated` for
    another dtype."""
    results = program(*[drawn[name].clone() for name in program.argument_names])
    parts: list[str] = []
    for value in model.graph.output:
        kind, result = value.type.tensor_type, results[value.name]
        if kind.elem_type and kind.elem_type not in (21, 22, 25, 26) and element_type(kind.elem_type) != result.dtype:
            raise Untranslated(
                f"output {value.name} is declared {element_type(kind.elem_type)}, and its node gives {result.dtype}: "
                "correct the declaration (onnx.shape_inference finds it)"
            )
        sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim]
        fits = len(sizes) == result.dim() and all(
            size in (None, real) for size, real in zip(sizes, result.shape, strict=False)
        )
        if kind.HasField("shape") and not fits:
            declared = [dim.dim_value or dim.dim_param or "?" for dim in kind.shape.dim]
            parts.append(f"output {value.name} is declared {declared}, and its node gives {list(result.shape)}")
    return "; ".join(parts)
