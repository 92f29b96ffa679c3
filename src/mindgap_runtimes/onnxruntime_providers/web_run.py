"""Runs a model on onnxruntime-web in Node as its users do: export, then a session of WebAssembly."""

# pyright: basic, reportMissingImports=false, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false
# (the runtime lies in an environment of its own)

from __future__ import annotations

import base64
import json
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime_web
import torch

if TYPE_CHECKING:
    from mindgap.platforms.script_runner import Fresh

PROPERTIES: dict[str, str] = {}
PROGRAM = """
import { readFileSync } from 'node:fs';
const asked = JSON.parse(readFileSync(0));
const ort = await import(asked.library);
const bytes = (text) => new Uint8Array(Buffer.from(text, 'base64'));
const settings = { executionProviders: ['wasm'], ...asked.settings };
const session = await ort.InferenceSession.create(bytes(asked.model), settings);
const feeds = {};
for (const { name, dtype, shape, data } of asked.feeds) {
  const Kind = { float32: Float32Array, float64: Float64Array, float16: globalThis.Float16Array ?? Uint16Array,
    int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array, uint8: Uint8Array,
    uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array, bool: Uint8Array }[dtype];
  feeds[name] = new ort.Tensor(dtype, new Kind(bytes(data).buffer), shape);
}
const found = await session.run(feeds);
console.log(JSON.stringify(session.outputNames.map((name) => {
  const { type, dims, data } = found[name];
  const raw = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return { dtype: type, shape: dims, data: raw.toString('base64') };
})));
"""


def run(model: torch.nn.Module, fresh: Fresh) -> list[torch.Tensor]:
    """Returns the outputs. Node reads the model and the inputs, and writes the outputs, as one line of JSON each."""
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    arrays = zip([given.name for given in program.model_proto.graph.input], fresh(), strict=True)
    feeds = [
        {"name": name, "dtype": str(given.dtype).removeprefix("torch."), "shape": list(given.shape),
         "data": base64.b64encode(given.numpy().tobytes()).decode()}
        for name, given in arrays
    ]  # fmt: skip
    asked = {
        "library": f"{next(iter(onnxruntime_web.__path__))}/node_modules/onnxruntime-web/dist/ort.node.min.mjs",
        "model": base64.b64encode(program.model_proto.SerializeToString()).decode(), "settings": PROPERTIES,
        "feeds": feeds,
    }  # fmt: skip
    command = ["node", "--input-type=module", "-e", PROGRAM]
    done = subprocess.run(command, input=json.dumps(asked), stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return [
        torch.as_tensor(np.frombuffer(bytearray(base64.b64decode(each["data"])), each["dtype"]).reshape(each["shape"]))
        for each in found
    ]
