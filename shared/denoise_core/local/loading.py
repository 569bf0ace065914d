"""A model and its tokenizer by name, path or object; whole, or only its first blocks.

Never runs code that comes with a model, and never reads pickled weights.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from denoise_core.errors import InputError
from denoise_core.local.fingerprint import ModelFingerprint
from denoise_core.local.gguf import resolve_model
from denoise_core.local.partial_forward import PartialForward, get_partial_forward
from denoise_core.runtime.caches import SingleLoadCache

_model_cache: SingleLoadCache[nn.Module] = (
    SingleLoadCache()
)  # by name and by how, for as long as somebody uses one
_SAMPLED_VALUES = 512  # values of each tensor that go into the weights' fingerprint


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a model given by name or path is loaded; of no effect for one given as an object.

    ``dtype`` is a torch name such as "bfloat16", or "auto" for that of the files. ``device`` is "cpu",
    "cuda", "cuda:1" ...; None takes CUDA where there is some. ``attention`` is transformers'
    ``attn_implementation``.
    """

    revision: str | None = None
    dtype: str = "auto"
    device: str | None = None
    attention: str | None = None

    def resolved_device(self) -> str:
        """``device``, or CUDA if there is one, else the CPU."""
        return self.device or ("cuda" if torch.cuda.is_available() else "cpu")


def truncate_config(config: Any, layers: int) -> int:
    """Cut a configuration in place to ``layers`` blocks; returns how many it had."""
    text_config = config.get_text_config()
    full_count = int(text_config.num_hidden_layers)
    if not 1 <= layers <= full_count:
        raise InputError(
            f"layers={layers}: this model has {full_count} blocks, so 1 to {full_count}"
        )
    for name, value in list(vars(text_config).items()):
        # layer_types, mlp_layer_types, no_rope_layers and the like hold one entry for each block.
        is_list = isinstance(value, list | tuple) and name != "architectures"
        if is_list and len(value) == full_count:
            setattr(text_config, name, value[:layers])
    text_config.num_hidden_layers = layers
    if getattr(text_config, "max_window_layers", None) is not None:
        text_config.max_window_layers = min(text_config.max_window_layers, layers)
    return full_count


def load_model(
    name: str | Path,
    *,
    load: LoadOptions | None = None,
    has_lm_head: bool = False,
    layers: int | None = None,
) -> nn.Module:
    """A model in eval mode: the base model, or with ``has_lm_head`` the one with its language head.

    With ``layers`` only its first so many blocks; the others are never read. Safetensors files are mapped, so the
    memory used is that of these blocks and the embeddings. Such a model is not for saving or generating: its last
    blocks are missing. Raises `InputError` when the model cannot be cut (weights packed for all layers together).
    A GGUF file is dequantised first (`local.gguf`).
    """
    import transformers

    load = load or LoadOptions()
    folder_or_name = resolve_model(name)
    check_model_folder(folder_or_name)
    options: dict[str, Any] = {
        "dtype": load.dtype,
        "revision": load.revision,
        "use_safetensors": True,
    }
    if load.attention is not None:
        options["attn_implementation"] = load.attention
    if layers is not None:
        options["config"] = _load_config(name, load)
        truncate_config(options["config"], layers)
    auto_class = (
        transformers.AutoModelForCausalLM if has_lm_head else transformers.AutoModel
    )
    try:
        # Unset, transformers asks on the terminal, where `yes |` answers.
        with _quiet_load_report():
            model: nn.Module = auto_class.from_pretrained(
                folder_or_name, trust_remote_code=False, **options
            )
    except RuntimeError as error:
        if layers is None:
            raise
        raise InputError(
            f"{name} cannot be loaded in part: {error}; load it whole, it will still be read only up to the layer"
        ) from error
    except (OSError, ValueError) as error:
        raise InputError(f"cannot load the model {str(name)!r}: {error}") from error
    return model.eval().to(load.resolved_device())  # pyright: ignore


def check_model_folder(name: str | Path) -> None:
    """Raises `InputError` for a folder or a file that holds no model; a name on the hub passes."""
    folder = Path(name)
    if folder.is_file():
        raise InputError(
            f"{folder} is a file: expected a model's folder, or its name on the hub"
        )
    if not folder.is_dir():
        return
    has_weights = any(folder.glob("*.safetensors"))
    if not has_weights or not (folder / "config.json").is_file():
        raise InputError(
            f"{folder} holds no model: expected config.json and weights as *.safetensors, as "
            "save_pretrained writes them"
        )


@contextlib.contextmanager
def _quiet_load_report() -> Iterator[None]:
    """Without transformers' table of weights that it left out: leaving them out is what was asked for.

    Missing weights are still reported, since the model would be random there.
    """
    report_log = logging.getLogger("transformers.modeling_utils")

    def has_problem(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        problems = ("MISSING", "MISMATCH", "CONVERSION")
        return "UNEXPECTED" not in text or any(word in text for word in problems)

    report_log.addFilter(has_problem)
    try:
        yield
    finally:
        report_log.removeFilter(has_problem)


def _load_config(name: str | Path, load: LoadOptions) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(
            resolve_model(name), revision=load.revision, trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        raise InputError(f"cannot load the model {str(name)!r}: {error}") from error


def shared_model(
    name: str | Path,
    *,
    load: LoadOptions | None = None,
    has_lm_head: bool = False,
    layers: int | None = None,
) -> nn.Module:
    """As `load_model`; in memory once, however many threads ask.

    For reading and generating: code that changes a model in place loads its copy with `load_model`. A folder
    whose files have changed is another model.
    """
    load = load or LoadOptions()
    stamp = _folder_stamp(resolve_model(name))
    key = (str(name), stamp, load, load.resolved_device(), has_lm_head, layers)
    return _model_cache(
        key,
        lambda: load_model(name, load=load, has_lm_head=has_lm_head, layers=layers),
    )


def _folder_stamp(name: str | Path) -> tuple[tuple[str, int, int], ...]:
    """Name, size and mtime of each file of a folder, to notice changed files; () for a name."""
    folder = Path(name)
    if not folder.is_dir():
        return ()
    stamps = []
    for file_path in sorted(folder.iterdir()):
        if file_path.is_file():
            file_stat = file_path.stat()
            stamps.append((file_path.name, file_stat.st_size, file_stat.st_mtime_ns))
    return tuple(stamps)


def load_tokenizer(name: str | Path, *, revision: str | None = None) -> Any:
    """The tokenizer of a model by name, folder or GGUF file. Raises `InputError` when there is none."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(
            resolve_model(name), revision=revision, trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        raise InputError(
            f"no tokenizer was found for {str(name)!r}: pass tokenizer=..., by name, path or object ({error})"
        ) from error


@dataclass(frozen=True, slots=True)
class Backbone:
    """A loaded model ready to be read: the object itself, its layers, its tokenizer, where it came from."""

    model: nn.Module
    partial_forward: PartialForward
    tokenizer: Any
    name: str
    revision: str | None
    block_count: int  # blocks of the whole model, also when only some are loaded

    def fingerprint(self, layer: int) -> ModelFingerprint:
        """What identifies the states at ``layer``; reads a sample of every tensor below it."""
        return ModelFingerprint(
            name=self.name,
            architecture=str(self.partial_forward.config.model_type),
            hidden_size=self.partial_forward.hidden_size,
            dtype=self.partial_forward.dtype,
            weights=_weights_hash(self.partial_forward.parameters_below(layer)),
            tokenizer=tokenizer_hash(self.tokenizer),
            revision=self.revision,
            layers=self.block_count,
        )


def open_backbone(
    model: Any, tokenizer: Any, load: LoadOptions, layers: int | None = None
) -> Backbone:
    """`shared_model` by name or path (only ``layers`` blocks, if given), or the object as it is.

    Raises `InputError` when no tokenizer is given and none can be found.
    """
    full_count = None
    if isinstance(model, str | Path):
        name = str(model)
        loaded_model = shared_model(model, load=load, layers=layers)
        if layers is not None:
            full_count = truncate_config(_load_config(model, load), layers)
    else:
        loaded_model = model
        name = str(getattr(model, "name_or_path", "") or type(model).__name__)
    partial_forward = get_partial_forward(loaded_model)
    partial_forward.check_readable()
    if tokenizer is None or isinstance(tokenizer, str | Path):
        tokenizer = load_tokenizer(tokenizer or name, revision=load.revision)
    revision = load.revision or getattr(loaded_model.config, "_commit_hash", None)
    return Backbone(
        loaded_model,
        partial_forward,
        tokenizer,
        name,
        revision,
        full_count or partial_forward.block_count,
    )


def _weights_hash(parameters: Iterable[tuple[str, torch.Tensor]]) -> str:
    """sha256 over name, shape and up to `_SAMPLED_VALUES` evenly spaced values of each tensor."""
    digest = hashlib.sha256()
    for name, tensor in sorted(parameters, key=lambda named_tensor: named_tensor[0]):
        digest.update(f"{name}{tuple(tensor.shape)}".encode())
        if tensor.device.type != "meta":
            flat_values = tensor.detach().reshape(-1)
            sample_step = max(1, -(-flat_values.numel() // _SAMPLED_VALUES))
            digest.update(
                flat_values[::sample_step].to("cpu", torch.float32).numpy().tobytes()
            )
    return digest.hexdigest()


def tokenizer_hash(tokenizer: Any) -> str:
    """sha256 of a tokenizer's definition, apart from padding and truncation, which are settings of a call."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        definition = {
            "vocabulary": tokenizer.get_vocab(),
            "class": type(tokenizer).__name__,
        }
    else:
        definition = json.loads(backend.to_str())
        definition.pop("padding", None)
        definition.pop("truncation", None)
    return hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()
