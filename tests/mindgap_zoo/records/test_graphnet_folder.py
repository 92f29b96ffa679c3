"""Folders in GraphNet's layout: read as data, the same programs as records, and what is said of bad ones."""

import json
import os

import pytest
import torch

from mindgap.graph.structure import structure_digest
from mindgap.sources import CaptureFailure, SourceError, capture_source, open_source
from mindgap.sources.opening import capture_program
from mindgap_zoo.records.graphnet_folder import read_sample

ARGUMENTS = {
    "L_self_modules_head_modules_0_parameters_weight_": "torch.nn.parameter.Parameter",
    "L_x_": "torch.Tensor",
    "s7": "torch.SymInt",
    "L_self_modules_norm_buffers_running_var_": "torch.Tensor",
    "L_self_modules_norm_eps": "torch.Tensor",
}
TENSORS = [
    ("L_self_modules_head_modules_0_parameters_weight_", [5, 4], "torch.float32", {"mean": 0.1, "std": 0.4}),
    ("L_x_", [3, 4], "torch.float32", {"mean": -0.2, "std": 1.0, "device": '"cuda:0"'}),
    ("s7", [], "torch.int64", {"data": [4]}),
    ("L_self_modules_norm_buffers_running_var_", [5], "torch.float32", {"mean": 2.0, "std": 1.0, "min_val": 0}),
    ("L_self_modules_norm_eps", [], "torch.float64", {"mean": 0.0, "std": 0.0, "data": [0.25]}),
]
BODY = """
w = L_self_modules_head_modules_0_parameters_weight_
x = torch._C._nn.linear(L_x_, w, None)
w = None
item = L_self_modules_norm_eps.item()
x_1 = x / L_self_modules_norm_buffers_running_var_
x = item = None
x_1 += 0.5
x_2 = x_1
x_1 = None
part = x_2[(slice(None, None, None), slice(1, None, 2))]
part[(Ellipsis, 0)] = 2.0
setitem = part
part = setitem = None
x_3 = x_2.to(torch.float32).T
ones = torch.ones([1, 3], device=device(type="cuda", index=0))
x_4 = -x_3 * ones
return (x_4,)
"""


def model(body=BODY, arguments=ARGUMENTS, head="import torch\n\nfrom torch import device\n"):
    taken = "".join(f"        {name}: {kind},\n" for name, kind in arguments.items())
    lines = "".join(f"        {line}\n" for line in body.strip("\n").splitlines())
    return f"{head}\n\nclass GraphModule(torch.nn.Module):\n    def forward(\n        self,\n{taken}    ):\n{lines}"


def meta(tensors=TENSORS):
    text = ""
    for name, shape, dtype, more in tensors:
        fields = {"device": '"cpu"', "mean": None, "std": None, "data": None, **more}
        text += f'class Program_weight_tensor_meta_{name}:\n    name = "{name}"\n    shape = {shape}\n'
        text += f'    dtype = "{dtype}"\n' + "".join(f"    {key} = {value}\n" for key, value in fields.items()) + "\n\n"
    return text


def sample(folder, body=BODY, **files):
    """A sample folder; `files`: what replaces a file of it, None to leave it out."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"model": model(body), "weight_meta": meta(), "input_meta": "", **files}
    for name, text in texts.items():
        if text is not None:
            (folder / f"{name}.py").write_text(text)
    (folder / "graph_net.json").write_text(json.dumps({"framework": "torch", "source": "test"}))
    (folder / "graph_hash.txt").write_text("0" * 64)
    return folder


def test_a_sample_runs_as_its_statements_say(tmp_path):
    (program,) = open_source(f"graphnet:{sample(tmp_path / 'one')}")
    assert (program.name, program.source) == ("one", f"graphnet:{tmp_path}/one")
    module, args, _ = program.build()
    weight, var = module.get_parameter("head.0.weight"), module.get_buffer("norm.running_var")
    with torch.no_grad():
        (result,) = module(*args)
        expected = args[0] @ weight.T / var + 0.5
        expected[:, 1] = 2.0
    assert torch.allclose(result, -expected.T)


def test_a_sample_is_the_record_that_a_table_would_hold(tmp_path):
    record = read_sample(sample(tmp_path / "one"))
    assert [entry["name"] for entry in record["inputs"]] == ["P0", "X0", "S0", "B0", "X1"]
    assert record["inputs"][0] == {
        "name": "P0", "kind": "parameter", "shape": [5, 4], "dtype": "float32", "mean": 0.1, "std": 0.4, "data": None,
        "path": "head.0.weight"}  # fmt: skip
    assert record["inputs"][3]["min"] == 0 and record["inputs"][3]["path"] == "norm.running_var"
    assert record["inputs"][4]["scalar"] and record["inputs"][4]["original_name"] == "L_self_modules_norm_eps"
    targets = [(node["name"], node["op"], node["target"]) for node in record["nodes"]]
    assert targets == [
        ("x", "call_function", "torch._C._nn.linear"),
        ("item", "call_method", "item"),
        ("x_1", "call_function", "operator.truediv"),
        ("x_1__1", "call_function", "operator.iadd"),
        ("part", "call_function", "operator.getitem"),
        ("setitem", "call_function", "operator.setitem"),
        ("value", "call_method", "to"),
        ("x_3", "getattr", "T"),
        ("ones", "call_function", "torch.ones"),
        ("value__1", "call_function", "operator.neg"),
        ("x_4", "call_function", "operator.mul"),
    ]
    assert record["nodes"][0]["args"] == [{"ref": "X0"}, {"ref": "P0"}, None]
    assert record["nodes"][4]["args"] == [
        {"ref": "x_1__1"}, {"tuple": [{"slice": [None, None, None]}, {"slice": [1, None, 2]}]}]  # fmt: skip
    assert record["nodes"][5]["args"][1] == {"tuple": [{"ellipsis": True}, 0]}
    assert record["nodes"][6]["args"][1] == {"dtype": "float32"}
    assert record["nodes"][8]["kwargs"] == {"device": {"device": "cpu"}}
    assert record["outputs"] == [{"ref": "x_4"}]


def test_statements_that_mean_the_same_give_one_structure(tmp_path):
    plain = "w = L_self_modules_head_modules_0_parameters_weight_\nx = torch.nn.functional.linear(L_x_, w)\nreturn (x,)"
    nested = "return torch._C._nn.linear(L_x_, L_self_modules_head_modules_0_parameters_weight_, None)"
    digests = []
    for number, body in enumerate((plain, nested)):
        (program,) = open_source(f"graphnet:{sample(tmp_path / str(number), body)}")
        digests.append(structure_digest(capture_program(program)))
    assert digests[0] == digests[1]


def test_a_tree_of_samples_with_parts_of_a_model(tmp_path):
    for path in ("zoo/b", "zoo/a/subgraph_0", "zoo/a/subgraph_1", "other"):
        sample(tmp_path / path)
    (tmp_path / "notes").mkdir()
    opened = open_source(f"graphnet:{tmp_path}?seed=3")
    assert [p.name for p in opened] == ["other", "zoo/a/subgraph_0", "zoo/a/subgraph_1", "zoo/b"]
    assert opened[3].source == f"graphnet:{tmp_path}/zoo/b?seed=3"
    (again,) = open_source(opened[3].source)
    assert torch.equal(again.build()[1][0], opened[3].build()[1][0])


def test_folders_that_hold_no_sample(tmp_path):
    with pytest.raises(SourceError, match="no such folder"):
        open_source(f"graphnet:{tmp_path}/none")
    with pytest.raises(SourceError, match="no sample in it"):
        open_source(f"graphnet:{tmp_path}")


def refusal(folder):
    """What is said of the bad sample in this folder: one line that names it."""
    ((_, failure),) = capture_source(f"graphnet:{folder}")
    assert isinstance(failure, CaptureFailure), failure
    assert "\n" not in failure.reason and str(folder) in failure.reason
    return failure.reason


FIRST = 15  # the line of the first statement of `model`


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("x = torch.load('weights.pt')", "torch.load, which is not on the list"),
        ("x = torch.ops.load_library('evil.so')", "not on the list"),
        ("x = torch.hub.load('a/b', 'c')", "not on the list"),
        ("x = torch.serialization.os.system('true')", "not on the list"),
        ("x = L_x_.frobnicate(1)", "Tensor.frobnicate"),
        ("x = L_x_.__class__", "__class__, which is not on the list"),
        ("x = L_x_.__reduce_ex__(2)", "__reduce_ex__"),
        ("x = L_x_.apply_(L_x_)", "apply_"),
        ("x = L_x_.__class__.__mro__[1].__subclasses__()", "__class__"),
        ("x = open('/etc/passwd').read()", "something else than torch"),
        ("x = __import__('os').system('true')", "something else than torch"),
        ("x = eval('1')", "something else than torch"),
        ("import os", "no statement"),
        ("for i in [1]: x = L_x_", "no statement"),
        ("with torch.no_grad(): x = L_x_", "no statement"),
        ("x = lambda: 1", "no value"),
        ("x = [v for v in L_x_]", "no value"),
        ("x = f'{L_x_}'", "no value"),
        ("x = (y := L_x_)", "no value"),
        ("x = 1 if L_x_ else 2", "no value"),
        ("x = torch.add(*[L_x_, L_x_])", "one by one"),
        ("x = torch.add(L_x_, **{'other': 1})", "one by one"),
        ("x = y + 1", "y has no value here"),
        ("x, y = L_x_", "neither a name nor an element"),
        ("L_x_.data = L_x_", "neither a name nor an element"),
        ("x = torch.float99", "no dtype"),
        ("x = b'bytes'", "no constant"),
        ("x = torch", "torch has no value here"),
    ],
)  # fmt: skip
def test_what_is_no_recorded_call_is_refused_with_its_line(tmp_path, statement, says):
    reason = refusal(sample(tmp_path / "bad", f"{statement}\nreturn (L_x_,)"))
    assert says in reason and f"bad/model.py:{FIRST}: " in reason


BROKEN = {
    "a syntax error": ({"model": model("x = = 1\nreturn (x,)")}, f"model.py:{FIRST}: not Python"),
    "an import": ({"model": "import os\n" + model()}, "model.py:1: `import os`"),
    "a star": ({"model": "from torch import *\n" + model()}, "model.py:1: "),
    "another name": ({"model": "import os as torch\n" + model()}, "model.py:1: "),
    "code beside the class": ({"model": model() + "\nprint(1)\n"}, "`print(1)`"),
    "no class": ({"model": "import torch\n"}, "no forward"),
    "two classes": ({"model": model() + "\n" + model(head="")}, "2 forward"),
    "no return": ({"model": model("x = L_x_")}, "ends by returning"),
    "zero bytes": ({"model": "x = 1\0"}, "not Python"),
    "a deep expression": ({"model": model("return (" + "(" * 400 + "L_x_" + ")" * 400 + ",)")}, "model.py"),
    "a long chain": ({"model": model("return (" + "-" * 5000 + "L_x_,)")}, "model.py"),
    "a number of many digits": ({"model": model(f"x = {'9' * 6000}\nreturn (L_x_,)")}, "not Python"),
    "a number that grows": ({"model": model("x = 7 ** 7 ** 9\nreturn (L_x_ * x,)")}, "bits"),
    "a list that grows": ({"model": model("x = [0] * 1000000000\nreturn (L_x_, x)")}, "1,000,000,000 values"),
    "a text that grows": ({"model": model("x = '%999999999d' % 5\nreturn (L_x_, x)")}, "operator.mod"),
    "no model": ({"model": None}, "model.py: no such file"),
    "no weight_meta": ({"weight_meta": None}, "weight_meta.py: no such file"),
    "a tensor that is not described": ({"weight_meta": meta(TENSORS[1:])}, "says nothing of L_self_modules_head"),
    "code in weight_meta": ({"weight_meta": "import os\n" + meta()}, "weight_meta.py:1: only plain classes"),
    "a call in weight_meta": ({"weight_meta": meta([("L_x_", "list(range(9))", "torch.float32", {})])},
                              "weight_meta.py:3: no literal: list(range(9))"),
    "a huge list": ({"weight_meta": meta([*TENSORS[:-1], ("L_self_modules_norm_eps", [1], "torch.float64",
                    {"data": "[0] * 10**12"})])}, "no literal"),
    "a dunder": ({"weight_meta": meta() + "\nclass A:\n    name = 'a'\n    __slots__ = ()\n"}, "no field of a tensor"),
    "no shape": ({"weight_meta": meta().replace("    shape = [3, 4]\n", "")}, "L_x_ has no shape"),
    "another dtype": ({"weight_meta": meta().replace("torch.int64", "torch.object")}, "dtype 'object'"),
    "huge weights": ({"weight_meta": meta().replace("[5, 4]", "[500000000000, 4]")}, "GiB"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_wrong_with_a_sample(tmp_path, case):
    files, says = BROKEN[case]
    assert says in refusal(sample(tmp_path / "bad", **files))


def test_a_sample_of_another_framework(tmp_path):
    folder = sample(tmp_path / "one")
    (folder / "graph_net.json").write_text('{"framework": "paddle"}')
    assert "its framework is paddle" in refusal(folder)
    (folder / "graph_net.json").write_text("{")
    assert "graph_net.json: not JSON" in refusal(folder)


def test_a_bad_sample_costs_itself_only(tmp_path):
    for name, body in (("a", BODY), ("b", "import os"), ("c", BODY)):
        sample(tmp_path / name, body)
    found = dict(capture_source(f"graphnet:{tmp_path}"))
    assert found["a"].nodes and found["c"].nodes and isinstance(found["b"], CaptureFailure)


def test_nothing_outside_the_folder_is_read(tmp_path):
    """Neither through a link to a file, nor a link to a folder, nor by the name of a tensor."""
    outside = sample(tmp_path / "outside")
    inside = tmp_path / "tree"
    bad = sample(inside / "bad", model=None)
    (bad / "model.py").symlink_to(outside / "model.py")
    (inside / "link").symlink_to(outside, target_is_directory=True)
    ((name, failure),) = capture_source(f"graphnet:{inside}")
    assert name == "bad" and "a link that leads out of" in failure.reason
    climbing = sample(tmp_path / "climbing", weight_meta=meta().replace('"L_x_"', '"../../x"'))
    ((_, failure),) = capture_source(f"graphnet:{climbing}")
    assert "says nothing of" in failure.reason


def test_a_pipe_in_place_of_a_file_does_not_hang(tmp_path):
    folder = sample(tmp_path / "one", model=None)
    os.mkfifo(folder / "model.py")
    ((_, failure),) = capture_source(f"graphnet:{folder}")
    assert "no such file" in failure.reason


def test_what_is_read_is_never_run(tmp_path):
    mark = tmp_path / "ran"
    text = f"open({str(mark)!r}, 'w')\n"
    for number, files in enumerate(({"model": text + model()}, {"weight_meta": text + meta()}, {"input_meta": text})):
        ((_, failure),) = capture_source(f"graphnet:{sample(tmp_path / str(number), **files)}")
        assert isinstance(failure, CaptureFailure)
    assert not mark.exists()
