"""Programs of statistics, physics and geometry."""

import torch
from torch import nn
from torch.nn import functional as F


class Coupling(nn.Module):
    def __init__(self, width, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(width // 2, 16), nn.Tanh(), nn.Linear(16, width))

    def forward(self, x):
        a, b = x.chunk(2, -1)
        if self.flip:
            a, b = b, a
        scale, shift = self.net(a).chunk(2, -1)
        scale = scale.tanh()
        b = b * scale.exp() + shift
        return torch.cat([b, a] if self.flip else [a, b], -1), scale.sum(-1)


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Coupling(4, n % 2 == 1) for n in range(4))

    def forward(self, x):
        log_det = x.new_zeros(x.shape[0])
        for layer in self.layers:
            x, each = layer(x)
            log_det = log_det + each
        return torch.distributions.Normal(0.0, 1.0).log_prob(x).sum(-1) + log_det


class GaussianMixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.means, self.logits, self.log_scale = (
            nn.Parameter(torch.randn(3, 2)),
            nn.Parameter(torch.randn(3)),
            nn.Parameter(torch.zeros(3, 2)),
        )

    def forward(self, x):
        parts = torch.distributions.Independent(torch.distributions.Normal(self.means, self.log_scale.exp()), 1)
        mixture = torch.distributions.MixtureSameFamily(torch.distributions.Categorical(logits=self.logits), parts)
        return mixture.log_prob(x)


class Kalman(nn.Module):
    """One step of a Kalman filter."""

    def __init__(self):
        super().__init__()
        self.register_buffer("f", torch.tensor([[1.0, 0.1], [0.0, 1.0]]))
        self.register_buffer("h", torch.tensor([[1.0, 0.0]]))
        self.log_q, self.log_r = nn.Parameter(torch.tensor(-2.0)), nn.Parameter(torch.tensor(-1.0))

    def forward(self, x, p, z):
        x, p = self.f @ x, self.f @ p @ self.f.T + self.log_q.exp() * torch.eye(2)
        gain = p @ self.h.T @ torch.inverse(self.h @ p @ self.h.T + self.log_r.exp() * torch.eye(1))
        return x + gain @ (z - self.h @ x), (torch.eye(2) - gain @ self.h) @ p


class Geometry(nn.Module):
    """Quaternions to matrices, points transformed and projected."""

    def forward(self, quaternion, translation, points, focal: float):
        w, x, y, z = F.normalize(quaternion, dim=-1).unbind(-1)
        rotation = torch.stack(
            [
                1 - 2 * (y * y + z * z),
                2 * (x * y - z * w),
                2 * (x * z + y * w),
                2 * (x * y + z * w),
                1 - 2 * (x * x + z * z),
                2 * (y * z - x * w),
                2 * (x * z - y * w),
                2 * (y * z + x * w),
                1 - 2 * (x * x + y * y),
            ],
            -1,
        ).view(*w.shape, 3, 3)
        moved = points @ rotation.mT + translation[:, None]
        depth = moved[..., 2:].abs().clamp(min=0.1)
        normal = torch.linalg.cross(moved[:, 1] - moved[:, 0], moved[:, 2] - moved[:, 0])
        return (
            moved[..., :2] / depth * focal,
            torch.atan2(moved[..., 0], moved[..., 1]),
            normal,
            torch.linalg.det(rotation),
        )


class Ensemble(nn.Module):
    """Stacked members of an ensemble, called by functional_call and vmap."""

    def __init__(self):
        super().__init__()
        members = [nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)) for _ in range(3)]
        params, _ = torch.func.stack_module_state(members)
        self.names = list(params)
        self.params = nn.ParameterList(params.values())
        self.base = [nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)).to("meta")]

    def forward(self, x):
        params = dict(zip(self.names, self.params))
        outs = torch.vmap(lambda p, t: torch.func.functional_call(self.base[0], p, (t,)), in_dims=(0, None))(params, x)
        return outs.mean(0), outs.var(0)


class Energy(nn.Module):
    """Forces as the negative gradient of an energy, by autograd within forward."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, positions):
        with torch.enable_grad():
            positions = positions.detach().requires_grad_(True)
            distances = (positions[:, None] - positions[None]).square().sum(-1, keepdim=True)
            energy = self.net(distances).sum()
            (gradient,) = torch.autograd.grad(energy, positions)
        return energy.detach(), -gradient


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 32, 1), nn.BatchNorm1d(32), nn.ReLU()
        )
        self.head = nn.Linear(32, 5)

    def forward(self, points):
        distances = torch.cdist(points, points)
        near = distances.topk(4, largest=False).indices
        neighbours = torch.gather(
            points.unsqueeze(1).expand(-1, points.shape[1], -1, -1), 2, near.unsqueeze(-1).expand(-1, -1, -1, 3)
        )
        local = (neighbours - points.unsqueeze(2)).norm(dim=-1).mean(-1)
        features = self.mlp(points.transpose(1, 2))
        return self.head(features.amax(-1)), local


class Nerf(nn.Module):
    def __init__(self, frequencies=4):
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(frequencies) * torch.pi, persistent=False)
        self.net = nn.Sequential(nn.Linear(3 * 2 * frequencies, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, origins, directions, near=0.5, far=2.0, count=8):
        t = torch.linspace(near, far, count)
        points = origins[:, None] + directions[:, None] * t[None, :, None]
        angles = (points[..., None] * self.bands).flatten(-2)
        raw = self.net(torch.cat([angles.sin(), angles.cos()], -1))
        alpha = 1 - torch.exp(-F.softplus(raw[..., 3]) * (far - near) / count)
        weights = alpha * torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
        return (weights[..., None] * raw[..., :3].sigmoid()).sum(1), weights


def normalising_flow():
    torch.manual_seed(0)
    return Flow().eval(), (torch.randn(5, 4),)


def mixture_density():
    torch.manual_seed(0)
    return GaussianMixture().eval(), (torch.randn(5, 2),)


def kalman_step():
    torch.manual_seed(0)
    return Kalman().eval(), (torch.randn(2, 1), torch.eye(2), torch.randn(1, 1))


def camera_projection():
    torch.manual_seed(0)
    return Geometry(), (torch.randn(2, 4), torch.randn(2, 3), torch.randn(2, 5, 3), 1.5)


def ensemble_by_vmap():
    torch.manual_seed(0)
    return Ensemble().eval(), (torch.randn(6, 4),)


def energy_and_forces():
    torch.manual_seed(0)
    return Energy().eval(), (torch.randn(4, 3),)


def pointnet():
    torch.manual_seed(0)
    return PointNet().eval(), (torch.randn(2, 10, 3),)


def nerf_rays():
    torch.manual_seed(0)
    return Nerf().eval(), (torch.randn(3, 3), F.normalize(torch.randn(3, 3), dim=-1)), {"count": 6}
