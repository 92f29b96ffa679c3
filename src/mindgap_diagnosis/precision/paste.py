"""Writes a list of operators in the forms that converters, quantisers and autocast take."""

from __future__ import annotations

import inspect
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

from mindgap.platforms.name import PlatformName
from mindgap_diagnosis.precision.candidates import Operator

#: Runs modules in float32 within autocast, and casts what they read.
_REGION = """\
def in_float32(module):
    inner = module.forward
    def forward(*args):
        with torch.autocast({device!r}, enabled=False):
            return inner(*(a.float() if torch.is_tensor(a) and a.is_floating_point() else a for a in args))
    module.forward = forward
for name in {modules}:
    in_float32(model.get_submodule(name))"""


def file_lists(kept: Sequence[Operator], carriers: Sequence[str], every: Sequence[Operator]) -> dict[str, str]:
    """Returns the lists for a converted ONNX file: names of nodes, and their types where all nodes of these stay."""
    names = [*(each.name for each in kept), *carriers]
    if not names:
        return {}
    lists = {
        "ONNX Runtime convert_float_to_float16": f"node_block_list={names}\n"
        "# The tool casts to float16 between two nodes of the list too, where values overflow, and writes a cast that\n"
        "# two nodes read twice, which ONNX Runtime refuses. The file of --save FILE.onnx has neither."
    }
    kinds = sorted({each.kind for each in kept})
    if all(each in kept for each in every if each.kind in kinds):
        lists["ONNX Runtime, by type"] = f"op_block_list=DEFAULT_OP_BLOCK_LIST + {kinds}"
    lists["TensorRT (Polygraphy)"] = "--precision-constraints obey --layer-precisions " + " ".join(
        f"{name}:float32" for name in names
    )
    return lists


def mark_precise(file: str, names: list[str]) -> None:
    """Marks operators of an IR that stay in float32 under a hint of precision. The CPU plug-in obeys (2026.4), but for
    operators that it fuses into a `Subgraph`."""
    tree = ElementTree.parse(file)
    for layer in tree.iter("layer"):
        if layer.get("name") in names:
            info = layer.find("rt_info")
            info = ElementTree.SubElement(layer, "rt_info") if info is None else info
            ElementTree.SubElement(info, "attribute", name="precise", version="0")
    tree.write(file)


def tool_lists(names: Sequence[str], platform: PlatformName, to: str) -> dict[str, str]:
    """Returns the list for the tool of a platform. `names`: as it calls operators."""
    if not names:
        return {}
    if platform.device == "openvino" and to == "bfloat16":
        marks = inspect.getsource(mark_precise)
        text = f"import xml.etree.ElementTree as ElementTree\n{marks}mark_precise('model.xml', {[*names]})"
        return {"OpenVINO, in the file that openvino.save_model writes": text}
    if platform.device == "openvino":
        return {"NNCF quantize, for OpenVINO": f"ignored_scope=nncf.IgnoredScope(names={names})"}
    if platform.device == "cpu":
        text = f"for name in {names}:\n    quantizer.set_module_name_qconfig(name, None)"
        return {"PyTorch pt2e (torchao), quantizer = X86InductorQuantizer()": text}
    return {"ONNX Runtime quantize_static": f"nodes_to_exclude={names}"}


def program_lists(kept: Sequence[Operator], every: Sequence[Operator], device: str) -> dict[str, str]:
    """Returns the lists for a PyTorch program: modules of which every operator stays, and lines for the others."""
    others, paths = [each for each in every if each not in kept], {each.name for each in kept} - {""}
    inner = {path for path in paths if not any(f"{each.name}.".startswith(f"{path}.") for each in others)}
    whole = sorted(path for path in inner if not any(path.startswith(f"{other}.") for other in inner))
    rest = [each for each in kept if each.name not in inner]
    lists: dict[str, str] = {}
    if whole:
        starts = tuple(f"{name}." for name in whole)
        lists["PyTorch autocast"] = _REGION.format(device=device, modules=whole)
        # A torch.export program has no names of modules there: all of it would be lowered.
        lists["coremltools, of a traced model (from coremltools.converters.mil.mil.scope import ScopeSource)"] = (
            'compute_precision=ct.transform.FP16ComputePrecision(op_selector=lambda op: not (".".join('
            f'op.scopes.get(ScopeSource.TORCHSCRIPT_MODULE_NAME, ())) + ".").startswith({starts}))'
        )
    if linear := sorted({each.name for each in kept if each.kind.startswith("aten.linear.")} - {""}):
        chosen = f"{{{', '.join(map(repr, linear))}}}"
        lists["torchao quantize_"] = (
            f"filter_fn=lambda module, name: isinstance(module, torch.nn.Linear) and name not in {chosen}"
        )
    if rest:
        places: dict[str, list[str]] = {}
        for each in rest:
            places.setdefault(each.line or each.name, []).append(each.kind)
        by_line = [f"{place}: {', '.join(kinds)}" for place, kinds in sorted(places.items())]
        lists["PyTorch, by line: with autocast(enabled=False), on operands.float()"] = "\n".join(by_line)
    return lists
