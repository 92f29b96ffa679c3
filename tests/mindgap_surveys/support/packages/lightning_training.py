"""A training script in the style of Lightning's examples, with Weights & Biases."""

import os

import lightning as L
import torch
import torchmetrics
import wandb
from lightning.pytorch.loggers import WandbLogger
from torch import nn, optim
from torch.utils.data import DataLoader, random_split
from torch.utils.tensorboard import SummaryWriter
from torchvision import transforms
from torchvision.datasets import MNIST


class Classifier(L.LightningModule):
    def __init__(self, lr: float = 1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.model = nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))
        self.accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=10)

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self.model(x)
        loss = nn.functional.cross_entropy(logits, y, label_smoothing=0.1)
        self.log("train_loss", loss, prog_bar=True)
        self.logger.experiment.log({"logits": wandb.Histogram(logits.detach().cpu())})
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        pred = torch.argmax(self.model(x), dim=1)
        self.log_dict({"acc": self.accuracy(pred, y), "share": (pred == y).float().mean()})
        wandb.log({"errors": torch.ne(pred, y).sum()})

    def configure_optimizers(self):
        optimizer = optim.Adam(self.parameters(), lr=self.hparams.lr)
        return [optimizer], [optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)]


def main():
    run = wandb.init(project="digits")
    writer = SummaryWriter(os.path.join("runs", "one"))
    data = MNIST(os.getcwd(), transform=transforms.ToTensor())
    train, held_out = random_split(data, [55000, 5000], generator=torch.Generator().manual_seed(0))
    trainer = L.Trainer(max_epochs=1, logger=WandbLogger(), precision="16-mixed")
    model = Classifier()
    trainer.fit(model, DataLoader(train, batch_size=64), DataLoader(held_out))
    run.log({"done": 1})
    writer.add_scalar("done", 1)
    model.half().eval()
