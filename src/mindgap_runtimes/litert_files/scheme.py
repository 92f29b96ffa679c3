"""The scheme of LiteRT files as sources."""

from typing import Final

from mindgap.sources import Scheme

SCHEME: Final = Scheme("FILE.tflite", "mindgap_runtimes.litert_files.file:open_tflite_file", ("seed",))
