"""Makes Hugging Face folders of large models, and an `.onnx` file with external data, and measures `mindgap diff` on
them: peak memory and time.

    python benchmarks/large_checkpoints.py layer_70b -p cpu/jit
    python benchmarks/large_checkpoints.py whole_3b -p cpu/jit
    python benchmarks/large_checkpoints.py whole_3b --dtype float16 -p onnxruntime/cpu -p openvino/cpu
    python benchmarks/large_checkpoints.py onnx_2.5g -p onnxruntime/cpu

    layer_70b   one layer (`--inside model.layers.0`) of a Llama with 70 billion parameters in bfloat16: 80 layers in
                files of one layer each. Layer 0 has seeded weights; the other files are holes, which take no disk
    whole_3b    a Llama with 3.2 billion parameters in bfloat16, all of them seeded: 6.0 GiB on disk
    onnx_2.5g   ten layers of 8,192 x 8,192 float32 weights, as torch.onnx writes them: 2.5 GiB, which no protobuf file
                holds, in a file beside the model
    layer_tiny, whole_tiny, onnx_tiny    the same with 2 narrow layers

Memory is that of all processes together, each page counted once. Status 1 where a row is no `identical` or `rounding`,
nor one that was not run, with what it would need.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from real_size import gib, measured


@dataclass(frozen=True)
class Llama:
    """Sizes of a decoder. `inside`: the submodule that is compared, "" for all of it."""

    hidden: int
    inner: int
    layers: int
    heads: int
    key_heads: int
    words: int
    inside: str = ""


@dataclass(frozen=True)
class OnnxFile:
    """Sizes of a perceptron: layers of `width` x `width` weights."""

    width: int
    layers: int


_EXPORT: Final = """
import sys, torch
path, width, layers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(0)
each = [part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.GELU())]
torch.onnx.export(torch.nn.Sequential(*each).eval(), (torch.randn(8, width),), path, external_data=True, verbose=False)
"""

MODELS: Final[dict[str, Llama | OnnxFile]] = {
    "layer_70b": Llama(8192, 28672, 80, 64, 8, 128256, "model.layers.0"),
    "whole_3b": Llama(3072, 8192, 28, 24, 8, 128256),
    "onnx_2.5g": OnnxFile(8192, 10),
    "onnx_tiny": OnnxFile(64, 2),
    "layer_tiny": Llama(64, 128, 2, 4, 2, 96, "model.layers.0"),
    "whole_tiny": Llama(64, 128, 2, 4, 2, 96),
}


def config_of(model: Llama) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": model.hidden, "use_cache": False,
        "intermediate_size": model.inner, "num_hidden_layers": model.layers, "num_attention_heads": model.heads,
        "num_key_value_heads": model.key_heads, "vocab_size": model.words, "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": not model.inside, "torch_dtype": "bfloat16",
    }  # fmt: skip


def files_of(model: Llama) -> Iterator[tuple[str, dict[str, tuple[int, ...]]]]:
    """Yields each file's name and the shapes of its tensors: the embedding, the layers, the rest."""
    narrow = model.hidden // model.heads * model.key_heads
    count = model.layers + 2
    yield f"model-00001-of-{count:05}.safetensors", {"model.embed_tokens.weight": (model.words, model.hidden)}
    for layer in range(model.layers):
        shapes = {
            "self_attn.q_proj": (model.hidden, model.hidden), "self_attn.k_proj": (narrow, model.hidden),
            "self_attn.v_proj": (narrow, model.hidden), "self_attn.o_proj": (model.hidden, model.hidden),
            "mlp.gate_proj": (model.inner, model.hidden), "mlp.up_proj": (model.inner, model.hidden),
            "mlp.down_proj": (model.hidden, model.inner), "input_layernorm": (model.hidden,),
            "post_attention_layernorm": (model.hidden,),
        }  # fmt: skip
        named = {f"model.layers.{layer}.{name}.weight": shape for name, shape in shapes.items()}
        yield f"model-{layer + 2:05}-of-{count:05}.safetensors", named
    last: dict[str, tuple[int, ...]] = {"model.norm.weight": (model.hidden,)}
    if model.inside:
        last["lm_head.weight"] = (model.words, model.hidden)
    yield f"model-{count:05}-of-{count:05}.safetensors", last


def write_checkpoint(folder: Path, model: Llama) -> int:
    """Writes a folder: what is compared gets seeded weights, the rest holes. Returns the count of parameters."""
    (folder / "config.json").write_text(json.dumps(config_of(model)))
    parameters, places = 0, dict[str, str]()
    for file, shapes in files_of(model):
        sizes = {name: int(np.prod(shape)) for name, shape in shapes.items()}
        parameters += sum(sizes.values())
        places.update(dict.fromkeys(shapes, file))
        whole = not model.inside or next(iter(shapes)).startswith(f"{model.inside}.")
        _write_file(folder / file, shapes, sizes, whole)
    index = {"metadata": {"total_size": 2 * parameters}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return parameters


def write_onnx(path: Path, model: OnnxFile) -> int:
    """Writes a model and its external data, in a process of its own. Returns the count of parameters."""
    sizes = (str(model.width), str(model.layers))
    subprocess.run([sys.executable, "-W", "ignore", "-c", _EXPORT, str(path), *sizes], check=True)
    return model.layers * model.width * (model.width + 1)


def _write_file(path: Path, shapes: dict[str, tuple[int, ...]], sizes: dict[str, int], whole: bool) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape in shapes.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + 2 * sizes[name]]}
        at += 2 * sizes[name]
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with path.open("wb") as out:
        out.write(struct.pack("<Q", len(head)) + head)
        if not whole:
            out.truncate(8 + len(head) + at)
            return
        random = np.random.default_rng(len(path.name) + at)
        for name, shape in shapes.items():
            _write_tensor(out, random, sizes[name], shape)


def _write_tensor(out: Any, random: np.random.Generator, size: int, shape: tuple[int, ...]) -> None:
    """Writes bfloat16: factors of norms near 1, matrices of standard deviation 1 over the root of their width."""
    for start in range(0, size, 1 << 24):
        count = min(1 << 24, size - start)
        values = random.random(count, np.float32) - np.float32(0.5)
        values = values * np.float32(0.2) + 1 if len(shape) == 1 else values * np.float32(12**0.5 / shape[-1] ** 0.5)
        out.write((values.view(np.uint32) >> 16).astype(np.uint16).tobytes())


def compare(name: str, platforms: list[str], length: int, dtype: str, keep: Path | None) -> bool:
    """Measures one comparison and prints it. Returns whether all rows are calm, or say what they would need."""
    model = MODELS[name]
    with tempfile.TemporaryDirectory() as temporary:
        folder, out = (keep or Path(temporary)) / name, Path(temporary) / "out.json"
        if folder.exists():
            sys.exit(f"{folder} is there already: name another directory with --keep, or remove it")
        folder.mkdir(parents=True)
        command = [sys.executable, "-m", "mindgap", "diff", "--json", "--deadline", "3600"]
        command += [part for platform in platforms for part in ("-p", platform)]
        if isinstance(model, OnnxFile):
            parameters = write_onnx(folder / "model.onnx", model)
            command += [str(folder / "model.onnx")]
        else:
            parameters = write_checkpoint(folder, model)
            command += [f"hub:{folder}?length={length}&dtype={dtype}", "--no-own-path"]
            command += ["--inside", model.inside] if model.inside else []
        found = measured(command, {**os.environ, "MINDGAP_HOME": f"{temporary}/home"}, out)
        disk = sum(path.stat().st_blocks * 512 for path in folder.iterdir())
        report = json.loads(out.read_text() or '{"rows": []}')
    print(f"{name}: {parameters:,} parameters, {gib(disk)} GiB on disk, {gib(found.peak)} GiB of memory, "
          f"{found.seconds:.0f} s ({found.cpu:.0f} CPU s), status {found.status}")  # fmt: skip
    for part, size in sorted(found.parts.items(), key=lambda item: -item[1]):
        print(f"    {gib(size):6.2f} GiB  {part}")
    for row in report["rows"]:
        print(f"    {row['platform']}: {row['verdict'] or row['status']} {row['detail'][:160]}", flush=True)
        if row["own_path"]:
            own = row["own_path"]
            print(f"        {own['way'] or 'the file itself'}: {own['status']} {own['detail'][:160]}", flush=True)
    return bool(report["rows"]) and all(_calm_or_too_large(row) for row in report["rows"])


def _calm_or_too_large(row: dict[str, Any]) -> bool:
    too_large = row["status"] == "not_run" and row["detail"].startswith("it takes about")
    return too_large or row["verdict"] in ("identical", "rounding")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=["layer_tiny"], help=" ".join(MODELS))
    parser.add_argument("-p", "--platform", action="append", help="default: cpu/jit")
    parser.add_argument("--length", type=int, default=8, help="tokens")
    parser.add_argument("--dtype", default="bfloat16", help="of the weights as they are compared; files hold bfloat16")
    parser.add_argument("--keep", type=Path, help="a directory in which the folders stay")
    chosen = parser.parse_args()
    if unknown := sorted(set(chosen.models) - set(MODELS)):
        parser.error(f"no such model: {', '.join(unknown)}; there are {', '.join(MODELS)}")
    platforms = chosen.platform or ["cpu/jit"]
    calm = [compare(name, platforms, chosen.length, chosen.dtype, chosen.keep) for name in chosen.models]
    return int(not all(calm))


if __name__ == "__main__":
    sys.exit(main())
