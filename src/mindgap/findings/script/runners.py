"""How a short script runs a platform: imports, packages and the function `run`, in the runtime's own API only.

`run` gets the model and `fresh`, a function that returns new operands at each call. Exporters and tracers may run the
model, and an operator in place then changes its operands: what runs gets operands that nothing has touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mindgap.findings.script.target import Target


@dataclass(frozen=True, slots=True)
class Runner:
    """How a script runs a platform.

    `run`: the source of `run(model, fresh)`, which returns the outputs. `imports`: statements, after which every name
    that `run` uses is there; a missing package ends the script with status 2. `packages`: distributions whose versions
    the script prints, the runtime's first. `diagnostics`: the runtime says on standard error why it fails.
    """

    run: str
    imports: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    diagnostics: bool = False


_ONNX: Final = ("onnx", "onnxscript")
_NUMPY: Final = "import numpy as np"
_EXECUTORCH: Final = """
def run(model, fresh):
    program = torch.export.export(model, fresh())
    lowered = to_edge_transform_and_lower(program, partitioner=PARTITIONER).to_executorch()
    loaded = Runtime.get().load_program(bytes(lowered.buffer))
    found = loaded.load_method("forward").execute(list(fresh()))  # operands changed in place come first
    return [value.clone() for value in found[-len(program.graph_signature.user_outputs) :]]
"""
_LITERT: Final = """
def run(model, fresh):
    found = litert_torch.convert(model, fresh()X64)(*(a.numpy() for a in fresh()))
    return [torch.as_tensor(np.array(array)) for array in (found if isinstance(found, tuple) else (found,))]
"""
_JAX: Final = """
def run(model, fresh):
    torchax.default_env()MODE
    weights, function = torchax.extract_jax(model)
    found = jax.jit(function)(weights, jax.tree.map(torchax.default_env().t2j_copy, fresh()))
    return [torch.as_tensor(np.array(array)) for array in jax.tree.leaves(found)]
"""
#: torchax 0.0.13 cannot be imported with PyTorch 2.13 as it is.
_IMPORT_TORCHAX: Final = '''
class Names:
    """torchax 0.0.13 keys a table by overloads for named tensors, which PyTorch 2.13 lacks: any object will do."""

    packet = type(torch.ops.aten.add)
    original = packet.__getattr__

    def __getattr__(self, name):
        return object() if "imname" in name or "names" in name else Names.original(self, name)


Names.packet.__getattr__ = Names.__getattr__
try:
    import torchax

    torchax.default_env()
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)
Names.packet.__getattr__ = Names.original
'''
_OPENVINO_PROVIDER: Final = """
def run(model, fresh):
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.LEVEL
    providers = [PROVIDERS]
    session = onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), options, providers=providers, enable_fallback=0
    )
    assert len(session.get_providers()) == len(providers), "this onnxruntime has no OpenVINO provider"
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), fresh(), strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]
"""
_ONNXRUNTIME: Final = """
def run(model, fresh):
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
SESSION
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), fresh(), strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]
"""
_SESSION: Final = "    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())"
_PLAIN_SESSION: Final = """    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)"""
_IREE: Final = """
def run(model, fresh):
    output = iree.turbine.aot.export(model, args=fresh())
    output.session.set_flags(*(f"--{name}={value}" for name, value in PROPERTIES.items()))
    program = output.compile(save_to=None, target_backends=None)
    config = iree.runtime.Config("local-task")
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, program.map_memory())
    found = iree.runtime.load_vm_module(module, config).main(*(a.numpy() for a in fresh()))
    return [torch.as_tensor(np.array(array)) for array in (found if isinstance(found, tuple) else (found,))]
"""
_TVM: Final = """
def run(model, fresh):
    module = from_exported_program(torch.export.export(model, fresh()))
    program = tvm.compile(module, tvm.target.Target(PROPERTIES))
    machine = tvm.relax.VirtualMachine(program, tvm.cpu())
    found = machine["main"](*(tvm.runtime.tensor(a.numpy()) for a in fresh()))
    return [torch.as_tensor(np.array(value.numpy())) for value in found]
"""
_TINYGRAD: Final = """
def run(model, fresh):
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, fresh(), dynamo=True, verbose=False).save(f"{folder}/model.onnx")
        runner = OnnxRunner(f"{folder}/model.onnx")
        found = runner({n: Tensor(a.numpy()) for n, a in zip(runner.graph_inputs, fresh(), strict=True)})
        return [torch.as_tensor(np.array(value.numpy())) for value in found.values()]
"""
_NCNN: Final = """
def run(model, fresh):
    class Net(ncnn.Net):
        def __init__(self):
            super().__init__()
            for name, value in PROPERTIES.items():
                setattr(self.opt, name, value)

    original = ncnn.Net, torch.rand
    with tempfile.TemporaryDirectory() as folder:
        # pnnx traces the model and writes a script that runs it on random numbers: these are the operands here.
        pnnx.export(model, f"{folder}/model.pt", fresh(), fp16="use_fp16_storage" not in PROPERTIES)
        given = iter(fresh())
        ncnn.Net, torch.rand = Net, lambda *shape, dtype: next(given)
        try:
            found = runpy.run_path(f"{folder}/model_ncnn.py")["test_inference"]()
        finally:
            ncnn.Net, torch.rand = original
    return [each.clone() for each in (found if isinstance(found, tuple) else (found,))]
"""
_REFERENCE: Final = """
def run(model, fresh):
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    onnx.checker.check_model(program.model_proto, full_check=True)
    evaluator = onnx.reference.ReferenceEvaluator(program.model_proto)
    feeds = {name: tensor.numpy() for name, tensor in zip(evaluator.input_names, fresh(), strict=True)}
    return [torch.as_tensor(np.asarray(array)) for array in evaluator.run(None, feeds)]
"""
_OPENVINO: Final = """
def run(model, fresh):
    converted = openvino.convert_model(torch.export.export(model, fresh()))
    compiled = openvino.compile_model(converted, "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in fresh()]).values()]
"""
_OPENVINO_ONNX: Final = """
def run(model, fresh):
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, fresh(), dynamo=True, verbose=False).save(f"{folder}/model.onnx")
        compiled = openvino.compile_model(f"{folder}/model.onnx", "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in fresh()]).values()]
"""


def _onnxruntime(session: str) -> Runner:
    return Runner(_ONNXRUNTIME.replace("SESSION", session), ("import onnxruntime",), ("onnxruntime", *_ONNX))


def _openvino_provider(providers: str, level: str) -> Runner:
    run = _OPENVINO_PROVIDER.replace("PROVIDERS", providers).replace("LEVEL", level)
    return Runner(run, ("import onnxruntime",), ("onnxruntime-openvino", *_ONNX))


def _executorch(partitioner: str) -> Runner:
    imports = [
        "from executorch.exir import to_edge_transform_and_lower",
        "from executorch.runtime import Runtime",
    ]
    if partitioner != "None":
        imports = ["from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner", *imports]
    run = _EXECUTORCH.replace("PARTITIONER", partitioner)
    return Runner(run, tuple(imports), ("executorch",), diagnostics=True)


def _litert(x64: str) -> Runner:
    packages = ("litert-torch", "ai-edge-litert")
    return Runner(_LITERT.replace("X64", x64), ("import litert_torch", _NUMPY), packages, diagnostics=True)


def _jax(mode: str) -> Runner:
    return Runner(_IMPORT_TORCHAX + "\n" + _JAX.replace("MODE", mode), ("import jax", _NUMPY), ("jax", "torchax"))


_WITH_PROVIDER: Final = '("OpenVINOExecutionProvider", PROPERTIES), "CPUExecutionProvider"'
_WITHOUT_PROVIDER: Final = '"CPUExecutionProvider"'
_RUNNERS: Final[Mapping[str, Runner]] = {
    "cpu/eager": Runner("""
def run(model, fresh):
    return model(*fresh())
"""),
    "cpu/jit": Runner("""
def run(model, fresh):
    traced = torch.jit.trace(model, fresh(), check_trace=False)
    for _ in range(3):  # TorchScript optimises after the first runs
        traced(*fresh())
    return traced(*fresh())
"""),
    "cpu/inductor": Runner("""
def run(model, fresh):
    return torch.compile(model, fullgraph=True, dynamic=False)(*fresh())
"""),
    "cpu/aotinductor": Runner("""
def run(model, fresh):
    package = torch._inductor.aoti_compile_and_package(torch.export.export(model, fresh()))
    return torch._inductor.aoti_load_package(package)(*fresh())
"""),
    "onnxruntime/cpu": _onnxruntime(_SESSION),
    "onnxruntime/cpu@opt=off": _onnxruntime(_PLAIN_SESSION),
    "onnxruntime/openvino": _openvino_provider(_WITH_PROVIDER, "ORT_ENABLE_ALL"),
    "onnxruntime/openvino@opt=off": _openvino_provider(_WITH_PROVIDER, "ORT_DISABLE_ALL"),
    "onnxruntime/openvino@delegate=none": _openvino_provider(_WITHOUT_PROVIDER, "ORT_ENABLE_ALL"),
    "onnxruntime/openvino@delegate=none,opt=off": _openvino_provider(_WITHOUT_PROVIDER, "ORT_DISABLE_ALL"),
    "onnx/reference": Runner(_REFERENCE, ("import onnx.reference", _NUMPY), _ONNX),
    "tinygrad/cpu": Runner(
        _TINYGRAD,
        ("import tempfile", "from tinygrad import Tensor", "from tinygrad.nn.onnx import OnnxRunner", _NUMPY),
        ("tinygrad", *_ONNX),
    ),
    "jax/cpu": _jax(""),
    "jax/cpu@mode=accuracy": _jax("\n    torchax.enable_accuracy_mode()"),
    "iree/cpu": Runner(
        _IREE,
        ("import iree.runtime", "import iree.turbine.aot", _NUMPY),
        ("iree-base-compiler", "iree-base-runtime", "iree-turbine"),
        diagnostics=True,
    ),
    "tvm/cpu": Runner(
        _TVM, ("import tvm", "from tvm.relax.frontend.torch import from_exported_program", _NUMPY), ("apache-tvm",)
    ),
    "executorch/cpu": _executorch("[XnnpackPartitioner()]"),
    "executorch/cpu@delegate=none": _executorch("None"),
    "litert/cpu": _litert(""),
    "litert/cpu@x64=on": _litert(", enable_x64=True"),
    "ncnn/cpu": Runner(_NCNN, ("import runpy", "import tempfile", "import ncnn", "import pnnx"), ("ncnn", "pnnx")),
    "openvino/cpu": Runner(_OPENVINO, ("import openvino", _NUMPY), ("openvino",)),
    "openvino/cpu@frontend=onnx": Runner(
        _OPENVINO_ONNX, ("import tempfile", "import openvino", _NUMPY), ("openvino", *_ONNX)
    ),
}

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
def run(model, fresh):
    found = model(*(a.to("DEVICE") for a in fresh()))
    return [value.cpu() for value in found]
"""


def runner_of(platform: Target) -> Runner | None:
    """Returns how a script runs the platform; None if its options have no short form."""
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
        imports = (f"import {platform.module}",) if platform.module else ()
        return None if options else Runner(run, imports, (platform.module.partition(".")[0],) if imports else ())
    key = platform.device_mode + (f"@{','.join(f'{k}={v}' for k, v in sorted(options.items()))}" if options else "")
    return _RUNNERS.get(key)


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
