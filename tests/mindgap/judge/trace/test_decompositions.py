"""A compiler of PyTorch's decompositions is not acquitted by a decomposition. Which platform is one, it declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import _decomp

from judge.oracle.bench import PLATFORM, REFERENCE, Bench, build, normal, wrong_at
from mindgap.judge.trace.judge import Judge
from mindgap.platforms.protocol import DECLARED, PYTORCH_DECOMPOSITIONS, Platform
from mindgap.platforms.pytorch import aotinductor, dynamo, eager, inductor
from mindgap.platforms.pytorch.device.devices import DEVICES
from mindgap.run.local import fingerprint_of
from mindgap.run.outcome import Job

#: The platforms as their backends make them; nothing is opened, so that each is tested without its hardware.
COMPILERS: Mapping[str, Platform] = {
    **{f"{name}/inductor": inductor._Inductor(DEVICES[name], {}, {}) for name in ("cpu", "cuda", "rocm", "xpu", "mps")},
    "cpu/aotinductor": aotinductor._Ahead(DEVICES["cpu"], {}, {}),
    "npu/compile": dynamo._Compiling(DEVICES["npu"], {}, {}, "torchair"),
    "hpu/compile": dynamo._Compiling(DEVICES["hpu"], {}, {}, "hpu_backend"),
    "xla/openxla": dynamo._Compiling(DEVICES["xla"], {}, {}, "openxla"),
}


def blame_where(describe: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """Who is blamed where a platform and PyTorch's decomposition of gelu agree on a wrong result."""

    def wrong(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
        return torch.nn.functional.gelu(x) * 1.25

    monkeypatch.setitem(_decomp.decomposition_table, torch.ops.aten.gelu.default, wrong)
    x = normal(8, 16)
    graph = build([x], [("y", "aten.gelu.default", "i0")], ["y"])
    bench = Bench({PLATFORM: wrong_at("gelu", lambda y: y * 1.25)})
    judge = Judge(
        graph, [x], bench.execute, REFERENCE,
        decomposes=lambda name: name == PLATFORM and bool(describe.get(PYTORCH_DECOMPOSITIONS)),
    )  # fmt: skip
    outcomes = [bench.execute(Job(name, graph, inputs={0: x})) for name in (PLATFORM, REFERENCE)]
    found = judge.judge(*outcomes)
    assert found.culprit is not None and found.culprit.op == "aten.gelu.default"
    return str(found.blame)


@pytest.mark.parametrize("name", COMPILERS)
def test_a_compiler_declares_that_it_compiles_decompositions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    description = COMPILERS[name].describe()
    assert description[PYTORCH_DECOMPOSITIONS] is True
    assert blame_where(description, monkeypatch) == "undecided"


def test_a_decomposition_is_evidence_for_a_platform_that_does_not_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PYTORCH_DECOMPOSITIONS not in eager.CPU.open({}).describe()
    assert blame_where({}, monkeypatch) == "reference"


def test_the_declaration_changes_no_fingerprint() -> None:
    assert fingerprint_of({"torch": "2", **dict.fromkeys(DECLARED, True)}) == fingerprint_of({"torch": "2"})
