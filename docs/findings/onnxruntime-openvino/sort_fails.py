"""onnxruntime/openvino@precision=f32,threads=1: aten.sort.default of float32: fails

Seen with torch 2.13.0+cpu, onnx 1.23.2, onnxscript 0.7.2, onnxruntime-openvino 1.24.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import traceback

import torch

PROPERTIES = {'device_type': 'CPU', 'num_of_threads': '1', 'precision': 'FP32'}


class Model(torch.nn.Module):
    def forward(self, x0):
        v1, v2 = torch.ops.aten.sort.default(x0, 0)
        return v1, v2


def run(model, arguments):
    import onnxruntime

    program = torch.onnx.export(model, arguments, dynamo=True, verbose=False)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    providers = [("OpenVINOExecutionProvider", PROPERTIES), "CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), options, providers=providers, enable_fallback=0
    )
    assert len(session.get_providers()) == len(providers), "this onnxruntime has no OpenVINO provider"
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), arguments, strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]


x0 = torch.tensor(0.0, dtype=torch.float32)


def main():
    print("torch", torch.__version__, platform.machine())
    expected = Model()(*[x.clone() for x in (x0,)])
    try:
        actual = run(Model().eval(), tuple([x.clone() for x in (x0,)]))
    except Exception as problem:
        print("onnxruntime/openvino@precision=f32,threads=1 fails:", type(problem).__name__, str(problem)[-3000:])
        print("FAULT")
        return 1
    print("onnxruntime/openvino@precision=f32,threads=1 gives", actual, "eager", expected)
    print("NO FAULT")
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
