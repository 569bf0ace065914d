"""Passages and a question in, one vector for each passage out: the state of its prompt at an early layer."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.end.probe import HiddenStateSpec
from denoise_core.errors import InputError
from denoise_core.local import layout as layouts
from denoise_core.local.batching import split_windows
from denoise_core.local.fingerprint import ModelFingerprint
from denoise_core.local.kv_cache.prefix_cache import PrefixCache
from denoise_core.local.layout import BoundLayout, Layout, TokenPrompt

if TYPE_CHECKING:
    from denoise_core.local.blocks import Norm
    from denoise_core.local.kv_cache.reuse import PrefixReuse
    from denoise_core.local.loading import Backbone, LoadOptions

Floats = NDArray[np.float32]
Batch: TypeAlias = tuple[
    list[int], dict[int, Floats]
]  # positions of prompts, their states by layer

PREFIX_BYTES = 512 << 20  # 10 thousand tokens of an 8B model's first 13 blocks


@dataclass(frozen=True, slots=True)
class LayerStates:
    """States by layer, each float32 of shape ``(m, d)``; row i belongs to text ``owner[i]`` of the call.

    ``m`` is more than the number of texts when some did not fit the model's window and were cut.
    """

    by_layer: dict[int, Floats]
    text_index: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class ReadingSettings:
    """How prompts become vectors. None takes what suits the model.

    ``layout``: `SCQ` for decoders, `PAIR` for encoders. ``pooling``: "last" or "cls_mean_question".
    ``normalisation``: "rms", "layer" or "none"; for a decoder that of its own final norm, else none.
    ``max_tokens`` caps a batch, padding included.
    """

    layout: Layout | None = None
    pooling: str | None = None
    normalisation: str | None = None
    max_tokens: int = 4096


class HiddenReader:
    """Reads a Hugging Face decoder or encoder, given by name, path or as a loaded object.

    Nothing is loaded before the first use. ``first_layers`` loads only so many blocks of a model given by
    name. Threads may share a reader; readers of one model share its lock, so that one batch runs at a time.

    ``prefix`` keeps what was computed for a passage until its next question (decoders, layouts with the
    passage first), on the model's device: 512 MiB by default, the least recently used leaves first;
    ``PrefixCache(0)`` switches it off.
    """

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
        if self.settings.max_tokens < 1:
            raise InputError(
                f"max_tokens={self.settings.max_tokens}: expected 1 or more"
            )
        self._model = model
        self._tokenizer = tokenizer
        self._load = load
        self._first_layers = first_layers
        self._opened: tuple[Backbone, BoundLayout] | None = None
        self._opening = threading.Lock()
        self._fingerprints: dict[int, ModelFingerprint] = {}
        self.prefix: PrefixCache = (
            PrefixCache(PREFIX_BYTES) if prefix is None else prefix
        )
        self._kept: PrefixReuse | None = None

    # -- what it reads -----------------------------------------------------------------------------

    @property
    def backbone(self) -> Backbone:
        """The loaded model; loads it on first use."""
        return self._open()[0]

    @property
    def layout(self) -> BoundLayout:
        """The prompt with its two slots as token ids; loads the tokenizer at its first use."""
        return self._open()[1]

    @property
    def layers(self) -> int:
        """The highest layer that can be read: the number of loaded blocks."""
        return self.backbone.partial_forward.block_count

    @property
    def pooling(self) -> Any:
        """Which positions become one state: as set, else the last for decoders, head and question for encoders."""
        return self.settings.pooling or (
            "last" if self.backbone.partial_forward.is_causal else "cls_mean_question"
        )

    @property
    def norm(self) -> Norm:
        """What is done to a pooled state, with the model's own epsilon."""
        own, kind = self.backbone.partial_forward.unit_norm, self.settings.normalisation
        if kind is None:
            kind = own.kind if self.pooling == "last" else "none"
        return replace(own, kind=kind, epsilon=own.epsilon or 1e-6)

    def reading(self, layer: int) -> HiddenStateSpec:
        """Everything that decides the states at ``layer``; what a probe is checked against."""
        backbone, layout = self._open()
        backbone.partial_forward.check_layer(layer)
        if layer not in self._fingerprints:
            with backbone.partial_forward.lock:
                self._fingerprints[layer] = backbone.fingerprint(layer)
        return HiddenStateSpec(
            self._fingerprints[layer],
            layer,
            layout.fingerprint,
            self.pooling,
            self.norm.kind,
        )

    # -- reading -----------------------------------------------------------------------------------

    def read(
        self, pairs: Sequence[tuple[str, str]], layers: Sequence[int]
    ) -> LayerStates:
        """States of ``(question, text)`` pairs at ``layers``, from one pass to the highest of them.

        Raises `InputError` for a layer outside the model, and a question that leaves the text no room.
        """
        early, wanted = self.backbone.partial_forward, sorted(set(layers))
        if not wanted:
            raise InputError("layers=[]: expected at least one layer")
        for layer in wanted:
            early.check_layer(layer)
        prompts, owner = self.prompts(pairs)
        with early.lock:
            # Equal prompts (duplicate passages) have equal states, so each is run once.
            place = {p: n for n, p in enumerate(dict.fromkeys(prompts))}
            done = self._run(list(place), wanted)
        order = np.argsort([i for rows, _ in done for i in rows])[
            [place[p] for p in prompts]
        ]
        empty = np.zeros((0, 0), dtype=np.float32)
        rows = {
            layer: np.concatenate([found[layer] for _, found in done] or [empty])[order]
            for layer in wanted
        }
        norm = self.norm
        return LayerStates(
            {layer: norm(states) for layer, states in rows.items()}, owner
        )

    def prompts(
        self, pairs: Sequence[tuple[str, str]]
    ) -> tuple[list[TokenPrompt], NDArray[np.intp]]:
        """The prompts of the pairs, texts too long for the window cut; and of each the index of its pair."""
        backbone, layout = self._open()
        with (
            backbone.partial_forward.lock
        ):  # a tokenizer's settings are shared, so only one thread may use it
            return build_prompts(layout, pairs, backbone.partial_forward.max_positions)

    # -- inside ------------------------------------------------------------------------------------

    def _open(self) -> tuple[Backbone, BoundLayout]:
        with self._opening:
            if (
                self._opened is not None and self._opened[0].partial_forward is None
            ):  # a copy: hooks do not travel
                self._opened = self._kept = None
            if self._opened is None:
                require("torch", extra="end")
                require("transformers", extra="end")
                from denoise_core.local.loading import LoadOptions, open_backbone

                backbone = open_backbone(
                    self._model,
                    self._tokenizer,
                    self._load or LoadOptions(),
                    self._first_layers,
                )
                chosen = self.settings.layout or (
                    layouts.SCQ if backbone.partial_forward.is_causal else layouts.PAIR
                )
                self._opened = backbone, chosen.bind(backbone.tokenizer)
            return self._opened

    def _run(
        self, prompts: Sequence[TokenPrompt], layers: Sequence[int]
    ) -> list[Batch]:
        from denoise_core.local.partial_forward import run_in_batches

        if len(layers) == 1 and self._keeps(layers[0]) is None:
            return [
                (rows, {layers[0]: found})
                for rows, found in self._reuse().read_states(prompts, layers[0])
            ]

        def forward(rows: list[int]) -> dict[int, Floats]:
            return self._forward([prompts[i] for i in rows], layers)

        return run_in_batches(
            self.backbone.partial_forward,
            [len(p.ids) for p in prompts],
            self.settings.max_tokens,
            forward,
        )

    def _keeps(self, layer: int) -> str | None:
        """None when prefixes are kept at ``layer``, else why not."""
        if self.prefix.max_bytes == 0:
            return "prefix=PrefixCache(0): switched off"
        if not self.backbone.partial_forward.is_causal or self.pooling != "last":
            return (
                "an encoder's passage sees the question, so nothing of it can be kept"
            )
        if not self.layout.is_prefix_reusable:
            return f"layout {self.layout.name!r} has the question before the passage"
        return self._reuse().disabled_reason(layer)

    def _reuse(self) -> PrefixReuse:
        from denoise_core.local.kv_cache.reuse import PrefixReuse

        if self._kept is None:
            early = self.backbone.partial_forward
            self._kept = PrefixReuse(
                early, self.prefix, self._scope, self.settings.max_tokens, self._pad
            )
        return self._kept

    def _scope(self, layer: int) -> Hashable:
        """All that decides keys and values besides the tokens."""
        model = self.reading(layer).model
        return (
            model.name,
            model.revision,
            model.weights,
            model.dtype,
            self.layout.fingerprint,
            layer,
        )

    def _forward(
        self, prompts: Sequence[TokenPrompt], layers: Sequence[int]
    ) -> dict[int, Floats]:
        from denoise_core.local.partial_forward import model_inputs, pooling_function

        early = self.backbone.partial_forward
        inputs = model_inputs(early, prompts, self._pad)
        if self.pooling == "last" and len(layers) == 1:
            found = {layers[0]: early.read_last_token(inputs, layers[0])}
        else:
            found = early.read_layers(
                inputs, layers, pooling_function(self.pooling, prompts)
            )
        return {
            layer: np.asarray(states.cpu().numpy(), dtype=np.float32)
            for layer, states in found.items()
        }

    @property
    def _pad(self) -> int:
        # Padding is masked out, so any id will do for a tokenizer that has none.
        return int(getattr(self.backbone.tokenizer, "pad_token_id", None) or 0)


def build_prompts(
    layout: BoundLayout, pairs: Sequence[tuple[str, str]], window: int | None
) -> tuple[list[TokenPrompt], NDArray[np.intp]]:
    """The prompts of ``(question, text)`` pairs, and to which pair each belongs.

    A text that does not fit ``window`` tokens together with the question is cut into even parts, a prompt
    for each. Raises `InputError` when the question leaves no room.
    """
    texts = layout.encode([t for _, t in pairs])
    distinct = list(dict.fromkeys(q for q, _ in pairs))
    questions = dict(zip(distinct, layout.encode(distinct), strict=True))
    prompts: list[TokenPrompt] = []
    owner: list[int] = []
    for i, ((query, _), ids) in enumerate(zip(pairs, texts, strict=True)):
        question = questions[query]
        room = (
            len(ids) or 1
            if window is None
            else window - layout.overhead_tokens - len(question)
        )
        for part in split_windows(ids, room):
            prompts.append(layout.assemble(part, question))
            owner.append(i)
    return prompts, np.array(owner, dtype=np.intp)


def max_over_windows(
    scores: NDArray[np.float32], owner: NDArray[np.intp], texts: int
) -> NDArray[np.float32]:
    """One score for each text: that of its best part."""
    best = np.full(texts, -np.inf, dtype=np.float32)
    np.maximum.at(best, owner, scores)
    return best
