"""Gemm with a C without dimensions in ONNX Runtime's WebGPU provider. Exit status 1: the fault is there; 0: gone; 2: not checked."""
import ctypes.util, os, signal, subprocess, sys

sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, onnx, onnx.parser, onnxruntime

MODEL = """<ir_version: 9, opset_import: ["": 20]>
g (float[n, n] a, float[n, n] b) => (float[n, n] y) <float c = {0.5}> { y = Gemm (a, b, c) }"""

if sys.argv[1:]:  # in a process of its own
    driver = os.environ.setdefault("VK_DRIVER_FILES", "/usr/lib/chromium/vk_swiftshader_icd.json")
    ctypes.CDLL(ctypes.util.find_library("vulkan") or f"{os.path.dirname(driver)}/libvulkan.so.1", ctypes.RTLD_GLOBAL)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    model = onnx.parser.parse_model(MODEL).SerializeToString()
    for size in (8, 9):
        session = onnxruntime.InferenceSession(model, options, enable_fallback=0, providers=["WebGpuExecutionProvider"])
        ones = np.ones((size, size), "float32")
        print("size", size, "found", session.run(None, {"a": ones, "b": ones})[0][0, 0], "right", size + 0.5, flush=True)
    sys.exit()
print("onnx", onnx.__version__, "onnxruntime-webgpu", onnxruntime.__version__)
done = subprocess.run([sys.executable, __file__, "run"], capture_output=True, text=True)
fault = done.returncode == -signal.SIGABRT
print(done.stdout.strip())
print("then it", "ends with SIGABRT: " + done.stderr.splitlines()[-1] if fault else f"ends with status {done.returncode}")
if "size 8 found 8.5" not in done.stdout or not (fault or done.returncode == 0):
    sys.exit(print("Another failure than the one that this script shows.") or 2)
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
