"""The stages that a program passes on its way to a result, and the answer to which of them brings a fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: A stage between a PyTorch program and its results, in the order in which a program passes them.
#: `device plugin`: OpenVINO's graph compiler or kernel, which no public option tells apart.
#: `compiler`: what is behind a front end (converter, graph compiler, code generation, kernel), where no run tells more.
#: `delegate`: XNNPACK as ExecuTorch or LiteRT calls it, or OpenVINO as ONNX Runtime calls it: its translation of the
#: operators or its kernels.
#: `unknown`: it could not be told, and the evidence says why.
Stage = Literal[
    "graph capture",
    "functionalisation",
    "decomposition",
    "exporter",
    "front end",
    "graph optimiser",
    "graph compiler",
    "graph pass",
    "fusion",
    "vectorised code generation",
    "code generation",
    "compiler",
    "executor optimisation",
    "runtime load",
    "device plugin",
    "delegate",
    "interpreter",
    "oneDNN kernel",
    "kernel (ISA tier)",
    "kernel",
    "unknown",
]


@dataclass(frozen=True, slots=True)
class StageAtFault:
    """The stage, and what tells so. `evidence`: one sentence for each run that was made, or why it is `unknown`."""

    stage: Stage = "unknown"
    evidence: tuple[str, ...] = ()
