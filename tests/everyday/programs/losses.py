"""Losses as outputs: what people compare when a training loss differs between machines."""

import torch
import torch.nn.functional as F
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel


class Classified(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(6, 5)

    def forward(self, x, labels):
        logits = self.net(x)
        return F.cross_entropy(logits, labels, ignore_index=-100, label_smoothing=0.1), logits


class Aligned(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(6, 8)

    def forward(self, x, targets, lengths, target_lengths):
        return F.ctc_loss(self.net(x).log_softmax(-1), targets, lengths, target_lengths, zero_infinity=True)


class Labelled(nn.Module):
    def forward(self, logits, labels):
        return F.binary_cross_entropy_with_logits(logits, labels, pos_weight=torch.tensor([1.0, 3.0, 0.5]))


class Contrasted(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.6592))

    def forward(self, images, texts):
        images, texts = F.normalize(images, dim=-1), F.normalize(texts, dim=-1)
        logits = self.scale.exp() * images @ texts.T
        target = torch.arange(images.shape[0])
        return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2


class Segmented(nn.Module):
    """Focal and dice losses of masks."""

    def forward(self, logits, masks):
        p = logits.sigmoid()
        entropy = F.binary_cross_entropy_with_logits(logits, masks, reduction="none")
        right = p * masks + (1 - p) * (1 - masks)
        focal = ((0.25 * masks + 0.75 * (1 - masks)) * (1 - right) ** 2 * entropy).mean()
        dice = 1 - (2 * (p * masks).sum((1, 2)) + 1) / (p.sum((1, 2)) + masks.sum((1, 2)) + 1)
        return focal, dice.mean()


class Distilled(nn.Module):
    def forward(self, student, teacher):
        soft = F.kl_div(
            (student / 2).log_softmax(-1), (teacher / 2).log_softmax(-1), reduction="batchmean", log_target=True
        )
        return 4 * soft, F.smooth_l1_loss(student, teacher, beta=0.5), F.cosine_similarity(student, teacher).mean()


class Ranked(nn.Module):
    def forward(self, anchor, near, far):
        margin = F.triplet_margin_loss(anchor, near, far, margin=0.5)
        return margin, F.margin_ranking_loss(
            anchor.sum(-1), far.sum(-1), torch.tensor([1.0, -1.0, 1.0, 1.0]), margin=0.1
        )


def cross_entropy():
    torch.manual_seed(0)
    return Classified(), (torch.randn(4, 6), torch.tensor([1, -100, 4, 0]))


def ctc():
    torch.manual_seed(0)
    targets = torch.randint(1, 8, (2, 4))
    return Aligned(), (torch.randn(10, 2, 6), targets, torch.tensor([10, 8]), torch.tensor([4, 3]))


def weighted_labels():
    torch.manual_seed(0)
    return Labelled(), (torch.randn(4, 3) * 3, torch.randint(0, 2, (4, 3)).float())


def contrastive():
    torch.manual_seed(0)
    return Contrasted(), (torch.randn(5, 8), torch.randn(5, 8))


def focal_and_dice():
    torch.manual_seed(0)
    return Segmented(), (torch.randn(2, 6, 6) * 2, torch.randint(0, 2, (2, 6, 6)).float())


def distillation():
    torch.manual_seed(0)
    return Distilled(), (torch.randn(4, 6), torch.randn(4, 6))


def ranking():
    torch.manual_seed(0)
    return Ranked(), (torch.randn(4, 6), torch.randn(4, 6), torch.randn(4, 6))


def language_model_with_labels():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=40, n_positions=16, n_embd=16, n_layer=1, n_head=2, use_cache=False)
    tokens = torch.randint(0, 40, (2, 6))
    return GPT2LMHeadModel(config).eval(), (), {"input_ids": tokens, "labels": tokens.clone()}
