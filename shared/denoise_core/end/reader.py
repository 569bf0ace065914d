"""Passages and a question in, one vector for each passage out: the state of its prompt at an early layer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.end import layout as layouts
from denoise_core.end.batching import batches, windows
from denoise_core.end.layout import BoundLayout, Layout, Prompt
from denoise_core.end.normalise import Norm, kind_of
from denoise_core.end.probe import Reading
from denoise_core.errors import InputError

if TYPE_CHECKING:
    from denoise_core.end.loading import Backbone, Load

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class States:
    """States by layer, each float32 of shape ``(m, d)``; row i belongs to text ``owner[i]`` of the call.

    ``m`` is more than the number of texts when some did not fit the model's window and were cut.
    """

    by_layer: dict[int, Floats]
    owner: NDArray[np.intp]

    def parts(self, texts: int) -> NDArray[np.intp]:
        """In how many windows each of the ``texts`` texts was read; 1 when it fitted."""
        return np.bincount(self.owner, minlength=texts)


@dataclass(frozen=True, slots=True)
class Settings:
    """How prompts become vectors. None takes what suits the model.

    ``layout``: `SCQ` for decoders, `PAIR` for encoders. ``pooling``: "last" or "cls_mean_question".
    ``normalisation``: "rms", "layer" or "none"; for a decoder that of its own final norm, else none.
    ``max_tokens`` caps a batch, padding included.
    """

    layout: Layout | None = None
    pooling: str | None = None
    normalisation: str | None = None
    max_tokens: int = 2048


class HiddenReader:
    """Reads a Hugging Face decoder or encoder, given by name, path or as a loaded object.

    Nothing is loaded before the first use. ``first_layers`` loads only so many blocks of a model given by
    name. Threads may share a reader; readers of one model share its lock, so that one batch runs at a time.
    """

    def __init__(
        self,
        model: Any,
        *,
        tokenizer: Any = None,
        settings: Settings | None = None,
        load: Load | None = None,
        first_layers: int | None = None,
    ) -> None:
        self.settings = settings or Settings()
        if self.settings.max_tokens < 1:
            raise InputError(f"max_tokens={self.settings.max_tokens}: expected 1 or more")
        self._model = model
        self._tokenizer = tokenizer
        self._load = load
        self._first_layers = first_layers
        self._opened: tuple[Backbone, BoundLayout] | None = None
        self._opening = threading.Lock()
        self._fingerprints: dict[int, Any] = {}

    # -- what it reads -----------------------------------------------------------------------------

    @property
    def backbone(self) -> Backbone:
        """The loaded model; loads it on first use."""
        return self._open()[0]

    @property
    def layout(self) -> BoundLayout:
        return self._open()[1]

    @property
    def layers(self) -> int:
        """The highest layer that can be read: the number of loaded blocks."""
        return self.backbone.early.count

    @property
    def pooling(self) -> Any:
        return self.settings.pooling or ("last" if self.backbone.early.causal else "cls_mean_question")

    @property
    def norm(self) -> Norm:
        """What is done to a pooled state, with the model's own epsilon."""
        early = self.backbone.early
        kind = self.settings.normalisation
        if kind is None:
            return early.norm if self.pooling == "last" else Norm()
        return Norm(kind_of(kind), early.norm.epsilon or 1e-6) if kind != "none" else Norm()

    def reading(self, layer: int) -> Reading:
        """Everything that decides the states at ``layer``; what a probe is checked against."""
        backbone, layout = self._open()
        backbone.early.ensure(layer)
        if layer not in self._fingerprints:
            with backbone.early.lock:
                self._fingerprints[layer] = backbone.fingerprint(layer)
        return Reading(self._fingerprints[layer], layer, layout.fingerprint, self.pooling, self.norm.kind)

    # -- reading -----------------------------------------------------------------------------------

    def states(self, query: str, texts: Sequence[str], layers: Sequence[int]) -> dict[int, Floats]:
        """States of one question's texts at several layers, ``(len(texts), d)`` each, from one pass.

        A text longer than the window gives the state of its first part; `read` gives all parts.
        """
        found = self.read([(query, t) for t in texts], layers)
        first = np.searchsorted(found.owner, np.arange(len(texts)))
        return {layer: rows[first] for layer, rows in found.by_layer.items()}

    def read(self, pairs: Sequence[tuple[str, str]], layers: Sequence[int]) -> States:
        """States of ``(question, text)`` pairs at ``layers``, from one pass to the highest of them.

        Raises `InputError` for a layer outside the model, a question that leaves the text no room in the
        window, and a state that is not finite (the text is named).
        """
        backbone, _ = self._open()
        if not layers:
            raise InputError("layers=[]: expected at least one layer")
        for layer in layers:
            backbone.early.ensure(layer)
        prompts, owner = self.prompts(pairs)
        with backbone.early.lock:
            rows = self._run(prompts, sorted(set(layers)))
        norm = self.norm
        by_layer = {layer: norm(states) for layer, states in rows.items()}
        self._check_finite(by_layer, owner, pairs)
        return States(by_layer, owner)

    def prompts(self, pairs: Sequence[tuple[str, str]]) -> tuple[list[Prompt], NDArray[np.intp]]:
        """The prompts of the pairs, texts too long for the window cut; and to which pair each belongs."""
        backbone, layout = self._open()
        with backbone.early.lock:  # a tokenizer's settings are shared, so only one thread may use it
            texts = layout.encode([t for _, t in pairs])
            distinct = list(dict.fromkeys(q for q, _ in pairs))
            questions = dict(zip(distinct, layout.encode(distinct), strict=True))
        prompts: list[Prompt] = []
        owner: list[int] = []
        window = backbone.early.window
        for i, ((query, _), ids) in enumerate(zip(pairs, texts, strict=True)):
            question = questions[query]
            room = len(ids) or 1 if window is None else window - layout.overhead - len(question)
            for part in windows(ids, room):
                prompts.append(layout.assemble(part, question))
                owner.append(i)
        return prompts, np.array(owner, dtype=np.intp)

    # -- inside ------------------------------------------------------------------------------------

    def _open(self) -> tuple[Backbone, BoundLayout]:
        with self._opening:
            if self._opened is None:
                require("torch", extra="end")
                require("transformers", extra="end")
                from denoise_core.end.loading import Load, open_backbone

                backbone = open_backbone(self._model, self._tokenizer, self._load or Load(), self._first_layers)
                chosen = self.settings.layout or (layouts.SCQ if backbone.early.causal else layouts.PAIR)
                self._opened = backbone, chosen.bind(backbone.tokenizer)
            return self._opened

    def _run(self, prompts: Sequence[Prompt], layers: Sequence[int]) -> dict[int, Floats]:
        plan = batches([len(p.ids) for p in prompts], self.settings.max_tokens)
        done: list[tuple[list[int], dict[int, Floats]]] = []
        for batch in plan:
            done += halving(batch, lambda rows: self._forward([prompts[i] for i in rows], layers))
        return gather(done, layers, len(prompts))

    def _forward(self, prompts: Sequence[Prompt], layers: Sequence[int]) -> dict[int, Floats]:
        from denoise_core.end.forward import inputs_of, pool_of

        early = self.backbone.early
        found = early.read(inputs_of(early, prompts, self._pad), layers, pool_of(self.pooling, prompts))
        return {layer: np.asarray(states.cpu().numpy(), dtype=np.float32) for layer, states in found.items()}

    @property
    def _pad(self) -> int:
        # Padding is masked out, so any id will do for a tokenizer that has none.
        return int(getattr(self.backbone.tokenizer, "pad_token_id", None) or 0)

    def _check_finite(
        self, by_layer: dict[int, Floats], owner: NDArray[np.intp], pairs: Sequence[tuple[str, str]]
    ) -> None:
        for layer, rows in by_layer.items():
            bad = np.flatnonzero(~np.isfinite(rows).all(axis=-1))
            if bad.size:
                at = int(owner[bad[0]])
                raise InputError(
                    f"the state of text {at} ({pairs[at][1][:60]!r}) at layer {layer} is not finite (NaN or "
                    f"infinite), and {bad.size - 1} more: the model overflows in {self.backbone.early.dtype}; "
                    "load it in bfloat16 or float32"
                )


def halving(
    batch: list[int], run: Callable[[list[int]], dict[int, Floats]]
) -> list[tuple[list[int], dict[int, Floats]]]:
    """``run(batch)``; a batch that does not fit into memory is halved and tried again, down to one row.

    Raises `InputError` when a single row does not fit.
    """
    from denoise_core.end.forward import out_of_memory

    try:
        return [(batch, run(batch))]
    except Exception as error:
        if not out_of_memory(error):
            raise
        if len(batch) == 1:
            raise InputError(
                "a single prompt does not fit into memory; cut the passages into smaller chunks, load the model "
                "in bfloat16, or use another device"
            ) from error
    middle = len(batch) // 2
    return halving(batch[:middle], run) + halving(batch[middle:], run)


def gather(
    done: Sequence[tuple[list[int], dict[int, Floats]]], layers: Sequence[int], rows: int
) -> dict[int, Floats]:
    """Batches put back in the order of the prompts."""
    out: dict[int, Floats] = {}
    for layer in layers:
        width = done[0][1][layer].shape[-1] if done else 0
        out[layer] = np.empty((rows, width), dtype=np.float32)
        for batch, found in done:
            out[layer][batch] = found[layer]
    return out
