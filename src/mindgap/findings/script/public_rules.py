"""Writes public calls whose arguments follow from the operator's by a rule of their own: sizes, norms, subscripts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

import torch

from mindgap.aten.operators import facts, packet_of
from mindgap.graph import Arg, DType, Graph, Node, Ref

_LAST: Final = 1 << 62
_FFT_FORWARD: Final = ("backward", "ortho", "forward")
_FFT_INVERSE: Final = ("forward", "ortho", "backward")


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice in a subscript. None for an end that is left out."""

    start: int | None
    stop: int | None
    step: int | None


@dataclass(frozen=True, slots=True)
class Form:
    """One call to try.

    `strict`: the function takes every argument of the operator by name, so that its refusal is a refusal of them.
    `subscript`: of `positional[0][...]`; then there is no function name to print. `attribute`: of a tensor, not called.
    """

    name: str
    function: Callable[..., Any]
    positional: tuple[Arg, ...]
    keywords: tuple[tuple[str, Arg], ...] = ()
    strict: bool = False
    subscript: tuple[Arg | Slice, ...] | None = None
    attribute: bool = False


def bound(node: Node) -> dict[str, Arg]:
    """Returns the given arguments by the names of the schema."""
    return {**dict(zip(facts(node.op).arguments, node.args, strict=False)), **dict(node.kwargs)}


def special_forms(graph: Graph, node: Node) -> Iterator[Form]:
    """Yields the calls that the rule of the node's operator writes; none without a rule."""
    packet, given = packet_of(node.op), bound(node)
    rule = _RULES.get(packet)
    if rule is not None:
        yield from rule(graph, node, given)
    elif "upsample" in packet:
        yield from _interpolate(graph, node, given)
    elif packet in _PADDINGS:
        keywords: list[tuple[str, Arg]] = [("mode", _PADDINGS[packet])]
        yield _functional("pad", (node.args[0], given.get("padding", given.get("pad"))), keywords)


def _functional(
    short: str, positional: tuple[Arg, ...], keywords: Sequence[tuple[str, Arg]], strict: bool = True
) -> Form:
    return Form(
        f"torch.nn.functional.{short}", getattr(torch.nn.functional, short), positional, tuple(keywords), strict
    )


_PADDINGS: Final = {
    **{f"reflection_pad{n}d": "reflect" for n in (1, 2, 3)},
    **{f"replication_pad{n}d": "replicate" for n in (1, 2, 3)},
}


def _constant_pad(graph: Graph, node: Node, given: dict[str, Arg]) -> Iterator[Form]:
    value: Arg = given.get("value", 0)
    yield _functional("pad", (given["self"], given["pad"]), [("value", value)] if value else [])


def _interpolate(graph: Graph, node: Node, given: dict[str, Arg]) -> Iterator[Form]:
    """`interpolate` takes a size or scale factors, and not both."""
    packet = packet_of(node.op)
    exact, aa = "_exact" in packet, packet.endswith("_aa")
    kind = next((word for word in ("nearest", "bilinear", "bicubic", "trilinear", "linear") if word in packet), "")
    keywords: list[tuple[str, Arg]] = [("mode", "nearest-exact" if exact else kind)]
    if given.get("align_corners"):
        keywords.append(("align_corners", True))
    if aa:
        keywords.append(("antialias", True))
    source: Arg = given.get("self", given.get("input"))
    each = (given.get("scales_d"), given.get("scales_h"), given.get("scales_w"), given.get("scales"))
    scales: Arg = given.get("scale_factors") or tuple(scale for scale in each if scale is not None)
    if scales:
        yield _functional("interpolate", (source,), [("scale_factor", scales), *keywords])
    if given.get("output_size") is not None:
        yield _functional("interpolate", (source,), [("size", given["output_size"]), *keywords], strict=not scales)


def _unpool(graph: Graph, node: Node, given: dict[str, Arg]) -> Iterator[Form]:
    """`max_unpool` needs the size of the windows: that which the sizes of input and output follow from."""
    source, size = given["self"], given["output_size"]
    spec = graph.values[source.index] if isinstance(source, Ref) else None
    if spec is None or not isinstance(size, tuple) or not all(isinstance(s, int) for s in size):
        return
    sizes = [s for s in size if isinstance(s, int)]
    short, pairs = packet_of(node.op), list(zip(spec.shape[-len(sizes) :], sizes, strict=False))
    for rule in (math.ceil, math.floor):
        windows = tuple(max(rule(large / max(small, 1)), 1) for small, large in pairs)
        yield _functional(
            short, (source, given["indices"], windows), [("output_size", size)], strict=rule is math.floor
        )


def _fft(graph: Graph, node: Node, given: dict[str, Arg]) -> Iterator[Form]:
    """The functions name the norm, and `irfftn` takes the size of the result."""
    packet, dims, norm = packet_of(node.op), given["dim"], given["normalization"]
    number = norm if isinstance(norm, int) and 0 <= norm < 3 else 0
    forward = packet == "_fft_r2c" or bool(given.get("forward"))
    keywords: list[tuple[str, Arg]] = [("dim", dims), ("norm", (_FFT_FORWARD if forward else _FFT_INVERSE)[number])]
    name = {"_fft_r2c": "rfftn" if given.get("onesided") else "fftn", "_fft_c2r": "irfftn"}.get(
        packet, "fftn" if forward else "ifftn"
    )
    source = given["self"]
    if packet == "_fft_c2r":
        spec = graph.values[source.index] if isinstance(source, Ref) else None
        if spec is None or not isinstance(dims, tuple):
            return
        sizes: list[Arg] = [spec.shape[dim] for dim in dims if isinstance(dim, int)]
        keywords.insert(0, ("s", (*sizes[:-1], given["last_dim_size"])))
    yield Form(f"torch.fft.{name}", getattr(torch.fft, name), (source,), tuple(keywords))


def _eigh(graph: Graph, node: Node, given: dict[str, Arg]) -> Iterator[Form]:
    name = "eigh" if given.get("compute_v", True) else "eigvalsh"
    yield _linear(name, given, (("UPLO", given.get("UPLO", "L")),))


def _linear(name: str, given: dict[str, Arg], keywords: tuple[tuple[str, Arg], ...] = ()) -> Form:
    return Form(f"torch.linalg.{name}", getattr(torch.linalg, name), (given["A"],), keywords)


def _svd(graph: Graph, node: Node, given: dict[str, Arg]) -> Iterator[Form]:
    if given.get("compute_uv", True):
        keywords = (("full_matrices", given.get("full_matrices", False)),)
        yield _linear("svd", given, keywords)
    else:
        yield _linear("svdvals", given)


def _cast(graph: Graph, node: Node, given: dict[str, Arg]) -> Iterator[Form]:
    """`Tensor.to` copies only with `copy=True`, or converts."""
    kept = [(name, given[name]) for name in ("memory_format",) if given.get(name) is not None]
    dtype = given.get("dtype")
    for copy in ((), (("copy", True),)):
        if dtype is not None:
            yield Form("torch.Tensor.to", torch.Tensor.to, (given["self"], dtype), (*copy, *kept))
    if dtype is None:
        yield Form("torch.clone", torch.clone, (given["self"],), tuple(kept))


def _sliced(graph: Graph, node: Node, given: dict[str, Arg]) -> Iterator[Form]:
    source, dim = given["self"], given.get("dim", 0)
    spec = graph.values[source.index] if isinstance(source, Ref) else None
    ends = [given.get(name) for name in ("start", "end", "step")]
    if spec is None or not spec.shape or not isinstance(dim, int) or any(isinstance(end, Ref) for end in ends):
        return
    start, stop, step = (end if isinstance(end, int) else None for end in ends)
    stop = None if stop is not None and stop >= _LAST else stop
    whole: list[Arg | Slice] = [Slice(None, None, None)] * (dim % len(spec.shape))
    yield _subscripted(source, (*whole, Slice(start or None, stop, None if step == 1 else step)))


def _indexed(graph: Graph, node: Node, given: dict[str, Arg]) -> Iterator[Form]:
    indices = given["indices"]
    if isinstance(indices, tuple):
        whole: Slice = Slice(None, None, None)
        yield _subscripted(given["self"], tuple(whole if index is None else index for index in indices))


def _subscripted(source: Arg, subscript: tuple[Arg | Slice, ...]) -> Form:
    return Form("torch.Tensor.__getitem__", torch.Tensor.__getitem__, (source,), subscript=subscript)


def _put(graph: Graph, node: Node, given: dict[str, Arg]) -> Iterator[Form]:
    """Functions that write take a tuple of indices without gaps; a subscript takes all."""
    packet = packet_of(node.op)
    name = "index_put_" if packet.endswith("_") else "index_put"
    positional = (given["self"], given["indices"], given["values"])
    keywords = (("accumulate", True),) if given.get("accumulate") else ()
    yield Form(f"torch.Tensor.{name}", getattr(torch.Tensor, name), positional, keywords)


def _scalar(graph: Graph, node: Node, given: dict[str, Arg]) -> Iterator[Form]:
    dtype = given.get("dtype", DType("float32"))
    yield Form("torch.full", torch.full, ((), given["s"]), (("dtype", dtype),))


def _attention(graph: Graph, node: Node, given: dict[str, Arg]) -> Iterator[Form]:
    mask = given.get("attn_mask", given.get("attn_bias"))
    keywords = [("attn_mask", mask), ("dropout_p", given.get("dropout_p", 0.0)),
                ("is_causal", given.get("is_causal", False)), ("scale", given.get("scale"))]  # fmt: skip
    plain = (None, 0.0, False)
    yield _functional(
        "scaled_dot_product_attention", (given["query"], given["key"], given["value"]),
        [(name, value) for name, value in keywords if value not in plain],
    )  # fmt: skip


def _property(graph: Graph, node: Node, given: dict[str, Arg]) -> Iterator[Form]:
    """Transposes that are attributes of a tensor."""
    name = _ATTRIBUTES[packet_of(node.op)]
    yield Form(f"torch.Tensor.{name}", attrgetter(name), node.args[:1], attribute=True)


_ATTRIBUTES: Final = {"mT": "mT", "mH": "mH", "matrix_H": "H", "numpy_T": "T"}


def _starred(graph: Graph, node: Node, given: dict[str, Arg]) -> Iterator[Form]:
    """Functions that take tensors one by one, where the operator takes a list."""
    name, tensors = packet_of(node.op), node.args[0]
    keywords = tuple((key, value) for key, value in given.items() if key != facts(node.op).arguments[0])
    if isinstance(tensors, tuple):
        yield Form(f"torch.{name}", getattr(torch, name), tensors, keywords)


#: Packet -> a rule that writes public calls of it.
_RULES: Final[Mapping[str, Callable[[Graph, Node, dict[str, Arg]], Iterator[Form]]]] = {
    "constant_pad_nd": _constant_pad,
    "max_unpool2d": _unpool,
    "max_unpool3d": _unpool,
    "_fft_r2c": _fft,
    "_fft_c2c": _fft,
    "_fft_c2r": _fft,
    "_linalg_eigh": _eigh,
    "_linalg_svd": _svd,
    "_to_copy": _cast,
    "slice": _sliced,
    "index": _indexed,
    "_unsafe_index": _indexed,
    "index_put": _put,
    "index_put_": _put,
    "_unsafe_index_put": _put,
    "_index_put_impl_": _put,
    "scalar_tensor": _scalar,
    **dict.fromkeys(_ATTRIBUTES, _property),
    **dict.fromkeys(("broadcast_tensors", "meshgrid", "block_diag", "cartesian_prod"), _starred),
    **dict.fromkeys(("atleast_1d", "atleast_2d", "atleast_3d"), _starred),
    **{
        f"_scaled_dot_product_{name}": _attention
        for name in ("flash_attention_for_cpu", "flash_attention", "attention_math", "efficient_attention")
    },
    "_scaled_dot_product_attention_math": _attention,
}
