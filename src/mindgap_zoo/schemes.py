"""The schemes of sources that this package opens. Modules of openers are imported when a source is opened."""

from __future__ import annotations

from typing import Final

from mindgap.sources.source import IMAGE_OPTIONS, MODEL_OPTIONS, TEXT_OPTIONS, Scheme

TIMM: Final = Scheme("NAME", "mindgap_zoo.zoos.timm_models:open_timm", IMAGE_OPTIONS, listed=True)
TORCHVISION: Final = Scheme("NAME", "mindgap_zoo.zoos.torchvision_models:open_torchvision", IMAGE_OPTIONS, listed=True)
TRANSFORMERS: Final = Scheme(
    "CLASS or MODEL_TYPE", "mindgap_zoo.argument_makers.transformers_models:open_transformers", TEXT_OPTIONS,
    listed=True,
)  # fmt: skip
DIFFUSERS: Final = Scheme("CLASS", "mindgap_zoo.zoos.diffusers.models:open_diffusers", TEXT_OPTIONS, listed=True)
OPEN_CLIP: Final = Scheme("NAME", "mindgap_zoo.zoos.open_clip_models:open_open_clip", IMAGE_OPTIONS, listed=True)
PYG: Final = Scheme("CLASS", "mindgap_zoo.zoos.pyg.models:open_pyg", MODEL_OPTIONS, listed=True)
PYTORCHCV: Final = Scheme("NAME", "mindgap_zoo.zoos.pytorchcv_models:open_pytorchcv", IMAGE_OPTIONS, listed=True)
OPS: Final = Scheme(
    "OPERATOR or OPERATOR#SAMPLE",
    "mindgap_zoo.operator_samples.operators:open_operators",
    ("seed", "dtype"),
    listed=True,
)
MODULES: Final = Scheme(
    "MODULE or MODULE#SAMPLE", "mindgap_zoo.operator_samples.modules:open_modules", MODEL_OPTIONS, listed=True
)
ONNX: Final = Scheme("CASE", "mindgap_zoo.operator_samples.conformance:open_onnx_case", ("seed",), listed=True)
HUB: Final = Scheme("OWNER/NAME or FOLDER", "mindgap_zoo.hubs.hugging_face:open_hub", (*TEXT_OPTIONS, "text"))
TORCHHUB: Final = Scheme(
    "OWNER/NAME:ENTRYPOINT or FOLDER:ENTRYPOINT", "mindgap_zoo.hubs.torch_hub:open_torchhub", IMAGE_OPTIONS
)
RECORDS: Final = Scheme("FILE.parquet#ID", "mindgap_zoo.records.parquet:open_records", ("seed", "dtype"))
GRAPHNET: Final = Scheme("DIR", "mindgap_zoo.records.graphnet_folder:open_graphnet", ("seed", "dtype"))
