"""Translates ONNX's Fourier transforms. A complex number is the last dimension, of size 2; of size 1 it is real."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (PyTorch's functions and the shapes of tensors are partly untyped)

from __future__ import annotations

import torch

from mindgap.onnx_files.node import OnnxNode, translates

Tensor = torch.Tensor


def _complex(x: Tensor) -> Tensor:
    """Returns numbers without their last dimension: real ones if it has size 1."""
    return torch.view_as_complex(x.contiguous()) if x.shape[-1] == 2 else x.squeeze(-1)


def _forward(x: Tensor, count: int, axis: int, onesided: bool) -> Tensor:
    """Transforms along an axis; `onesided` keeps the frequencies that are not conjugates of others."""
    spectrum = torch.fft.fft(x, count, axis)
    if onesided:
        spectrum = spectrum.narrow(axis, 0, count // 2 + 1)
    return torch.view_as_real(spectrum.resolve_conj()).clone()


@translates("DFT", structural=(1, 2))
def dft(node: OnnxNode, x: Tensor, *_: None) -> Tensor:
    given = node.known(2)
    axis = (node.get("axis", 1) if node.opset < 20 else -2 if given is None else int(given)) % x.dim()
    node.only(axis != x.dim() - 1, "along the parts of complex numbers")
    length, inverse, onesided = node.known(1), bool(node.get("inverse", 0)), bool(node.get("onesided", 0))
    signal, size = _complex(x), x.shape[axis]
    count = int(length) if length is not None else 2 * (size - 1) if inverse and onesided else size
    if not inverse:
        return _forward(signal, count, axis, onesided)
    if onesided:
        return torch.fft.irfft(signal, count, axis).unsqueeze(-1)
    return torch.view_as_real(torch.fft.ifft(signal, count, axis)).clone()


@translates("STFT", structural=(1, 3))
def stft(node: OnnxNode, x: Tensor, _: None, window: Tensor | None = None, __: None = None) -> Tensor:
    """Transforms frames: [batch, frames, frequencies, 2]."""
    step, given = node.known(1), node.known(3)
    assert step is not None, "the schema demands it"
    whole = x.shape[1] if window is None else window.shape[0]
    length = int(given) if given is not None else whole
    frames = _complex(x).unfold(1, length, int(step))
    node.only(window is None or window.shape[0] == length, "with a window of another length")
    return _forward(frames if window is None else frames * window, length, 2, bool(node.get("onesided", 1)))
