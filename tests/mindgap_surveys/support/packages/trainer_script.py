"""A fine-tuning script in the style of the Trainer's examples, with NumPy metrics."""

import argparse
import json
import os

import numpy as np
import pandas as pd
import torch
from datasets import load_dataset
from sklearn.metrics import f1_score
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments


def compute_metrics(eval_pred):
    logits, labels = eval_pred
    shifted = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
    probs = shifted / np.sum(shifted, axis=-1, keepdims=True)
    predictions = np.argmax(probs, axis=1)
    order = np.array(labels).argsort()
    top = np.sort(np.unique(predictions[order]))
    return {"f1": f1_score(labels, predictions), "acc": np.mean(predictions == labels), "kinds": top.cumsum().tolist()}


class WeightedTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0]))(outputs.logits.view(-1, 2), labels.view(-1))
        self.log({"entropy": -(outputs.logits.softmax(-1) * outputs.logits.log_softmax(-1)).sum(-1).mean().item()})
        return (loss, outputs) if return_outputs else loss


def mean_pooling(output, attention_mask):
    mask = attention_mask.unsqueeze(-1).expand(output.last_hidden_state.size()).float()
    return torch.sum(output.last_hidden_state * mask, 1) / torch.clamp(mask.sum(1), min=1e-9)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="distilbert")
    args = parser.parse_args()
    frame = pd.DataFrame(json.load(open("rows.json")))
    print(frame.groupby("label").diff().cumsum(), frame.sort_values("label").index.isin([1]))
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForSequenceClassification.from_pretrained(args.model, num_labels=2)
    dataset = load_dataset("csv", data_files=os.path.join("data", "a.csv")).map(lambda rows: tokenizer(rows["text"]))
    trainer = WeightedTrainer(
        model, TrainingArguments("out"), train_dataset=dataset["train"], compute_metrics=compute_metrics
    )
    trainer.train()
    embeddings = torch.nn.functional.normalize(mean_pooling(model.base_model(), torch.ones(1, 4)), p=2, dim=1)
    print(torch.mm(embeddings, embeddings.t()))
