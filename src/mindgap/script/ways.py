"""How a short script runs a platform: its imports and its function `run`, in the backend's own API only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mindgap.script.target import Target

_EXECUTORCH: Final = """
def run(model, arguments):
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from executorch.runtime import Runtime

    program = torch.export.export(model, arguments)
    lowered = to_edge_transform_and_lower(program, partitioner=PARTITIONER).to_executorch()
    loaded = Runtime.get().load_program(bytes(lowered.buffer))
    return loaded.load_method("forward").execute(list(arguments))
"""
_LITERT: Final = """
def run(model, arguments):
    import litert_torch

    found = litert_torch.convert(model, argumentsX64)(*(a.numpy() for a in arguments))
    return [torch.as_tensor(np.array(array)) for array in (found if isinstance(found, tuple) else (found,))]
"""
_JAX: Final = """
def run(model, arguments):
    packet = type(torch.ops.aten.add)
    original = packet.__getattr__

    def overload(self, name):
        # torchax 0.0.13 names overloads for named tensors as keys of a table; PyTorch 2.13 has none.
        if "imname" in name or "names" in name:
            return object()
        return original(self, name)

    packet.__getattr__ = overload
    import torchax

    torchax.default_env()MODE
    packet.__getattr__ = original
    weights, function = torchax.extract_jax(model)
    found = jax.jit(function)(weights, jax.tree.map(torchax.default_env().t2j_copy, arguments))
    return [torch.as_tensor(np.array(array)) for array in jax.tree.leaves(found)]
"""
_OPENVINO_PROVIDER: Final = """
def run(model, arguments):
    import onnxruntime

    program = torch.onnx.export(model, arguments, dynamo=True, verbose=False)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.LEVEL
    providers = [PROVIDERS]
    session = onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), options, providers=providers, enable_fallback=0
    )
    assert len(session.get_providers()) == len(providers), "this onnxruntime has no OpenVINO provider"
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), arguments, strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]
"""
_WITH_OPENVINO: Final = _OPENVINO_PROVIDER.replace(
    "PROVIDERS", '("OpenVINOExecutionProvider", PROPERTIES), "CPUExecutionProvider"'
)
_WITHOUT_OPENVINO: Final = _OPENVINO_PROVIDER.replace("PROVIDERS", '"CPUExecutionProvider"')
_RUN: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "cpu/eager": ((), """
def run(model, arguments):
    return model(*arguments)
"""),
    "cpu/jit": ((), """
def run(model, arguments):
    def fresh():
        return tuple(a.clone() for a in arguments)

    traced = torch.jit.trace(model, fresh(), check_trace=False)
    for _ in range(3):  # TorchScript optimises after the first runs
        traced(*fresh())
    return traced(*fresh())
"""),
    "cpu/inductor": ((), """
def run(model, arguments):
    return torch.compile(model, fullgraph=True, dynamic=False)(*arguments)
"""),
    "cpu/aotinductor": ((), """
def run(model, arguments):
    package = torch._inductor.aoti_compile_and_package(torch.export.export(model, arguments))
    return torch._inductor.aoti_load_package(package)(*arguments)
"""),
    "onnxruntime/cpu": (("onnxruntime",), """
def run(model, arguments):
    program = torch.onnx.export(model, arguments, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), arguments, strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]
"""),
    "onnxruntime/cpu@opt=off": (("onnxruntime",), """
def run(model, arguments):
    program = torch.onnx.export(model, arguments, dynamo=True, verbose=False)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), arguments, strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]
"""),
    "onnxruntime/openvino": ((), _WITH_OPENVINO.replace("LEVEL", "ORT_ENABLE_ALL")),
    "onnxruntime/openvino@opt=off": ((), _WITH_OPENVINO.replace("LEVEL", "ORT_DISABLE_ALL")),
    "onnxruntime/openvino@delegate=none": ((), _WITHOUT_OPENVINO.replace("LEVEL", "ORT_ENABLE_ALL")),
    "onnxruntime/openvino@delegate=none,opt=off": ((), _WITHOUT_OPENVINO.replace("LEVEL", "ORT_DISABLE_ALL")),
    "onnx/reference": (("onnx",), """
def run(model, arguments):
    import onnx.reference

    program = torch.onnx.export(model, arguments, dynamo=True, verbose=False)
    onnx.checker.check_model(program.model_proto, full_check=True)
    evaluator = onnx.reference.ReferenceEvaluator(program.model_proto)
    feeds = {name: tensor.numpy() for name, tensor in zip(evaluator.input_names, arguments, strict=True)}
    return [torch.as_tensor(np.asarray(array)) for array in evaluator.run(None, feeds)]
"""),
    "tinygrad/cpu": ((), """
def run(model, arguments):
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner

    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, arguments, dynamo=True, verbose=False).save(f"{folder}/model.onnx")
        runner = OnnxRunner(f"{folder}/model.onnx")
        found = runner({n: Tensor(a.numpy()) for n, a in zip(runner.graph_inputs, arguments, strict=True)})
        return [torch.as_tensor(np.array(value.numpy())) for value in found.values()]
"""),
    "jax/cpu": (("jax",), _JAX.replace("MODE", "")),
    "jax/cpu@mode=accuracy": (("jax",), _JAX.replace("MODE", "\n    torchax.enable_accuracy_mode()")),
    "iree/cpu": ((), """
def run(model, arguments):
    import iree.runtime
    import iree.turbine.aot

    output = iree.turbine.aot.export(model, args=arguments)
    output.session.set_flags(*(f"--{name}={value}" for name, value in PROPERTIES.items()))
    program = output.compile(save_to=None, target_backends=None)
    config = iree.runtime.Config("local-task")
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, program.map_memory())
    found = iree.runtime.load_vm_module(module, config).main(*(a.numpy() for a in arguments))
    return [torch.as_tensor(np.array(array)) for array in (found if isinstance(found, tuple) else (found,))]
"""),
    "tvm/cpu": ((), """
def run(model, arguments):
    import tvm
    from tvm.relax.frontend.torch import from_exported_program

    module = from_exported_program(torch.export.export(model, arguments))
    program = tvm.compile(module, tvm.target.Target(PROPERTIES))
    machine = tvm.relax.VirtualMachine(program, tvm.cpu())
    found = machine["main"](*(tvm.runtime.tensor(a.numpy()) for a in arguments))
    return [torch.as_tensor(np.array(value.numpy())) for value in found]
"""),
    "executorch/cpu": ((), _EXECUTORCH.replace("PARTITIONER", "[XnnpackPartitioner()]")),
    "executorch/cpu@delegate=none": ((), _EXECUTORCH.replace("PARTITIONER", "None")),
    "litert/cpu": ((), _LITERT.replace("X64", "")),
    "litert/cpu@x64=on": ((), _LITERT.replace("X64", ", enable_x64=True")),
    "ncnn/cpu": ((), """
def run(model, arguments):
    import runpy

    import ncnn
    import pnnx

    class Net(ncnn.Net):
        def __init__(self):
            super().__init__()
            for name, value in PROPERTIES.items():
                setattr(self.opt, name, value)

    given = iter(arguments)
    with tempfile.TemporaryDirectory() as folder:
        # pnnx writes a script that runs the model on random numbers: it gets the arguments in their place.
        pnnx.export(model, f"{folder}/model.pt", arguments, fp16="use_fp16_storage" not in PROPERTIES)
        ncnn.Net, torch.rand = Net, lambda *shape, dtype: next(given)
        found = runpy.run_path(f"{folder}/model_ncnn.py")["test_inference"]()
    return [each.clone() for each in (found if isinstance(found, tuple) else (found,))]
"""),
    "openvino/cpu": (("openvino",), """
def run(model, arguments):
    converted = openvino.convert_model(torch.export.export(model, arguments))
    compiled = openvino.compile_model(converted, "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in arguments]).values()]
"""),
    "openvino/cpu@frontend=onnx": (("openvino",), """
def run(model, arguments):
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, arguments, dynamo=True, verbose=False).save(f"{folder}/model.onnx")
        compiled = openvino.compile_model(f"{folder}/model.onnx", "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in arguments]).values()]
"""),
}  # fmt: skip

#: Options of `iree/cpu` that are flags of its compiler, or variables of the environment.
_IREE_OPTIONS: Final = ("target", "cpu", "opt", "float64", "threads")
_IREE_FLAGS: Final = {"cpu": "iree-llvmcpu-target-cpu", "opt": "iree-opt-level"}
#: Options of `ncnn/cpu` -> what they switch off in `ncnn.Option`.
_NCNN_OFF: Final = {
    ("precision", "f32"): (
        "use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_packed", "use_bf16_storage",
    ),
    ("opt", "off"): ("use_winograd_convolution", "use_sgemm_convolution", "use_packing_layout"),
}  # fmt: skip
#: Value of the option `precision` of `onnxruntime/openvino` -> options of the provider.
_PROVIDER_PRECISION: Final[Mapping[str, Mapping[str, str]]] = {
    "f32": {"precision": "FP32"},
    "bf16": {"load_config": '{"CPU": {"INFERENCE_PRECISION_HINT": "bf16"}}'},
}

#: Eager mode on another device than the CPU.
_RUN_ON_DEVICE: Final = """
def run(model, arguments):
    found = model(*(a.to("DEVICE") for a in arguments))
    return [value.cpu() for value in found]
"""


def way_of(platform: Target) -> tuple[tuple[str, ...], str] | None:
    """Returns the code that runs the platform; None if its options have no short form."""
    options = dict(platform.options)
    if platform.device_mode == "onnxruntime/cpu" and options.get("threads") == "1":
        del options["threads"]  # the operands are small: the session takes one thread for them
    options.pop("export", None)  # both ways write the same operators; the script exports as users do
    if platform.device_mode == "openvino/cpu":
        options.pop("precision", None)  # this and the threads are among its properties
        options.pop("threads", None)
        if options.get("frontend") == "pytorch":
            del options["frontend"]
    if platform.device_mode == "onnxruntime/openvino":
        options = {name: value for name, value in options.items() if name in ("delegate", "opt")}  # likewise
        options = {name: value for name, value in options.items() if value not in ("openvino", "all")}
    if platform.device_mode.startswith("cpu/"):
        for level in ("isa", "aten", "onednn_isa", "mkl"):
            options.pop(level, None)  # by the environment
    if platform.device_mode in ("tinygrad/cpu", "jax/cpu"):
        options = {name: value for name, value in options.items() if name not in ("opt", "threads")}  # likewise
    if platform.device_mode == "iree/cpu":
        options = {name: value for name, value in options.items() if name not in _IREE_OPTIONS}
    if platform.device_mode == "ncnn/cpu":
        options = {name: value for name, value in options.items() if name not in ("precision", "opt", "threads")}
    if platform.device_mode == "tvm/cpu" and options.get("cpu") != "host":
        options = {name: value for name, value in options.items() if name not in ("cpu", "opt", "threads")}
    if platform.device_mode in ("executorch/cpu", "litert/cpu"):
        options.pop("threads", None)  # the script takes the runtime's number
        if options.get("delegate") == "xnnpack":
            del options["delegate"]
    if platform.torch_device:
        options.pop("threads", None)  # of the host: the device takes its own
        run = _RUN_ON_DEVICE.replace("DEVICE", platform.torch_device)
        return None if options else (((platform.module,) if platform.module else ()), run)
    key = platform.device_mode + (f"@{','.join(f'{k}={v}' for k, v in sorted(options.items()))}" if options else "")
    return _RUN.get(key)


def properties_of(platform: Target) -> dict[str, str | int]:
    """What the options set in the runtime's own names: properties of OpenVINO, options of ONNX Runtime's OpenVINO
    provider, flags of IREE's compiler, the target of TVM, attributes of `ncnn.Option`."""
    given, found = platform.options, dict[str, str | int]()
    if platform.device_mode == "onnxruntime/openvino":
        found |= {"device_type": "CPU"} | ({"num_of_threads": given["threads"]} if "threads" in given else {})
        return found | _PROVIDER_PRECISION.get(given.get("precision", "default"), {})
    if platform.device_mode == "ncnn/cpu":
        for option, value in _NCNN_OFF:
            found |= dict.fromkeys(_NCNN_OFF[option, value], False) if given.get(option) == value else {}
        return found | ({"num_threads": int(given["threads"])} if "threads" in given else {})
    if platform.device_mode == "tvm/cpu":
        cpu = given.get("cpu", "generic")
        found |= {"kind": "llvm"} | ({} if cpu == "generic" else {"mcpu": cpu})
        return found if given.get("opt", "all") == "all" else {**found, "opt-level": 0}
    if platform.device_mode == "iree/cpu":
        found["iree-hal-target-backends"] = given.get("target", "llvm-cpu")
        if given.get("float64") == "kept":
            found["iree-input-demote-f64-to-f32"] = "false"
        found |= {flag: given[name] for name, flag in _IREE_FLAGS.items() if given.get(name, "default") != "default"}
        return found
    if given.get("precision", "default") != "default":
        found["INFERENCE_PRECISION_HINT"] = given["precision"]
    if "threads" in given:
        found["INFERENCE_NUM_THREADS"] = int(given["threads"])
    return found
