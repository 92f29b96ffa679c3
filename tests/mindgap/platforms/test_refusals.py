import pytest
import torch
import torch.nn.attention

from mindgap.platforms.pytorch.refusals import refusal, refused_operator

aten = torch.ops.aten
half, ints, flags = torch.ones(3, 3, dtype=torch.half), torch.ones(3, 3, dtype=torch.int64), torch.ones(3, 3).bool()
complexes, eighths = torch.ones(3, 3, dtype=torch.complex64), torch.ones(3, 3).to(torch.float8_e4m3fn)


def no_attention():
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
        aten.scaled_dot_product_attention.default(*(torch.ones(1, 1, 3, 3),) * 3)


def only_deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        aten.put.default(torch.ones(3), torch.tensor([0]), torch.ones(1))
    finally:
        torch.use_deterministic_algorithms(False)


#: What PyTorch itself says when an operator or dtype is not implemented.
REFUSED = {
    "float8 add": lambda: aten.add.Tensor(eighths, eighths),
    "float8 promotion": lambda: aten.add.Tensor(eighths, half),
    "complex sort": lambda: aten.sort.default(complexes),
    "complex clamp": lambda: aten.clamp.default(complexes, 0),
    "complex ceil": lambda: aten.ceil.default(complexes),
    "complex argmax": lambda: aten.argmax.default(complexes),
    "complex heaviside": lambda: aten.heaviside.default(complexes, complexes),
    "half cholesky": lambda: aten.linalg_cholesky.default(half),
    "half inverse": lambda: aten.linalg_inv.default(half),
    "half fft": lambda: aten.fft_fft.default(half),
    "half svd": lambda: aten.linalg_svd.default(half),
    "bool minus": lambda: aten.sub.Tensor(flags, flags),
    "bool negation": lambda: aten.neg.default(flags),
    "bool topk": lambda: aten.topk.default(flags, 1),
    "integer mean": lambda: aten.mean.default(ints),
    "integer std": lambda: aten.std.default(ints),
    "integer layer norm": lambda: aten.layer_norm.default(ints, [3]),
    "attention without a kernel": no_attention,
    "no deterministic algorithm": only_deterministic,
    "another backend": lambda: aten._flash_attention_forward.default(
        half, half, half, None, None, 1, 1, 0.0, False, False
    ),
}

#: Wrong programs: every platform should fail on them, and none of them says that something is missing.
WRONG = {
    "shapes": lambda: aten.mm.default(half, torch.ones(2, 2, dtype=torch.half)),
    "mixed dtypes": lambda: aten.mm.default(half, torch.ones(3, 3)),
    "broadcast": lambda: aten.add.Tensor(torch.ones(2), torch.ones(3)),
    "index": lambda: aten.index_select.default(half, 0, torch.tensor([9])),
    "dimension": lambda: aten.sum.dim_IntList(half, [5]),
    "view": lambda: aten.view.default(torch.ones(3, 4).t(), [12]),
    "index dtype": lambda: aten.embedding.default(half, half),
    "arguments": lambda: aten.add.Tensor(half),
    "argument type": lambda: aten.relu.default("text"),
    "domain": lambda: aten.linalg_cholesky.default(-torch.eye(3)),
    "normalised shape": lambda: aten.layer_norm.default(torch.ones(3), [4]),
    "kernel size": lambda: aten.max_pool2d.default(torch.ones(1, 1, 2, 2), [3, 3]),
    "groups": lambda: aten.conv2d.default(torch.ones(1, 3, 4, 4), torch.ones(2, 2, 1, 1)),
    "data-dependent": lambda: aten.bincount.default(torch.tensor([-1])),
}


def raised(call) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    pytest.fail("PyTorch did not refuse")


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_implemented_is_a_refusal(name):
    why = refusal(raised(REFUSED[name]))
    assert why is not None and "\n" not in why and 0 < len(why) < 300


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_no_refusal(name):
    assert refusal(raised(WRONG[name])) is None


@pytest.mark.parametrize(
    "error",
    [
        NotImplementedError(),  # a method that somebody forgot to write
        RuntimeError("expected scalar type Half but found Float"),
        RuntimeError("Boolean value of Tensor with more than one value is ambiguous"),
        RuntimeError("shape mismatch: not supported for broadcasting"),
        AssertionError("\"x\" not implemented for 'Half'"),
        ValueError("float8 is not supported for float"),
        KeyError("complex"),
    ],
)
def test_a_bug_is_no_refusal(error):
    assert refusal(error) is None


@pytest.mark.parametrize(
    "text",
    [
        "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64.",
        "aten::fmax.out: set TORCH_NPU_FALLBACK_CPU_DISABLE=0 to run it on the CPU",
        "UNIMPLEMENTED: complex sort is not implemented",
    ],
)
def test_what_other_devices_say(text):
    assert refusal(RuntimeError(text)) == refusal(TypeError(text)) == text


def test_a_refusal_is_found_below_what_wraps_it():
    inner = raised(REFUSED["complex ceil"])
    try:
        try:
            raise inner
        except Exception as error:
            raise RuntimeError("backend='inductor' raised:\n" + str(error)) from error
    except RuntimeError as error:
        assert refusal(error) == str(inner)


def test_a_compiler_names_the_operator():
    assert refused_operator(RuntimeError("no lowering for aten.foo.bar(x)")) == "aten.foo.bar"
    assert refused_operator(RuntimeError("Could not run 'aten::foo'")) == "aten.foo.default"
    assert refused_operator(RuntimeError("it is broken")) is None
