"""Speech and sound: spectra, filters over time, encoders and decoders of transformers."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from transformers import WhisperConfig, WhisperModel


class LogMel(nn.Module):
    """The power of a windowed spectrum in eight bands, in decibels, floored 8 below the top."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        centres = torch.linspace(1, 15, 8)[:, None]
        self.register_buffer("bands", (1 - (torch.arange(17)[None] - centres).abs() / 3).clamp(min=0))

    def forward(self, wave):
        spectrum = torch.stft(wave, 32, 16, window=self.window, return_complex=True)
        power = self.bands @ spectrum.abs().square()
        decibels = power.clamp(min=1e-10).log10()
        return torch.maximum(decibels, decibels.amax() - 8.0)


class RoundTrip(nn.Module):
    """A spectrum with half its phase's rate, and back to a wave."""

    def forward(self, wave):
        window = torch.hann_window(32)
        spectrum = torch.stft(wave, 32, 8, window=window, return_complex=True)
        quiet = torch.polar(spectrum.abs() * 0.5, spectrum.angle())
        return torch.istft(quiet, 32, 8, window=window, length=wave.shape[-1])


class FeatureEncoder(nn.Module):
    """Strided filters with group norm, as speech encoders begin."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = (
            nn.Conv1d(1, 8, 10, 5, bias=False),
            nn.GroupNorm(8, 8),
            nn.Conv1d(8, 8, 3, 2),
        )

    def forward(self, wave):
        x = F.gelu(self.norm(self.first(wave[:, None])))
        return F.gelu(self.second(x)).transpose(1, 2)


class Dilated(nn.Module):
    """Causal, gated, dilated filters with skip connections."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(4, 8, 2, dilation=2**n) for n in range(4))
        self.out = nn.Conv1d(4, 6, 1)

    def forward(self, x):
        total = torch.zeros_like(x)
        for n, layer in enumerate(self.layers):
            a, b = layer(F.pad(x, (2**n, 0))).chunk(2, 1)
            y = torch.tanh(a) * torch.sigmoid(b)
            x, total = x + y, total + y
        return self.out(F.relu(total))


class SincBank(nn.Module):
    """Band-pass filters that are computed from their edges at each call."""

    def __init__(self):
        super().__init__()
        self.low = nn.Parameter(torch.tensor([0.05, 0.1, 0.2]))
        self.width = nn.Parameter(torch.tensor([0.05, 0.1, 0.1]))

    def forward(self, wave):
        n = torch.arange(-10, 11).float()
        high = self.low + self.width.abs()
        band = 2 * high[:, None] * torch.sinc(2 * high[:, None] * n) - 2 * self.low[:, None] * torch.sinc(
            2 * self.low[:, None] * n
        )
        return F.conv1d(wave[:, None], (band * torch.hamming_window(21, periodic=False))[:, None], padding=10)


def wave(samples=320):
    time = torch.arange(samples) / samples
    return (torch.sin(2 * math.pi * 12 * time) + 0.3 * torch.sin(2 * math.pi * 55 * time))[None]


def log_mel():
    torch.manual_seed(0)
    return LogMel(), (wave() + 0.01 * torch.randn(1, 320),)


def spectrum_and_back():
    torch.manual_seed(0)
    return RoundTrip(), (torch.randn(1, 160),)


def feature_encoder():
    torch.manual_seed(0)
    return FeatureEncoder().eval(), (wave(),)


def dilated_filters():
    torch.manual_seed(0)
    return Dilated().eval(), (torch.randn(1, 4, 30),)


def computed_filters():
    torch.manual_seed(0)
    return SincBank(), (torch.randn(2, 100),)


def whisper():
    torch.manual_seed(0)
    config = WhisperConfig(
        vocab_size=64, num_mel_bins=8, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, max_source_positions=20,
        max_target_positions=16,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, use_cache=False,
    )  # fmt: skip
    given = {"input_features": torch.randn(1, 8, 40), "decoder_input_ids": torch.tensor([[1, 5, 9]])}
    return WhisperModel(config).eval(), (), given
