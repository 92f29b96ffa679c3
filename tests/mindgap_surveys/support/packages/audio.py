"""Features of sound in the style of audio libraries."""

import math
import warnings

import librosa
import numpy as np
import soundfile as sf
import torch
import torchaudio
import torchaudio.functional as AF
from torch import Tensor


def hz_to_mel(freq: float) -> float:
    return 2595.0 * math.log10(1.0 + freq / 700.0)


def filters(n_freqs: int, n_mels: int, rate: int) -> Tensor:
    all_freqs = torch.linspace(0, rate // 2, n_freqs)
    m_pts = torch.linspace(hz_to_mel(0.0), hz_to_mel(rate / 2), n_mels + 2)
    f_pts = 700.0 * (torch.pow(10, m_pts / 2595.0) - 1.0)
    f_diff = f_pts[1:] - f_pts[:-1]
    slopes = f_pts.unsqueeze(0) - all_freqs.unsqueeze(1)
    down, up = (-1.0 * slopes[:, :-2]) / f_diff[:-1], slopes[:, 2:] / f_diff[1:]
    bank = torch.max(torch.zeros(1), torch.min(down, up))
    if (bank.max(dim=0).values == 0.0).any():
        warnings.warn("a filter has no values")
    return bank


class LogMel(torch.nn.Module):
    def __init__(self, n_fft=400, hop=160, n_mels=80):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("bank", filters(n_fft // 2 + 1, n_mels, 16000))

    def forward(self, audio: Tensor) -> Tensor:
        audio = torch.nn.functional.pad(audio, (0, 200), mode="reflect")
        stft = torch.stft(audio, self.n_fft, self.hop, window=self.window, return_complex=True)
        magnitudes = stft[..., :-1].abs() ** 2
        mel = torch.matmul(magnitudes.transpose(-1, -2), self.bank).transpose(-1, -2)
        spec = torch.clamp(mel, min=1e-10).log10()
        spec = torch.maximum(spec, spec.amax(dim=(-2, -1), keepdim=True) - 8.0)
        return (spec + 4.0) / 4.0


def load(path: str) -> Tensor:
    data, rate = sf.read(path, dtype="float32")
    data = librosa.resample(data, orig_sr=rate, target_sr=16000)
    peak = np.abs(data).max()
    wave, other = torchaudio.load(path)
    wave = AF.resample(wave, other, 16000)
    energy = np.log(np.add(data**2, 1e-9)).cumsum()
    return torch.from_numpy(data / peak + energy) + wave.mean(0).fft() + torch.fft.rfft(wave).angle()
