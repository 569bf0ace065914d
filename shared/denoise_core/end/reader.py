"""Hidden states of passages under a question: one vector per passage, from an early layer."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.end.probe import HiddenStateSpec
from denoise_core.local.batching import build_prompts
from denoise_core.local.fingerprint import ModelFingerprint
from denoise_core.local.kv_cache.prefix_cache import PrefixCache
from denoise_core.local.layout import (
    PASSAGE,
    QUERY,
    SCQ,
    BoundLayout,
    Layout,
    TokenPrompt,
    pooling_parts,
)

if TYPE_CHECKING:
    from denoise_core.local.blocks import Norm
    from denoise_core.local.kv_cache.reuse import PrefixReuse
    from denoise_core.local.loading import Backbone, LoadOptions

R = TypeVar("R")
Floats = NDArray[np.float32]
Positions: TypeAlias = NDArray[np.intp]
StatesByLayer: TypeAlias = dict[int, Floats]
PromptBatch: TypeAlias = tuple[list[int], StatesByLayer]  # positions of prompts, states

PREFIX_BYTES = 512 << 20  # 10 thousand tokens of an 8B model's first 13 blocks


@dataclass(frozen=True, slots=True)
class LayerStates:
    """States by layer, one row per window of a text.

    Attributes:
        by_layer: float32 ``(m, d)`` each; ``m`` is more than the number of texts if
            some did not fit the model's window and were split.
        text_index: ``(m,)``, the text of each row.
    """

    by_layer: StatesByLayer
    text_index: Positions


@dataclass(frozen=True, slots=True)
class ReadingSettings:
    """How prompts become vectors. None takes the default.

    Attributes:
        layout: `SCQ`.
        pooling: "last", "mean_question" (the mean over the question's tokens) or
            "last_mean_question" (one after the other); `fit_probe` tries all.
        max_tokens: Tokens of a batch at most, padding included.
    """

    layout: Layout | None = None
    pooling: str | None = None
    max_tokens: int = 4096


class HiddenReader:
    """Reads a Hugging Face decoder, given by name, path or as an object.

    Nothing is loaded before the first use. Threads may share a reader; readers of one
    model share its lock, so that one batch runs at a time.

    Args:
        model: Name, path or loaded model.
        tokenizer: Its tokenizer, if it is not found by the model's name.
        settings: How prompts become vectors.
        load: How to load a model given by name.
        first_layers: Load only so many blocks of a model given by name.
        prefix: Caches what was computed for a passage until its next question
            (layouts with the passage first), on the model's device: 512 MiB by default,
            least recently used first out; ``PrefixCache(0)`` disables it.
    """

    default_layout = SCQ

    def __init__(
        self,
        model: Any,
        *,
        tokenizer: Any = None,
        settings: ReadingSettings | None = None,
        load: LoadOptions | None = None,
        first_layers: int | None = None,
        prefix: PrefixCache | None = None,
    ) -> None:
        self.settings = settings or ReadingSettings()
        if self.settings.pooling is not None:
            pooling_parts(self.settings.pooling)
        if prefix is None:
            prefix = PrefixCache(PREFIX_BYTES)
        self.prefix: PrefixCache = prefix
        self._model = model
        self._tokenizer = tokenizer
        self._load_options = load
        self._first_layers = first_layers
        self._opened_model: tuple[Backbone, BoundLayout] | None = None
        self._open_lock = threading.Lock()
        self._fingerprints: dict[int, ModelFingerprint] = {}
        self._prefix_reader: Any = None

    # -- what it reads -----------------------------------------------------------------

    @property
    def backbone(self) -> Backbone:
        """The loaded model; loads it on first use."""
        return self._open()[0]

    @property
    def layout(self) -> BoundLayout:
        """The prompt with its two slots as token ids; loads the tokenizer."""
        return self._open()[1]

    @property
    def layer_count(self) -> int:
        """The highest layer that can be read: the number of loaded blocks."""
        return self.backbone.partial_forward.block_count

    @property
    def pooling(self) -> str:
        """Which positions become one state: as set, else the last one."""
        return self.settings.pooling or "last"

    @property
    def norm(self) -> Norm:
        """What is done to each part of a pooled state: the model's final norm without its gain."""
        model_norm = self.backbone.partial_forward.unit_norm
        return replace(model_norm, epsilon=model_norm.epsilon or 1e-6)

    def with_pooling(self, pooling: str) -> HiddenReader:
        """A reader with another pooling that shares the model and the cache."""
        other_reader = copy.copy(self)
        other_reader.settings = replace(self.settings, pooling=pooling)
        return other_reader

    def reading(self, layer: int) -> HiddenStateSpec:
        """Everything that decides the states at ``layer``; a probe is checked with it."""
        backbone, prompt_layout = self._open()
        backbone.partial_forward.check_layer(layer)
        if layer not in self._fingerprints:
            with backbone.partial_forward.lock:
                self._fingerprints[layer] = backbone.fingerprint(layer)
        model_fingerprint = self._fingerprints[layer]
        return HiddenStateSpec(
            model_fingerprint,
            layer,
            prompt_layout.fingerprint,
            self.pooling,
            self.norm.kind,
        )

    # -- reading -----------------------------------------------------------------------

    def read(
        self, pairs: Sequence[tuple[str, str]], layers: Sequence[int]
    ) -> LayerStates:
        """States of ``(question, text)`` pairs, from one pass to the highest layer.

        Raises:
            InputError: A layer outside the model, or a question that leaves no room
                for the text.
        """
        partial_forward = self.backbone.partial_forward
        sorted_layers = sorted(set(layers))
        for layer in sorted_layers:
            partial_forward.check_layer(layer)
        token_prompts, text_index = self.prompts(pairs)
        # Equal prompts (duplicate passages) have equal states, so each is run once.
        unique_prompts = list(dict.fromkeys(token_prompts))
        row_of_prompt = {prompt: row for row, prompt in enumerate(unique_prompts)}
        prompt_rows = [row_of_prompt[prompt] for prompt in token_prompts]
        part_count = len(pooling_parts(self.pooling))
        hidden_size = partial_forward.hidden_size
        shape = len(unique_prompts), part_count, hidden_size
        raw_states = {
            layer: np.empty(shape, dtype=np.float32) for layer in sorted_layers
        }
        with partial_forward.lock:
            for rows, states in self._run_prompts(unique_prompts, sorted_layers):
                for layer in sorted_layers:
                    parts = states[layer].reshape(len(rows), part_count, hidden_size)
                    raw_states[layer][rows] = parts
        by_layer = {}
        for layer in sorted_layers:
            normed_states = self.norm(raw_states[layer])[prompt_rows]
            width = part_count * hidden_size
            by_layer[layer] = normed_states.reshape(len(prompt_rows), width)
        return LayerStates(by_layer, text_index)

    def prompts(
        self, pairs: Sequence[tuple[str, str]]
    ) -> tuple[list[TokenPrompt], Positions]:
        """`build_prompts` for this model's window."""
        backbone, prompt_layout = self._open()
        partial_forward = backbone.partial_forward
        # A tokenizer's settings are shared: one thread at a time may use it.
        with partial_forward.lock:
            return build_prompts(prompt_layout, pairs, partial_forward.max_positions)

    # -- inside ------------------------------------------------------------------------

    def _open(self) -> tuple[Backbone, BoundLayout]:
        with self._open_lock:
            opened_model = self._opened_model
            if opened_model is not None and opened_model[0].partial_forward is None:
                # A copy: the forward hooks are not copied with it.
                opened_model = self._prefix_reader = None
            if opened_model is None:
                require("torch", extra="end")
                require("transformers", extra="end")
                from denoise_core.local.loading import LoadOptions, open_backbone

                load_options = self._load_options or LoadOptions()
                backbone = open_backbone(
                    self._model, self._tokenizer, load_options, self._first_layers
                )
                prompt_layout = self.settings.layout or self.default_layout
                opened_model = backbone, prompt_layout.bind(backbone.tokenizer)
            self._opened_model = opened_model
            return opened_model

    def _run_prompts(
        self, token_prompts: Sequence[TokenPrompt], layers: Sequence[int]
    ) -> list[PromptBatch]:
        from denoise_core.local.partial_forward import (
            model_inputs,
            pooling_function,
            run_in_batches,
        )

        if token_prompts and self._can_resume(max(layers)):
            return self._open_reuse().read_states(
                token_prompts,
                layers,
                self.pooling,
                keeps_prefixes=self._keeps_prefixes(max(layers)),
            )
        partial_forward = self.backbone.partial_forward

        def run_batch(rows: list[int]) -> StatesByLayer:
            prompts = [token_prompts[row] for row in rows]
            inputs = model_inputs(partial_forward, prompts, self._pad_id)
            pool_states = pooling_function(self.pooling, prompts)
            states = partial_forward.read_layers(inputs, layers, pool_states)
            return {layer: states[layer].cpu().numpy() for layer in layers}

        lengths = [len(prompt.ids) for prompt in token_prompts]
        return run_in_batches(lengths, self.settings.max_tokens, run_batch)

    def _can_resume(self, layer: int) -> bool:
        """Whether prompts can be run in two parts, of which the second alone is pooled."""
        is_question_last = self.layout.slots == [PASSAGE, QUERY]
        if layer == 0 or not (self.pooling == "last" or is_question_last):
            return False
        return self._open_reuse().find_problem(layer) is None

    def _keeps_prefixes(self, layer: int) -> bool:
        """Whether prefixes are cached: where the question is first, nothing of a passage can be."""
        is_cacheable = self.prefix.max_bytes > 0 and self.layout.slots[0] is PASSAGE
        return is_cacheable and self._can_resume(layer)

    def _open_reuse(self) -> PrefixReuse:
        from denoise_core.local.kv_cache.reuse import PrefixReuse

        return self._open_prefix_reader(PrefixReuse)

    def _open_prefix_reader(self, reader_class: Callable[..., R]) -> R:
        if self._prefix_reader is None:
            self._prefix_reader = reader_class(
                self.backbone.partial_forward,
                self.prefix,
                self._cache_scope,
                self.settings.max_tokens,
                self._pad_id,
            )
        return cast(R, self._prefix_reader)

    def _cache_scope(self, layer: int) -> Hashable:
        """All that decides keys and values besides the tokens."""
        model_fingerprint = self.reading(layer).model
        weight_identity = (
            model_fingerprint.name,
            model_fingerprint.revision,
            model_fingerprint.weights,
            model_fingerprint.dtype,
        )
        return *weight_identity, self.layout.fingerprint, layer

    @property
    def _pad_id(self) -> int:
        # Padding is masked out, so any id will do for a tokenizer that has none.
        return int(getattr(self.backbone.tokenizer, "pad_token_id", None) or 0)
