"""Makes the arguments of a language model from a text, by the tokenizer in the model's folder.

The tokenizer is read from files (`tokenizer.json` and others that hold no code); code of the repository is never run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

from mindgap.sources.libraries import import_library, silence_output, stay_offline
from mindgap.sources.source import Source, SourceError, one_line, parse
from mindgap.sources.type_guards import is_table
from mindgap_zoo.hubs.hugging_face_folder import HubModel, located

#: One of these is in a folder with a tokenizer.
_FILES: Final = (
    "tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.json", "vocab.txt",
    "tekken.json", "tiktoken.model",
)  # fmt: skip
#: Names that configurations give the number of positions.
_POSITIONS: Final = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
#: Of a model whose configuration names no number.
_ANY_LENGTH: Final = 1 << 20


def encoded_text(source: Source, model: HubModel, config: Any, text: str) -> Mapping[str, torch.Tensor]:
    """Returns what the folder's tokenizer makes of a text: int64 tensors of shape (1, tokens), `input_ids` among them.

    Raises `SourceError` for a folder without a tokenizer, one that cannot be read, and a text that has no tokens, more
    tokens than the model has positions, or tokens that the model does not have.
    """
    tokenizer = _tokenizer(source, model, "--text: ", ", or give tokens by --inputs FILE.npz")
    try:
        encoded: dict[str, Any] = dict(tokenizer(text, return_tensors="pt"))
    except Exception as error:
        raise SourceError(f"{source.target}: --text: its tokenizer cannot be used ({one_line(error)})") from error
    tokens = encoded.get("input_ids")
    if not isinstance(tokens, torch.Tensor) or tokens.dim() != 2 or not tokens.numel():
        raise SourceError(f"{source.target}: --text {text!r}: the tokenizer makes no tokens of it")
    table = config.get_text_config()
    positions = _positions(table.to_dict())
    if positions is not None and tokens.shape[1] > positions:
        raise SourceError(f"{source.target}: --text: {tokens.shape[1]} tokens, and the model has {positions} positions")
    words, largest = getattr(table, "vocab_size", None), int(tokens.max())
    if isinstance(words, int) and largest >= words:
        raise SourceError(
            f"{source.target}: --text: the tokenizer gives token {largest}, and the model has {words}: they are not of "
            "one model"
        )
    return {name: value for name, value in encoded.items() if isinstance(value, torch.Tensor)}


def tokenizer_of(text: str) -> tuple[Any, int]:
    """Returns the tokenizer in the folder of a source, and how many tokens its model takes. Raises `SourceError`."""
    source = parse(text)
    if source.scheme != "hub":
        raise SourceError(f"{text}: name a folder of Hugging Face, as in hub:FOLDER")
    stay_offline()
    model, *_ = located(source)
    inner: Any = model.config.get("text_config")
    return _tokenizer(source, model), _positions(inner if is_table(inner) else model.config) or _ANY_LENGTH


def _positions(config: Mapping[str, Any]) -> int | None:
    return next((n for name in _POSITIONS if isinstance(n := config.get(name), int) and n > 0), None)


def _tokenizer(source: Source, model: HubModel, option: str = "", instead: str = "") -> Any:
    if not any((model.folder / name).is_file() for name in _FILES):
        raise SourceError(
            f"{source.target}: {option}the folder has no tokenizer ({_FILES[0]}); save one there "
            f"(tokenizer.save_pretrained){instead}"
        )
    with silence_output():
        library = import_library("transformers", f"{model.source}: transformers", "transformers")
        try:
            tokenizers: Any = library.AutoTokenizer
            return tokenizers.from_pretrained(str(model.folder), local_files_only=True, trust_remote_code=False)
        except Exception as error:
            raise SourceError(f"{source.target}: {option}its tokenizer cannot be used ({one_line(error)})") from error


def with_text(source: Source, given: Mapping[str, Any], tokens: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Returns a model's arguments with those of the tokenizer in the place of drawn ones of the same name.

    Raises `SourceError` for a model that takes no `input_ids`.
    """
    if "input_ids" not in given:
        raise SourceError(f"{source.target}: --text: the model takes {', '.join(given)} and no input_ids")
    return {name: tokens.get(name, value) for name, value in given.items()}
