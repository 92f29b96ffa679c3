"""Every device that PyTorch computes on: those that are here run, the others say precisely what is missing."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import types
import warnings
from pathlib import Path

import pytest
import torch

from mindgap.findings.script.culprit_script import script_platform_of
from mindgap.platforms.name import parse
from mindgap.platforms.protocol import Fallback, PlatformError, Unsupported
from mindgap.platforms.pytorch.device import availability as presence, options as known
from mindgap.platforms.pytorch.device.devices import DEVICES
from mindgap.platforms.pytorch.device.runtime import attach, counted_by_gaudi, counted_by_xla, watched
from mindgap.platforms.registry import backends, find
from platforms.on_device import CASES

HERE = Path(__file__).parent
ACCELERATED = sorted(name for name in backends() if name.partition("/")[0] in set(DEVICES) - {"cpu"})


def started(platform: str, *path: Path, cases: tuple[str, ...] = (), **environment: str):
    """`on_device.py` for a platform, in a process with the variables that the platform asks for."""
    backend, options = find(platform)
    found = {**os.environ, "OMP_NUM_THREADS": "1", **backend.environment(options), **environment}
    found = {name: value for name, value in found.items() if value != "(unset)"}
    found["PYTHONPATH"] = os.pathsep.join(map(str, (*path, HERE.parent)))
    command = [sys.executable, str(HERE / "on_device.py"), platform, *cases]
    return subprocess.run(command, env=found, capture_output=True, text=True, check=False)


@functools.cache
def in_a_worker(platform: str, *path: Path, **environment: str) -> dict:
    """What it says of the platform and of every case."""
    done = started(platform, *path, **environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


# ---- where a device is


@pytest.mark.parametrize("name", ACCELERATED)
def test_a_device_computes_what_the_cpu_does(name):
    """Convolution, matrix product, sums, buffers, casts, bfloat16, integers and gradients, run and traced."""
    probe = backends()[name].probe()
    if not probe.available:
        pytest.skip(probe.reason)
    if script_platform_of(parse(name)).python:
        pytest.skip("an environment has it, and only the environment's own workers open it")
    found = in_a_worker(name)
    assert isinstance(found["open"], dict), found["open"]
    assert found["open"]["device"] == name.partition("/")[0] and found["open"]["hardware"]
    refused = {case: said for case, said in found.items() if str(said).startswith("Unsupported")}
    wrong = {case: said for case, said in found.items() if case != "open" and said not in ("same", "close")}
    assert not wrong.keys() - refused.keys(), wrong
    assert len(refused) <= 4, refused


@pytest.mark.parametrize("setting", ["deterministic=on", "tf32=off", "cudnn=off", "cudnn=benchmark", "sdpa=math"])
@pytest.mark.parametrize("name", ["cuda/eager", "rocm/eager", "xpu/eager"])
def test_a_device_obeys_its_settings(name, setting):
    backend = backends()[name]
    probe = backend.probe()
    if not probe.available:
        pytest.skip(probe.reason)
    if setting.partition("=")[0] not in backend.options:
        pytest.skip(f"{name} has no {setting}")
    found = in_a_worker(f"{name}@{setting}")
    assert isinstance(found["open"], dict), found["open"]
    assert found["conv_net"] in ("same", "close") and found["gradients"] in ("same", "close")
    if setting == "tf32=off":
        assert min(found["open"]["float32_product_bits"].values()) >= 16


# ---- where none is


def test_every_device_is_registered_with_its_compiler():
    expected = {
        *(f"{name}/eager" for name in DEVICES), "cuda/inductor", "rocm/inductor", "xpu/inductor", "mps/inductor",
        "npu/compile", "hpu/compile", "xla/openxla", "cpu/inductor", "cpu/jit",
    }  # fmt: skip
    assert expected <= set(backends())
    for name in ACCELERATED:
        assert all(": " in words for words in backends()[name].options.values())


@pytest.mark.parametrize("name", ACCELERATED)
def test_an_absent_device_says_what_is_missing(name):
    probe = backends()[name].probe()
    if probe.available:
        pytest.skip("it is here")
    package = {"npu": "torch_npu", "hpu": "habana_frameworks", "xla": "torch_xla", "mps": "macOS"}
    said = package.get(name.partition("/")[0], "this build of torch" if not torch.version.cuda else "torch")
    if name.startswith("cuda/") and torch.version.cuda:
        said = "NVIDIA device"
    assert said in probe.reason and "\n" not in probe.reason


def build(monkeypatch, nodes: bool = True, **variables: str) -> None:
    """A torch of another build, on a machine with the device's files or without."""
    monkeypatch.setattr(presence, "_build_variables", lambda: variables)
    monkeypatch.setattr(presence, "_nodes", lambda device: list(device.nodes) if nodes else [])


def test_a_rocm_build_is_not_cuda_and_the_reverse(monkeypatch):
    build(monkeypatch, hip="7.1")
    assert "is built for ROCm: use rocm/…" in presence.torch_present(DEVICES["cuda"]).reason
    build(monkeypatch, cuda="13.0")
    assert "is built for CUDA: use cuda/…" in presence.torch_present(DEVICES["rocm"]).reason


def test_what_to_install_depends_on_what_is_there(monkeypatch):
    build(monkeypatch)
    reason = presence.torch_present(DEVICES["cuda"]).reason
    assert reason.endswith("has no CUDA: install torch's build for CUDA")
    build(monkeypatch, nodes=False)
    assert "there is no NVIDIA device (/dev/nvidia" in presence.torch_present(DEVICES["cuda"]).reason
    build(monkeypatch, nodes=False, cuda="13.0")
    assert presence.torch_present(DEVICES["cuda"]).reason.startswith("there is no NVIDIA device on this machine")
    build(monkeypatch, nodes=True, cuda="13.0")
    if not torch.cuda.is_available():
        assert presence.torch_present(DEVICES["cuda"]).reason.endswith("finds no NVIDIA device")
    assert "and there is no Gaudi device" not in presence.torch_present(DEVICES["hpu"]).reason


def test_inductor_asks_for_triton_where_it_needs_it(monkeypatch):
    monkeypatch.setattr(presence, "package_version", lambda name: None)
    assert "Inductor needs triton for rocm" in presence.triton_present(DEVICES["rocm"]).reason
    assert presence.triton_present(DEVICES["mps"]).available and presence.triton_present(DEVICES["cpu"]).available


@pytest.mark.skipif(not presence.compiler_present().available, reason="no C++ compiler on PATH")
def test_inductor_is_unavailable_where_every_compilation_would_fail(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "a folder"))
    with_space = presence.compiler_present()
    assert not with_space.available and "a folder: set TORCHINDUCTOR_CACHE_DIR" in with_space.reason
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    monkeypatch.setattr(presence.sysconfig, "get_path", lambda name: str(tmp_path))
    assert f"{tmp_path / 'Python.h'}, which is missing: apt-get install python3" in presence.compiler_present().reason


@pytest.mark.nightly
@pytest.mark.skipif(not presence.compiler_present().available, reason="no C++ compiler on PATH")
def test_pytorch_alone_does_not_compile_where_a_path_has_a_space(tmp_path):
    program = "import torch; torch.compile(lambda x: x + 1)(torch.ones(3))"
    there = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "a folder")}
    failed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=there)
    assert failed.returncode != 0 and "CppCompileError" in failed.stderr


# ---- options


def test_what_a_device_does_not_have_is_refused_before_a_worker_starts():
    for name, said in (
        ("npu/eager@tf32=on", "no option 'tf32'"),
        ("cuda/eager@miopen=on", "no option 'miopen'"),
        ("rocm/eager@cudnn=on", "no option 'cudnn'"),
        ("mps/eager@dtype=float64", "no option 'dtype'"),
        ("cuda/eager@cudnn=fast", "cudnn=fast"),
        ("xla/eager@pjrt=gpu", "pjrt=gpu"),
        ("cuda/eager@matmul=high,tf32=on", "set the same precision"),
    ):
        with pytest.raises(PlatformError, match=said):
            find(name)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("cuda/eager@deterministic=on", {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}),
        ("rocm/eager@tf32=on", {"HIPBLASLT_ALLOW_TF32": "1"}),
        ("mps/eager", {"PYTORCH_ENABLE_MPS_FALLBACK": "0"}),
        ("xpu/inductor", {"PYTORCH_ENABLE_XPU_FALLBACK": "0", "TORCHINDUCTOR_COMPILE_THREADS": "1"}),
        ("npu/compile", {"TORCH_NPU_FALLBACK_CPU_DISABLE": "1"}),
        ("hpu/eager", {"PT_HPU_LAZY_MODE": "0", "PT_ENABLE_INT64_SUPPORT": "1"}),
        ("xla/openxla@pjrt=tpu", {"PJRT_DEVICE": "TPU"}),
        ("xla/eager@threads=2", {"NPROC": "2", "OMP_NUM_THREADS": "2"}),
        ("cpu/eager@deterministic=on", {}),
    ],
)
def test_workers_start_with_what_acts_at_import(name, wanted):
    backend, options = find(name)
    assert wanted.items() <= backend.environment(options).items()
    assert bool(wanted) == bool(backend.environment(options))


def test_every_option_has_values_and_words():
    for device in DEVICES.values():
        for names in (device.options, device.compiler_options):
            assert len(known.described(names)) == len(names) == len(set(names))


# ---- work done elsewhere


@pytest.mark.parametrize(
    ("device", "variables", "said"),
    [
        ("mps", {"PYTORCH_ENABLE_MPS_FALLBACK": "1"}, "PYTORCH_ENABLE_MPS_FALLBACK is '1', and must be '0'"),
        ("xpu", {"PYTORCH_DEBUG_XPU_FALLBACK": "1", "PYTORCH_XPU_FALLBACK_OP": "abs.out"}, "FALLBACK_OP is 'abs.out'"),
        ("npu", {}, "TORCH_NPU_FALLBACK_CPU_DISABLE is not set, and must be '1'"),
        ("hpu", {"PT_HPU_LAZY_MODE": "1"}, "PT_HPU_LAZY_MODE is '1', and must be '0'"),
    ],
)
def test_a_worker_that_may_fall_back_unseen_does_not_open(monkeypatch, device, variables, said):
    for variable in DEVICES[device].variables:
        monkeypatch.delenv(variable.name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Fallback, match=said):
        attach(DEVICES[device])


@pytest.mark.parametrize(
    "text",
    [
        "The operator 'aten::foo' is not currently supported on the MPS backend and will fall back to run on the CPU.",
        "CAUTION: The operator 'aten::foo.out' is not currently supported on the NPU backend and will fall back to run "
        "on the CPU. This may have performance implications.",
        "The operator 'aten::foo on the XPU backend is falling back to run on the CPU.",
        "Aten Op fallback from XPU to CPU happends. This may have performance implications.",
    ],
)
def test_what_makers_warn_of_is_a_refusal(text):
    said = r"(aten::foo\S*: it|the graph: an operator) ran on the CPU, the platform is mps"
    with pytest.raises(Unsupported, match=said), watched(DEVICES["mps"]):
        warnings.warn(text, stacklevel=1)


def test_other_warnings_pass_and_the_cpu_is_not_watched():
    with pytest.warns(UserWarning, match="of something else"), watched(DEVICES["mps"]):
        warnings.warn("of something else on the CPU", stacklevel=1)
    with pytest.warns(UserWarning, match="fall back to run on the CPU"), watched(DEVICES["cpu"]):
        warnings.warn("will fall back to run on the CPU", stacklevel=1)


def test_what_packages_count_is_read_operator_by_operator():
    counts = {"aten::nonzero": 2, "aten::_local_scalar_dense": 7, "xla::add": 9}
    metrics = types.SimpleNamespace(counter_names=lambda: list(counts), counter_value=counts.get)
    assert counted_by_xla(metrics) == {"aten::nonzero": 2}
    stats = [("TotalNumber", 3), ("FallbackOps", {"aten::nonzero": 3})]
    metrics = types.SimpleNamespace(metric_global=lambda name: types.SimpleNamespace(stats=lambda: stats))
    assert counted_by_gaudi(metrics) == {"aten::nonzero": 3}
    stats.pop()
    assert counted_by_gaudi(metrics) == {}


# ---- a device that PyTorch's dispatcher knows, made of the host's memory and kernels


PRETEND = HERE / "pretend_npu"


def test_another_device_runs_and_is_traced_bit_for_bit():
    found = in_a_worker("npu/eager", PRETEND)
    assert found["open"]["hardware"] == "Pretend 910" and found["open"]["torch_npu"] == "0.1.pretend"
    kinds = {case: said for case, said in found.items() if case.partition(" ")[0] not in ("open", "erf", "flip")}
    assert len(kinds) == 2 * (len(CASES) - 2) - 1 and set(kinds.values()) == {"same"}, kinds


def test_an_operator_that_another_device_lacks_is_refused_by_name():
    found = in_a_worker("npu/eager", PRETEND)
    for way in ("erf", "erf traced"):
        assert found[way].startswith("Unsupported: aten.erf.default: aten::erf has no kernel")


def test_values_that_another_device_leaves_on_the_host_are_fallbacks():
    found = in_a_worker("npu/eager", PRETEND)
    assert found["flip"] == "Fallback: output 1 is on cpu, the platform is npu"
    assert found["flip traced"] == "Fallback: what aten.flip.default gave is on cpu, the platform is npu"


def test_a_package_that_falls_back_with_a_warning_is_seen_to():
    found = in_a_worker("npu/eager", PRETEND, PRETEND_OLD="1")
    assert (
        found["erf"]
        == found["erf traced"]
        == "Unsupported: aten.erf.default: aten::erf ran on the CPU, the platform is npu"
    )
    found = in_a_worker("npu/eager", PRETEND, TORCH_NPU_FALLBACK_CPU_DISABLE="(unset)")
    assert found["open"].startswith("Fallback: TORCH_NPU_FALLBACK_CPU_DISABLE is not set")


@pytest.mark.nightly
def test_a_switch_that_another_device_does_not_obey_is_a_fallback():
    found = in_a_worker("npu/eager@deterministic=on,hf32=off", PRETEND)
    assert found["conv_net"] == "same" and found["open"]["deterministic"] is True
    said = in_a_worker("npu/eager@hf32=on", PRETEND)["open"]
    assert said.startswith("Fallback: hf32=on, and float32 matrix products keep 2")
    assert in_a_worker("npu/compile", PRETEND)["open"].startswith("Fallback: this torch_npu was built without torchair")


@pytest.mark.nightly
def test_a_process_ends_with_the_device_that_it_broke():
    done = started("npu/eager", PRETEND, cases=("product", "logit", "product"))
    assert done.returncode == 1 and done.stdout == ""
    assert "npu is lost to this process: RuntimeError: an illegal memory access" in done.stderr
