"""Completes an ONNX model as runtimes do when they load it, and checks what is left with ONNX's checker.

Runtimes sort nodes, take the newest version of an operator set that is not imported, and infer types and shapes that
are not declared. The checker refuses each of these, and reports one complaint at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, Final

import torch

from mindgap.onnx_files.model_proto import domain_of, subgraphs, used_names

#: Format versions from which a model imports operator sets, and initializers need not be inputs.
_IMPORTS: Final = 3
_INITIALIZERS_ALONE: Final = 4
#: Bytes of a tensor that the checker is not given: it copies what it checks.
_LARGE: Final = 1 << 20
#: The domain of operators that ONNX's own has not, in what the checker is given.
_UNKNOWN: Final = "unknown"
#: Domains of operators that runtimes have by themselves, and the version where onnx does not know the domain.
RUNTIME_DOMAINS: Final = {
    "ai.onnx.ml": 1, "ai.onnx.preview": 1, "ai.onnx.preview.training": 1, "ai.onnx.training": 1, "com.microsoft": 1,
    "com.microsoft.nchwc": 1, "com.ms.internal.nhwc": 1,
}  # fmt: skip


def complete(model: Any) -> None:
    """Completes a model in place: order of nodes, imports, name of the graph; removes what declares nothing (a negative
    size, a `value_info` without a type, all but the last initializer of one name)."""
    for part in (*model.opset_import, *(node for graph in _graphs(model) for node in graph.node)):
        part.domain = domain_of(part)
    model.graph.name = model.graph.name or "graph"
    _import_missing(model)
    last = {each.name: each for each in model.graph.initializer}
    _remove(model.graph.initializer, lambda each: last[each.name] is not each)
    for graph in _graphs(model):
        _sort(graph)
        _remove(graph.value_info, lambda each: each.type.WhichOneof("value") is None)
        for value in (*_declared(graph), *graph.value_info):
            for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
                if dim.HasField("dim_value") and dim.dim_value < 0:
                    dim.ClearField("dim_value")


def complaint(model: Any) -> str:
    """Returns the checker's errors about a completed model that no runtime forgives, in one line; empty if nothing.

    The model is checked as runtimes read it: types and shapes of outputs are inferred, initializers are no inputs, and
    operators that ONNX does not have may be a runtime's.
    """
    import onnx

    if model.ir_version > onnx.IR_VERSION:
        return (
            f"format version {model.ir_version} is newer than {onnx.IR_VERSION}, the newest of onnx "
            f"{onnx.__version__}: pip install --upgrade onnx"
        )
    newest = onnx.defs.onnx_opset_version()
    for each in model.opset_import:
        if not each.domain and each.version > newest:
            return (
                f"operator set {each.version}; onnx {onnx.__version__} knows 7 to {newest}: pip install --upgrade onnx"
            )
    checked = outline(model)
    checked.ir_version = max(model.ir_version, _INITIALIZERS_ALONE)
    _forgive(checked)
    checker: Any = onnx.checker  # typed in parts
    try:
        checker.check_model(checked)
    except Exception as error:  # of several types, by what it checks
        return f"not valid ONNX: {' '.join(str(error).partition('==> Context:')[0].split())[:300]}"
    return ""


def _import_missing(model: Any) -> None:
    """Imports the newest version of each known operator set that is used and not imported, as ONNX Runtime does."""
    import onnx

    imported = {each.domain for each in model.opset_import}
    functions = {each.domain for each in model.functions}
    used = {node.domain for graph in _graphs(model) for node in graph.node} - imported
    if model.ir_version < _IMPORTS and not model.opset_import:
        model.opset_import.add(domain="", version=1)
        used -= {""}
    newest = {schema.domain: 0 for schema in onnx.defs.get_all_schemas()} if used else {}
    for domain in sorted(used):
        if domain in newest and domain:
            versions = [
                each.since_version for each in onnx.defs.get_all_schemas_with_history() if each.domain == domain
            ]
            model.opset_import.add(domain=domain, version=max(versions))
        elif domain in RUNTIME_DOMAINS or domain in functions:
            model.opset_import.add(domain=domain, version=RUNTIME_DOMAINS.get(domain, 1))


def _graphs(model: Any) -> Iterator[Any]:
    """Yields the graph of a model and its functions, each with those inside."""
    for outer in (model.graph, *model.functions):
        yield outer
        yield from _inner(outer.node)


def _inner(nodes: Iterable[Any]) -> Iterator[Any]:
    for node in nodes:
        for graph in subgraphs(node):
            yield graph
            yield from _inner(graph.node)


def _declared(graph: Any) -> Iterator[Any]:
    """The inputs and outputs of a graph; a function's are names alone."""
    yield from (each for each in (*graph.input, *graph.output) if not isinstance(each, str))


def _remove(values: Any, is_removed: Callable[[Any], bool]) -> None:
    for place in reversed(range(len(values))):
        if is_removed(values[place]):
            del values[place]


def _sort(graph: Any) -> None:
    """Puts each node behind those whose results it uses, and keeps the order else. A cycle stays as it is."""
    made = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    needs = [
        {made[name] for name in used_names(node) if made.get(name, place) != place}
        for place, node in enumerate(graph.node)
    ]
    if all(each < place for place, needed in enumerate(needs) for each in needed):
        return
    users: dict[int, list[int]] = {}
    for place, needed in enumerate(needs):
        for each in needed:
            users.setdefault(each, []).append(place)
    ready = [place for place, needed in enumerate(needs) if not needed]
    heapify(ready)
    order: list[int] = []
    while ready:
        order.append(heappop(ready))
        for user in users.get(order[-1], ()):
            needs[user].discard(order[-1])
            if not needs[user]:
                heappush(ready, user)
    if len(order) == len(graph.node):
        nodes = [graph.node[place] for place in order]
        del graph.node[:]
        graph.node.extend(nodes)


def outline(model: Any) -> Any:
    """Returns a copy of a model without the data of large or external initializers: each is empty there."""
    import onnx

    graph = model.graph
    weights = [
        onnx.TensorProto(name=each.name, data_type=each.data_type, dims=[0])
        if each.external_data or len(each.raw_data) > _LARGE
        else each
        for each in graph.initializer
    ]
    copied = onnx.GraphProto(
        name=graph.name, node=graph.node, input=graph.input, output=graph.output, value_info=graph.value_info,
        initializer=weights, sparse_initializer=graph.sparse_initializer,
    )  # fmt: skip
    return onnx.ModelProto(
        ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions, graph=copied
    )


def with_types(model: Any) -> Any:
    """Returns the model with the type of each value that ONNX's inference finds, and of each initializer: what writes
    out a function reads them there."""
    import onnx

    library: Any = onnx  # typed in parts
    try:
        types: Any = library.shape_inference.infer_shapes(outline(model)).graph.value_info
    except library.shape_inference.InferenceError:  # what runtimes take need not be what the inference does
        types = ()
    typed = onnx.ModelProto()
    typed.CopyFrom(model)
    known = {each.name for each in (*model.graph.value_info, *model.graph.input, *model.graph.output)}
    for each in model.graph.initializer:
        if each.name not in known:
            typed.graph.value_info.append(library.helper.make_tensor_value_info(each.name, each.data_type, each.dims))
    typed.graph.value_info.extend(each for each in types if each.name not in known)
    return typed


def shapes_fit(model: Any, inputs: Mapping[str, torch.Tensor]) -> bool:
    """Returns whether ONNX's inference finds no contradiction in the shapes of these inputs."""
    import onnx

    sized = outline(model)
    for value in sized.graph.input:
        if value.name in inputs:
            shape = value.type.tensor_type.shape
            del shape.dim[:]
            for size in inputs[value.name].shape:
                shape.dim.add(dim_value=size)
    library: Any = onnx  # typed in parts
    try:
        library.shape_inference.infer_shapes(sized, strict_mode=True, data_prop=True)
    except library.shape_inference.InferenceError:
        return False
    except (RuntimeError, ValueError, IndexError, library.checker.ValidationError, library.defs.SchemaError):
        return True  # what it does not know is no contradiction
    return True


def _forgive(model: Any) -> None:
    """Declares what runtimes infer, and gives operators that ONNX has not another domain."""
    import onnx

    versions = {each.domain: each.version for each in model.opset_import}
    own = {(each.domain, each.name) for each in model.functions}
    for graph in _graphs(model):
        for value in () if graph in model.functions else graph.output:
            if value.type.WhichOneof("value") is None:
                value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        for value in _declared(graph):
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.shape.SetInParent()
        for node in graph.node:
            known = (node.domain, node.op_type) in own
            if not known and not _has(node.op_type, node.domain, versions.get(node.domain, 1)):
                node.domain = _UNKNOWN
    for part in (model, *model.functions):
        part.opset_import.add(domain=_UNKNOWN, version=1)


def _has(op: str, domain: str, version: int) -> bool:
    import onnx

    try:
        onnx.defs.get_schema(op, version, domain)
    except onnx.defs.SchemaError:
        return False
    return True
