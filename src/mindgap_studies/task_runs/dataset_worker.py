"""Reads a dataset in a worker process: a service of `mindgap.run.server`.

Messages:

parent → worker   open    a dataset, the forms of the model's inputs, mean and standard deviation of pixels
                  read    a number and a count: the examples from there on
worker → parent   opened  the task, the number of examples where known, names of classes
                  read    for each example its number, labels and boxes, or why it cannot be read; `ended`; the inputs,
                          stacked, of those that can
                  failed  as of `source_worker.worker`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mindgap.run.server import Answer, Channel, Service
from mindgap.source_worker.preprocessing import preprocessing_from
from mindgap.source_worker.worker import answering
from mindgap_studies.task_runs.datasets import Dataset, DatasetExample, EndOfDataset, open_dataset, read_example
from mindgap_studies.task_runs.images import InputForm, Pixels, UnreadableExample


def dataset_service(_: Channel) -> Service:
    reader = _Reader()
    return Service({"open": answering(reader.open), "read": answering(reader.read)})


class _Reader:
    def __init__(self) -> None:
        self._dataset: Dataset | None = None

    def open(self, header: Mapping[str, Any]) -> Answer:
        forms = [InputForm(name, tuple(shape), dtype) for name, shape, dtype in header["forms"]]
        own = header["own"] and preprocessing_from(header["own"])
        pixels = Pixels(tuple(header["mean"]), tuple(header["std"]), own)
        dataset = self._dataset = open_dataset(header["dataset"], forms, pixels, header["classes"])
        about = {"task": dataset.task, "count": dataset.count, "classes": list(dataset.classes)}
        return {"kind": "opened", **about, "images": dataset.images}, ()

    def read(self, header: Mapping[str, Any]) -> Answer:
        assert self._dataset is not None, "it was opened before"
        good: list[DatasetExample] = []
        facts: list[dict[str, Any]] = []
        ended = False
        for number in range(header["start"], header["start"] + header["count"]):
            try:
                example = read_example(self._dataset, number)
            except EndOfDataset:
                ended = True
                break
            except UnreadableExample as error:
                facts.append({"number": number, "problem": str(error)})
                continue
            good.append(example)
            facts.append({"number": number, "labels": example.labels, "boxes": example.boxes})
        inputs = [np.stack(arrays) for arrays in zip(*(each.inputs for each in good), strict=True)]
        return {"kind": "read", "facts": facts, "ended": ended}, inputs
