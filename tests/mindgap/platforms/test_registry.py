import copy
import json
import pickle
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from mindgap.platforms.name import PlatformName, parse, recorded
from mindgap.platforms.protocol import PlatformError
from mindgap.platforms.registry import backends, canonical, find

words = st.text("abcdefghijklmnopqrstuvwxyz_0123456789.", min_size=1, max_size=8)


@given(words, words, st.dictionaries(words, words, max_size=4), st.randoms())
def test_a_name_survives_its_own_spelling_whatever_the_order(device, mode, options, random):
    items = list(options.items())
    random.shuffle(items)
    name = parse(f"{device}/{mode}" + ("@" + ",".join(f"{k}={v}" for k, v in items) if items else ""))
    assert name == PlatformName(f"{device}/{mode}", options)
    assert parse(str(name)) == name
    assert list(name.options) == sorted(options)


@pytest.mark.parametrize(
    "text", ["cpu/eager@threads=1,isa=avx2", "package.module:BACKEND@b=2,a=1", "p", "", "a/b@c", "a:b@c="]
)
def test_a_name_of_a_stored_file_stays_as_it_is(text):
    name = recorded(text)
    assert (name, hash(name), str(name), json.dumps(name)) == (text, hash(text), text, json.dumps(text))
    for again in (pickle.loads(pickle.dumps(name)), copy.deepcopy(name)):
        assert again == name and type(again) is PlatformName and again.options == name.options


def test_an_import_path_is_a_name():
    name = parse(" package.module:BACKEND@env=here,b=2,a=1 ")
    assert name == "package.module:BACKEND@env=here,b=2,a=1" and name.is_import_path
    assert (name.device_mode, name.environment) == ("package.module:BACKEND", "here")
    assert name.backend_options == {"b": "2", "a": "1"}
    assert name.with_options(b="3") == "package.module:BACKEND@env=here,b=3,a=1"
    assert not parse("cpu/eager@device=GPU:0").is_import_path


@pytest.mark.parametrize(
    "text",
    ["", "cpu", "cpu/", "/eager", "cpu/eager/x", "cpu/eager@", "cpu/eager@isa", "cpu/eager@=1", "cpu/eager@isa=",
     "cpu/eager@a=1,a=2", "cpu/eager@a=1,,b=2", "c pu/eager"],
)  # fmt: skip
def test_a_malformed_name_is_refused(text):
    with pytest.raises(PlatformError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cpu/eagr", "did you mean cpu/eager"),
        ("cpu/eager@thread=1", "did you mean threads"),
        ("cpu/eager@isa=avx51", "did you mean avx512"),
        ("cpu/eager@threads=0", "threads=0"),
        ("cpu/eager@threads=two", "threads=two"),
        ("cpu/eager@dtype=float32", "dtype=float32"),
        ("cpu/inductor@layout=channels_last", "no option 'layout'"),
        ("cpu/inductor@freezing=yes", "freezing=yes"),
        ("cuda/eager@isa=avx2", "no option 'isa'"),
        ("cpu/eager@isa=avx2,aten=avx2", "isa= and aten= set the same level of instructions"),
    ],
)
def test_what_is_not_known_is_refused_before_any_worker_starts(text, said):
    with pytest.raises(PlatformError, match=said):
        find(text)


def test_the_canonical_spelling_sorts_the_options():
    assert canonical(" cpu/eager@threads=2,isa=avx2 ") == "cpu/eager@isa=avx2,threads=2"


def test_the_registry_and_the_probes_import_no_framework():
    code = (
        "import sys, mindgap.platforms as p\n"
        "b, o = p.find('cpu/eager@isa=avx2'); assert b.environment(o)['ATEN_CPU_CAPABILITY'] == 'avx2'\n"
        "assert {i.platform for i in p.list_platforms()} >= {'cpu/eager', 'cpu/jit', 'cpu/inductor', 'cuda/eager'}\n"
        "assert not {'torch', 'onnxruntime', 'openvino'} & set(sys.modules), sorted(sys.modules)\n"
    )
    import importlib.util

    import torch

    if torch.version.cuda or torch.version.hip or sys.platform == "darwin":
        code = code.replace("assert {i.platform", "#")  # the probe of a real device has to ask its framework
    assert importlib.util.find_spec("torch") is not None
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_platform_of_ours_is_registered():
    assert set(backends()) >= {
        "cpu/eager", "cpu/jit", "cpu/inductor", "cpu/aotinductor", "cuda/eager", "cuda/inductor", "mps/eager",
        "xpu/eager", "onnxruntime/cpu", "openvino/cpu", "faulty/eager",
    }  # fmt: skip
