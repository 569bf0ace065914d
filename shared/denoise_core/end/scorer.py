"""The probe on a model: relevance of texts to a question, from the model's first layers."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from denoise_core.end.calibration import Calibration
from denoise_core.end.probe import Probe
from denoise_core.end.reader import HiddenReader, ReadingSettings, best_of_parts
from denoise_core.errors import InputError
from denoise_core.local.layout import LAYOUTS
from denoise_core.protocols import Scored
from denoise_core.running.recipes import Travels

if TYPE_CHECKING:
    from denoise_core.local.loading import Load

Entry: TypeAlias = tuple[float, int]  # logit, in how many windows the text was read


class ScoreCache(Travels):
    """At most ``max_entries`` scores, the least recently used leaving first; thread-safe, shareable.

    A key is a hash of the probe's numbers, its reading (model, layer, layout, pooling, normalisation), the
    question and the text; the texts themselves are not held. Raises `InputError` for a size below 1.
    """

    def __init__(self, max_entries: int = 100_000) -> None:
        if max_entries < 1:
            raise InputError(f"max_entries={max_entries}: expected 1 or more")
        self.max_entries = max_entries
        self.hits = 0
        self.misses = 0
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    @staticmethod
    def key(probe: Probe, query: str, text: str) -> bytes:
        """20 bytes that are equal exactly when probe, query and text are."""
        digest = hashlib.blake2b(digest_size=20)
        head = json.dumps([probe.reading.to_dict(), probe.bias], sort_keys=True).encode()
        for part in (head, probe.weight.tobytes(), *(t.encode("utf-8", "surrogatepass") for t in (query, text))):
            digest.update(len(part).to_bytes(8, "little"))  # so that no two splits of the same bytes agree
            digest.update(part)
        return digest.digest()

    def get(self, key: bytes) -> Entry | None:
        """What was kept under ``key``, and a hit; None, and a miss."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                self.misses += 1
            else:
                self.hits += 1
                self._entries.move_to_end(key)
            return found

    def put(self, key: bytes, entry: Entry) -> None:
        """Keep an entry; the one longest unused leaves when there is no room."""
        with self._lock:
            self._entries[key] = entry
            self._entries.move_to_end(key)
            while len(self._entries) > self.max_entries:
                self._entries.popitem(last=False)


class ProbeScorer(Travels):
    """Early Noise Dropping's scorer: ``probe`` applied to a model's state after ``probe.layer`` blocks
    (arXiv 2502.18915, sections 2.2 and 2.3).

    ``model`` is a name, a path, a loaded object or a `HiddenReader`. By name only the blocks that the probe
    needs are loaded. ``settings.layout`` is needed only for a layout of your own; pooling and normalisation
    come from the probe. The first use raises `ProbeMismatch` when the model is not the one the probe was
    fitted on, naming each difference.

    ``cache`` keeps scores by all that decides them (probe, model, question, text). What the model computed
    for a passage is kept by the reader, see `HiddenReader`.
    """

    def __init__(
        self,
        model: Any,
        probe: Probe,
        *,
        tokenizer: Any = None,
        settings: ReadingSettings | None = None,
        load: Load | None = None,
        cache: ScoreCache | None = None,
    ) -> None:
        self.probe = probe
        self.cache = cache
        if isinstance(model, HiddenReader):
            self.reader = model
        else:
            self.reader = HiddenReader(
                model,
                tokenizer=tokenizer,
                settings=_settings(probe, settings or ReadingSettings()),
                load=load,
                first_layers=max(1, probe.layer),
            )
        self._checked = False
        self._checking = threading.Lock()

    def recipe(self) -> dict[str, Any]:
        return {"model": self.reader, "probe": self.probe, "cache": self.cache}

    @property
    def calibration(self) -> Calibration | None:
        """The probe's, for ``keep="calibrated"``."""
        return self.probe.calibration

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Logits, higher is more relevant; float32 ``(len(texts),)``."""
        return self.scored(query, texts).scores

    def scored(self, query: str, texts: Sequence[str]) -> Scored:
        """`score`, with what it cost. Raises `ProbeMismatch`; else what `HiddenReader.read` raises."""
        if not texts:
            return Scored(np.zeros(0, dtype=np.float32), ())
        self._check()
        if self.cache is None:
            return self._run(query, texts)
        keys = [self.cache.key(self.probe, query, t) for t in texts]
        known = {key: found for key in keys if (found := self.cache.get(key)) is not None}
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if new:
            fresh = self._run(query, list(new.values()))
            known |= dict(zip(new, zip(fresh.scores.tolist(), fresh.parts, strict=True), strict=True))
            for key in new:
                self.cache.put(key, known[key])
        scores, parts = zip(*(known[key] for key in keys), strict=True)
        return Scored(np.array(scores, dtype=np.float32), parts)

    def scored_many(self, asked: Sequence[tuple[str, Sequence[str]]]) -> list[Scored]:
        """`scored` for several questions, their prompts in common batches (apart where there is a score cache)."""
        if self.cache is not None:
            return [self.scored(query, texts) for query, texts in asked]
        self._check()
        pairs = [(query, t) for query, texts in asked for t in texts]
        if not pairs:
            return [Scored(np.zeros(0, dtype=np.float32), ()) for _ in asked]
        found = self._read(pairs)
        ends = np.cumsum([0, *(len(texts) for _, texts in asked)])
        return [Scored(found.scores[a:b], found.parts[a:b]) for a, b in pairwise(ends.tolist())]

    def warm(self, texts: Sequence[str]) -> int:
        """Compute and keep what the probe's layer needs of passages before any question: `HiddenReader.warm`."""
        self._check()
        return self.reader.warm(texts, self.probe.layer)

    def _run(self, query: str, texts: Sequence[str]) -> Scored:
        return self._read([(query, t) for t in texts])

    def _read(self, pairs: Sequence[tuple[str, str]]) -> Scored:
        layer = self.probe.layer
        found = self.reader.read(pairs, [layer])
        logits = self.probe.score(found.by_layer[layer])
        best = best_of_parts(logits, found.owner, len(pairs))
        return Scored(best, tuple(found.parts(len(pairs)).tolist()))

    def states(self, query: str, texts: Sequence[str], layers: Sequence[int]) -> dict[int, NDArray[np.float32]]:
        """See `HiddenReader.states`."""
        return self.reader.states(query, texts, layers)

    def _check(self) -> None:
        with self._checking:
            if not self._checked:
                self.probe.check(self.reader.reading(self.probe.layer))
                self._checked = True


def _settings(probe: Probe, given: ReadingSettings) -> ReadingSettings:
    """The probe's own reading, where the settings do not say otherwise."""
    return replace(
        given,
        layout=given.layout or LAYOUTS.get(probe.layout.partition(":")[0]),
        pooling=given.pooling or probe.pooling,
        normalisation=given.normalisation or probe.normalisation,
    )
