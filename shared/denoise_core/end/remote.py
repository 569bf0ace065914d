"""An exported probe behind servers that speak vLLM's ``/classify``: one, or several replicas.

Serve a folder that `denoise_lab.export` of the laboratory wrote, with a server of your own::

    vllm serve FOLDER --runner pooling --enable-prefix-caching

Prompts are sent as token ids, so that the server cannot tokenise them otherwise. This
module needs no torch.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.end.probe import HiddenStateSpec
from denoise_core.end.reader import build_prompts, max_over_windows
from denoise_core.errors import BadReply, InputError, ProbeMismatch
from denoise_core.local.layout import BoundLayout, Slot
from denoise_core.runtime.budget import Meter
from denoise_core.runtime.engines import (
    Engine,
    RemoteLimits,
    RetryableError,
    document_key,
    fill_missing_scores,
)
from denoise_core.runtime.thread_pool import run_in_pool

Floats = NDArray[np.float32]

# In the exported folder: layout, window, bias, and prompts whose logits are known.
MANIFEST = "end.json"
MANIFEST_KEYS = frozenset({"reading", "bias", "window", "layout", "canaries"})


class RemoteScorer:
    """Scores with the checkpoint in ``folder`` as served at ``url``.

    Only the folder's tokenizer and manifest are read here. With several replicas a
    document always goes to the same one, so that the engine's prefix cache knows it,
    and to the next while that one is down; `Engine` says what is retried.

    Each replica is checked at its first use, and again after it was down: that it serves
    the model, and that three fixed prompts get the logits they must have. A server of
    another model, or one that applies an activation, is refused with `ProbeMismatch`; a
    server that leaves out the bias has it added.

    Args:
        url: An address before ``/classify``, or several.
        folder: The exported checkpoint.
        model: The served name; None takes the only one there is.
        key_env: Environment variable with the key, which is in no attribute, pickle or
            log.
        limits: How often and how long requests are retried.
        batch: Prompts of a request at most.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        folder: str | Path,
        *,
        model: str | None = None,
        key_env: str | None = None,
        limits: RemoteLimits | None = None,
        batch: int = 64,
    ) -> None:
        if batch < 1:
            raise InputError(f"batch={batch}: expected 1 or more")
        self.engine = Engine(url, key_env=key_env, limits=limits)
        self.folder = Path(folder)
        self.model = model
        self.batch = batch
        self._opened_export: tuple[BoundLayout, dict[str, Any]] | None = None
        self._open_lock = threading.Lock()
        # Of each checked replica its model's name, and what its logits lack.
        self._checked_replicas: dict[str, tuple[str, float]] = {}
        self._check_locks: dict[str, asyncio.Lock] = {}

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        """Logits, float32 ``(len(texts),)``; equal to the local `ProbeScorer`'s."""
        if not texts:
            return np.zeros(0, dtype=np.float32)
        prompt_ids, keys, text_index = self._build_prompts(query, texts)
        logits = self.engine.run(partial(self._request_logits, prompt_ids, keys))
        return max_over_windows(logits, text_index, len(texts))

    async def ascore(self, query: str, texts: Sequence[str]) -> Floats:
        """`score` without holding a thread while the server works."""
        if not texts:
            return np.zeros(0, dtype=np.float32)
        prepared = await run_in_pool(self._build_prompts, query, texts)
        prompt_ids, keys, text_index = prepared
        logits = await self.engine.arun(partial(self._request_logits, prompt_ids, keys))
        return max_over_windows(logits, text_index, len(texts))

    # -- prompts, on the caller's thread -----------------------------------------------

    def _open(self) -> tuple[BoundLayout, dict[str, Any]]:
        with self._open_lock:
            if self._opened_export is None:
                manifest = _load_manifest(self.folder)
                HiddenStateSpec.from_dict(manifest["reading"])
                transformers = require("transformers", extra="end")
                tokenizer = transformers.AutoTokenizer.from_pretrained(str(self.folder))
                parts: list[Any] = []
                for part in manifest["layout"]["parts"]:
                    parts.append(Slot(part) if isinstance(part, str) else tuple(part))
                name = manifest["layout"]["name"]
                layout = BoundLayout(name, tuple(parts), tokenizer)
                self._opened_export = layout, manifest
            return self._opened_export

    def _build_prompts(
        self, query: str, texts: Sequence[str]
    ) -> tuple[list[list[int]], list[bytes], NDArray[np.intp]]:
        """Token ids and document keys of the prompts, and of each its text."""
        layout, manifest = self._open()
        pairs = [(query, text) for text in texts]
        with self._open_lock:  # the tokenizer is shared
            prompts, text_index = build_prompts(layout, pairs, manifest["window"])
        keys = [document_key(texts[i]) for i in text_index.tolist()]
        return [list(prompt.ids) for prompt in prompts], keys, text_index

    # -- requests, on the engine's loop ------------------------------------------------

    async def _request_logits(
        self, prompt_ids: list[list[int]], keys: list[bytes], meter: Meter | None
    ) -> Floats:
        async def request_batch(url: str, positions: list[int]) -> list[float]:
            batch_ids = [prompt_ids[i] for i in positions]
            try:
                model, offset = await self._check_replica(url, meter)
                logits = await self._classify(url, model, batch_ids, meter)
            except RetryableError:
                # Another server may answer at this address next time.
                self._checked_replicas.pop(url, None)
                raise
            return [float(logit) + offset for logit in logits]

        logits = await self.engine.request_batches(keys, self.batch, request_batch)
        return fill_missing_scores(logits)

    async def _check_replica(self, url: str, meter: Meter | None) -> tuple[str, float]:
        """The model's name at a replica, and what its logits lack; asked once."""
        async with self._check_locks.setdefault(url, asyncio.Lock()):
            if url not in self._checked_replicas:
                model = await self._served_model(url, meter)
                offset = await self._logit_offset(url, model, meter)
                self._checked_replicas[url] = model, offset
            return self._checked_replicas[url]

    async def _served_model(self, url: str, meter: Meter | None) -> str:
        try:
            reply = await self.engine.request("GET", url, "/v1/models", meter=meter)
            names = [str(dict(model).get("id")) for model in reply["data"]]
        except (BadReply, KeyError, TypeError, ValueError):
            names = []  # it lists no models: the fixed prompts decide alone
        if self.model:
            model = self.model
        else:
            model = names[0] if len(names) == 1 else str(self.folder)
        if names and model not in names:
            raise InputError(
                f"{url} serves {', '.join(names)} and not {model!r}: pass model= with "
                "one of these"
            )
        return model

    async def _logit_offset(self, url: str, model: str, meter: Meter | None) -> float:
        """0 if the server's logits include the bias, the bias if they do not."""
        manifest = self._open()[1]
        canaries = manifest["canaries"]
        expected = np.array([canary["logit"] for canary in canaries])
        prompt_ids = [canary["ids"] for canary in canaries]
        logits = await self._classify(url, model, prompt_ids, meter)
        tolerance = 0.05 * max(1.0, float(np.abs(expected).max()))
        for offset in (0.0, float(manifest["bias"])):
            if np.abs(logits + offset - expected).max() <= tolerance:
                return offset
        raise ProbeMismatch(
            f"{url} does not serve the checkpoint in {self.folder}: on its fixed prompts "
            f"it must give {np.round(expected, 3).tolist()}, it gave "
            f"{np.round(logits, 3).tolist()}; serve that folder, and without an "
            "activation"
        )

    async def _classify(
        self, url: str, model: str, prompt_ids: list[list[int]], meter: Meter | None
    ) -> Floats:
        body = {"model": model, "input": prompt_ids, "use_activation": False}
        reply = await self.engine.request("POST", url, "/classify", body, meter)
        return _parse_logits(reply, len(prompt_ids))


def _parse_logits(reply: Any, count: int) -> Floats:
    """The one number of each prompt, in the order of the request."""
    try:
        items = sorted(reply["data"], key=lambda item: item["index"])
        positions = [item["index"] for item in items]
        probabilities = np.array([item["probs"] for item in items], dtype=np.float64)
        has_one_each = probabilities.shape == (count, 1)
        if positions == list(range(count)) and has_one_each:
            logits = probabilities[:, 0].astype(np.float32)
            if np.isfinite(logits).all():
                return logits
    except (KeyError, TypeError, ValueError, OverflowError):
        pass
    raise BadReply(
        f"expected a /classify reply with one number for each of {count} prompts"
    )


def _load_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read: {error}; expected a folder that export() wrote"
        ) from error
    if not isinstance(manifest, dict) or not manifest.keys() >= MANIFEST_KEYS:
        raise InputError(
            f"{path} is not an exported probe: expected {sorted(MANIFEST_KEYS)}"
        )
    return manifest
