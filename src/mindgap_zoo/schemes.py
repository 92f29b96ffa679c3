"""The schemes of sources that this package opens. Modules of openers are imported when a source is opened."""

from __future__ import annotations

from typing import Final

from mindgap.models.corpus.source import IMAGE_OPTIONS, MODEL_OPTIONS, TEXT_OPTIONS, Scheme

_ZOOS: Final = "mindgap_zoo.zoos"
_SAMPLES: Final = "mindgap_zoo.operator_samples"
_RECORDS: Final = "mindgap_zoo.records"

TIMM: Final = Scheme("NAME", f"{_ZOOS}.timm_models:open_timm", IMAGE_OPTIONS, listed=True)
TORCHVISION: Final = Scheme("NAME", f"{_ZOOS}.torchvision_models:open_torchvision", IMAGE_OPTIONS, listed=True)
TRANSFORMERS: Final = Scheme(
    "CLASS or MODEL_TYPE", "mindgap.models.corpus.argument_makers.transformers_models:open_transformers", TEXT_OPTIONS,
    listed=True,
)  # fmt: skip
DIFFUSERS: Final = Scheme("CLASS", f"{_ZOOS}.diffusers.models:open_diffusers", TEXT_OPTIONS, listed=True)
OPEN_CLIP: Final = Scheme("NAME", f"{_ZOOS}.open_clip_models:open_open_clip", IMAGE_OPTIONS, listed=True)
PYG: Final = Scheme("CLASS", f"{_ZOOS}.pyg.models:open_pyg", MODEL_OPTIONS, listed=True)
PYTORCHCV: Final = Scheme("NAME", f"{_ZOOS}.pytorchcv_models:open_pytorchcv", IMAGE_OPTIONS, listed=True)
OPS: Final = Scheme(
    "OPERATOR or OPERATOR#SAMPLE", f"{_SAMPLES}.operators:open_operators", ("seed", "dtype"), listed=True
)
MODULES: Final = Scheme("MODULE or MODULE#SAMPLE", f"{_SAMPLES}.modules:open_modules", MODEL_OPTIONS, listed=True)
RECORDS: Final = Scheme("FILE.parquet#ID", f"{_RECORDS}.parquet:open_records", ("seed", "dtype"))
GRAPHNET: Final = Scheme("DIR", f"{_RECORDS}.graphnet_folder:open_graphnet", ("seed", "dtype"))
