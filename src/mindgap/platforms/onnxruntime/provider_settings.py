"""The settings of ONNX Runtime's OpenVINO provider, and which nodes of a session it took."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from mindgap.platforms.delegation import Delegation
from mindgap.platforms.onnxruntime.session import Provider
from mindgap.platforms.protocol import Fallback

OPENVINO: Final = "OpenVINOExecutionProvider"
CPU: Final = "CPUExecutionProvider"


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """The options of the platform. `threads`: None leaves the number to ONNX Runtime and OpenVINO."""

    delegate: str = "openvino"
    opt: str = "all"
    precision: str = "default"
    threads: int | None = None

    @property
    def providers(self) -> list[Provider]:
        """The providers of a session, in the order in which they are offered nodes."""
        return [(OPENVINO, self.provider_options), CPU] if self.delegate == "openvino" else [CPU]

    @property
    def provider_options(self) -> dict[str, str]:
        """The OpenVINO provider's options."""
        found = {"device_type": "CPU"}
        if self.threads is not None:
            found["num_of_threads"] = str(self.threads)
        if self.precision == "f32":
            found["precision"] = "FP32"
        if self.precision == "bf16":  # the provider's option `precision` has no such value
            found["load_config"] = json.dumps({"CPU": {"INFERENCE_PRECISION_HINT": "bf16"}})
        return found


def assigned(session: Any, settings: ProviderSettings) -> Delegation:
    """Returns which nodes the provider took, and which it left to the CPU provider.

    Raises `Fallback` for a session without the provider: ONNX Runtime leaves out one that it cannot make, and only logs
    it.
    """
    wanted = [OPENVINO, CPU] if settings.delegate == "openvino" else [CPU]
    if session.get_providers() != wanted:
        raise Fallback(f"ONNX Runtime runs on {session.get_providers()}, not on {wanted}")
    delegate, otherwise = (wanted[0], CPU) if settings.delegate == "openvino" else (CPU, "")
    ran, rest, parts = Counter[str](), Counter[str](), 0
    for part in session.get_provider_graph_assignment_info():
        names = [str(node.op_type) for node in part.get_nodes()]
        if part.ep_name not in wanted:
            raise Fallback(f"ONNX Runtime gave {names} to {part.ep_name}")
        (ran if part.ep_name == delegate else rest).update(names)
        parts += part.ep_name == OPENVINO
    return Delegation(delegate, dict(ran), dict(rest), otherwise, parts)
