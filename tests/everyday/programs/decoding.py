"""From logits to tokens: filters, draws with a generator, greedy loops, beams, alignments."""

import torch
from torch import nn


def logits(rows=3, columns=20):
    torch.manual_seed(0)
    return torch.randn(rows, columns) * 3


class TopK(nn.Module):
    def forward(self, logits):
        kept = logits.topk(5).values[..., -1:]
        return torch.softmax(logits.masked_fill(logits < kept, float("-inf")) / 0.7, -1)


class TopP(nn.Module):
    def forward(self, logits):
        ordered, order = logits.sort(descending=True)
        total = ordered.softmax(-1).cumsum(-1)
        drop = total - ordered.softmax(-1) > 0.8
        return logits.masked_fill(drop.scatter(-1, order, drop), -torch.inf).softmax(-1)


class RepetitionPenalty(nn.Module):
    def forward(self, logits, tokens):
        seen = logits.gather(-1, tokens)
        return logits.scatter(-1, tokens, torch.where(seen < 0, seen * 1.3, seen / 1.3))


class Drawn(nn.Module):
    """Draws with a generator that is seeded in every call."""

    def forward(self, logits):
        generator = torch.Generator().manual_seed(7)
        return torch.multinomial(logits.softmax(-1), 2, replacement=True, generator=generator)


class DrawnByNoise(nn.Module):
    """Draws by the largest sum of logit and given noise."""

    def forward(self, logits, uniform):
        return (logits - (-uniform.log()).log()).argmax(-1)


class Greedy(nn.Module):
    """Four tokens, each the largest logit after those before."""

    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(20, 8), nn.Linear(8, 20)

    def forward(self, tokens):
        for _ in range(4):
            state = self.embedding(tokens).mean(1)
            tokens = torch.cat([tokens, self.out(state).argmax(-1, keepdim=True)], 1)
        return tokens


class BeamStep(nn.Module):
    def forward(self, scores, logits):
        total = scores[..., None] + logits.log_softmax(-1)
        best, flat = total.flatten(1).topk(3)
        return best, flat // logits.shape[-1], flat % logits.shape[-1]


class Viterbi(nn.Module):
    def __init__(self):
        super().__init__()
        self.moves = nn.Parameter(torch.randn(4, 4))

    def forward(self, emissions):
        score, back = emissions[:, 0], []
        for n in range(1, emissions.shape[1]):
            best, where = (score[:, :, None] + self.moves).max(1)
            score = best + emissions[:, n]
            back.append(where)
        tags = [score.argmax(-1)]
        for where in reversed(back):
            tags.append(where.gather(-1, tags[-1][:, None])[:, 0])
        return torch.stack(tags[::-1], 1), score


def top_k():
    return TopK(), (logits(),)


def top_p():
    return TopP(), (logits(),)


def repetition_penalty():
    return RepetitionPenalty(), (logits(), torch.tensor([[1, 4, 4], [0, 2, 7], [9, 8, 3]]))


def draw_with_a_generator():
    return Drawn(), (logits(),)


def draw_by_noise():
    return DrawnByNoise(), (logits(), torch.rand(3, 20).clamp(1e-6, 1 - 1e-6))


def greedy_loop():
    torch.manual_seed(0)
    return Greedy().eval(), (torch.tensor([[1, 5], [7, 2]]),)


def beam_step():
    return BeamStep(), (torch.tensor([[0.0, -1.5, -2.25]]), logits(3, 12)[None])


def viterbi():
    torch.manual_seed(0)
    return Viterbi(), (torch.randn(2, 6, 4),)
