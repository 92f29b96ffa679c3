"""Quantised modules: torchao's configurations, pt2e, and the dynamic and static forms of torch.ao."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torchao.quantization import (
    Float8WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    PerGroup,
    quantize_,
)


class Net(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return self.down(F.relu(self.up(x)))


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = torch.ao.quantization.QuantStub(), torch.ao.quantization.DeQuantStub()
        self.conv, self.relu, self.head = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Linear(8 * 36, 4)

    def forward(self, images):
        x = self.relu(self.conv(self.quant(images)))
        return self.dequant(self.head(x.flatten(1)))


def net(dtype=torch.float32):
    torch.manual_seed(0)
    return Net().eval().to(dtype)


def rows(dtype=torch.float32):
    return (torch.randn(4, 64, generator=torch.Generator().manual_seed(1)).to(dtype),)


def int8_weights():
    model = net()
    quantize_(model, Int8WeightOnlyConfig())
    return model, rows()


def int8_dynamic():
    model = net()
    quantize_(model, Int8DynamicActivationInt8WeightConfig())
    return model, rows()


def int4_weights():
    model = net()
    quantize_(model, IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)))
    return model, rows()


def float8_weights():
    model = net()
    quantize_(model, Float8WeightOnlyConfig())
    return model, rows()


def pt2e_static():
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
        X86InductorQuantizer,
        get_default_x86_inductor_quantization_config,
    )

    args = rows()
    quantizer = X86InductorQuantizer().set_global(get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(torch.export.export(net(), args).module(), quantizer)
    prepared(*args)
    return convert_pt2e(prepared), args


def torch_dynamic():
    return torch.ao.quantization.quantize_dynamic(net(), {nn.Linear}, dtype=torch.qint8), rows()


class Sequences(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


def torch_dynamic_recurrent():
    torch.manual_seed(0)
    return torch.ao.quantization.quantize_dynamic(Sequences().eval(), {nn.LSTM, nn.Linear}), (torch.randn(2, 5, 4),)


def torch_static():
    torch.manual_seed(0)
    model, images = Pictures().eval(), torch.rand(2, 3, 8, 8)
    model.qconfig = torch.ao.quantization.get_default_qconfig("x86")
    model = torch.ao.quantization.fuse_modules(model, [["conv", "relu"]])
    prepared = torch.ao.quantization.prepare(model)
    prepared(images)
    return torch.ao.quantization.convert(prepared), (images,)


def fake_quantised():
    """A net in quantisation-aware training, set to evaluation, its ranges held."""
    model = copy.deepcopy(net())
    model.train()
    model.qconfig = torch.ao.quantization.get_default_qat_qconfig("x86")
    prepared = torch.ao.quantization.prepare_qat(model)
    prepared(*rows())
    prepared.apply(torch.ao.quantization.disable_observer)
    return prepared.eval(), rows()


class Written(nn.Module):
    """Scales and rounding written out, as papers do."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 16))

    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True) / 127
        whole = (x / scale).round().clamp(-128, 127)
        weight_scale = self.weight.abs().amax(-1, keepdim=True) / 7
        weight = (self.weight / weight_scale).round().clamp(-8, 7)
        return (whole @ weight.T) * scale * weight_scale.T


def written_out():
    torch.manual_seed(0)
    return Written(), (torch.randn(3, 16),)
