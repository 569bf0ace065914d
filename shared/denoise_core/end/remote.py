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
from denoise_core.errors import BadReply, InputError, ProbeMismatch
from denoise_core.local.batching import build_prompts, max_over_windows
from denoise_core.local.layout import BoundLayout, Slot
from denoise_core.runtime.budget import Meter
from denoise_core.runtime.engines import (
    Engine,
    RemoteLimits,
    RetryableError,
    document_key,
)
from denoise_core.runtime.thread_pool import run_in_pool
from denoise_core.scorers.reranker import scores_in_order

Floats = NDArray[np.float32]

# In the exported folder: layout, window, bias, and prompts whose logits are known.
MANIFEST = "end.json"
MANIFEST_KEYS = frozenset({"reading", "bias", "window", "layout", "canaries"})


class RemoteScorer:
    """Scores with the checkpoint in ``folder`` as served at ``url``.

    Only the folder's tokenizer and manifest are read here. With several replicas a
    document always goes to the same one, so that the engine's prefix cache knows it,
    and to the next while that one is down; `Engine` says what is retried.

    Each replica is checked at its first use, and again after it was down: three fixed
    prompts have to get the logits they must have. A server of another model, or one that
    applies an activation, is refused with `ProbeMismatch`; a server that leaves out the
    bias has it added.

    Args:
        url: An address before ``/classify``, or several.
        folder: The exported checkpoint.
        model: The served name; None takes the only one that the server lists.
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
        prompt_ids, document_keys, window_texts = self._build_prompts(query, texts)
        prompt_logits = self.engine.run(
            partial(self._request_logits, prompt_ids, document_keys)
        )
        return max_over_windows(prompt_logits, window_texts, len(texts))

    async def ascore(self, query: str, texts: Sequence[str]) -> Floats:
        """`score` without holding a thread while the server works."""
        if not texts:
            return np.zeros(0, dtype=np.float32)
        prompt_data = await run_in_pool(self._build_prompts, query, texts)
        prompt_ids, document_keys, window_texts = prompt_data
        prompt_logits = await self.engine.arun(
            partial(self._request_logits, prompt_ids, document_keys)
        )
        return max_over_windows(prompt_logits, window_texts, len(texts))

    # -- prompts, on the caller's thread -----------------------------------------------

    def _open(self) -> tuple[BoundLayout, dict[str, Any]]:
        with self._open_lock:
            if self._opened_export is None:
                export_manifest = _load_manifest(self.folder)
                HiddenStateSpec.from_dict(export_manifest["reading"])
                transformers = require("transformers", extra="end")
                hub_tokenizer = transformers.AutoTokenizer.from_pretrained(
                    str(self.folder), trust_remote_code=False
                )
                layout = export_manifest["layout"]
                layout_parts = [
                    Slot(part) if isinstance(part, str) else tuple(part)
                    for part in layout["parts"]
                ]
                bound_layout = BoundLayout(
                    layout["name"], tuple(layout_parts), hub_tokenizer
                )
                self._opened_export = bound_layout, export_manifest
            return self._opened_export

    def _build_prompts(
        self, query: str, texts: Sequence[str]
    ) -> tuple[list[list[int]], list[bytes], NDArray[np.intp]]:
        """Token ids and document keys of the prompts, and of each its text."""
        bound_layout, export_manifest = self._open()
        query_pairs = [(query, text) for text in texts]
        with self._open_lock:  # the tokenizer is shared
            token_prompts, window_texts = build_prompts(
                bound_layout, query_pairs, export_manifest["window"]
            )
        document_keys = [document_key(texts[int(i)]) for i in window_texts]
        prompt_ids = [list(prompt.ids) for prompt in token_prompts]
        return prompt_ids, document_keys, window_texts

    # -- requests, on the engine's loop ------------------------------------------------

    async def _request_logits(
        self,
        prompt_ids: list[list[int]],
        document_keys: list[bytes],
        call_meter: Meter | None,
    ) -> Floats:
        async def request_batch(replica_url: str, positions: list[int]) -> list[float]:
            batch_ids = [prompt_ids[i] for i in positions]
            try:
                served_name, logit_offset = await self._check_replica(
                    replica_url, call_meter
                )
                prompt_logits = await self._classify(
                    replica_url, served_name, batch_ids, call_meter
                )
            except RetryableError:
                # Another server may answer at this address next time.
                self._checked_replicas.pop(replica_url, None)
                raise
            return [float(logit) + logit_offset for logit in prompt_logits]

        prompt_logits = await self.engine.request_batches(
            document_keys, self.batch, request_batch
        )
        return np.array(prompt_logits, dtype=np.float32)

    async def _check_replica(
        self, replica_url: str, call_meter: Meter | None
    ) -> tuple[str, float]:
        """The model's name at a replica, and what its logits lack; asked once."""
        async with self._check_locks.setdefault(replica_url, asyncio.Lock()):
            if replica_url not in self._checked_replicas:
                served_name = await self._served_model(replica_url, call_meter)
                logit_offset = await self._logit_offset(
                    replica_url, served_name, call_meter
                )
                self._checked_replicas[replica_url] = served_name, logit_offset
            return self._checked_replicas[replica_url]

    async def _served_model(self, replica_url: str, call_meter: Meter | None) -> str:
        if self.model is not None:
            return self.model
        server_reply = await self.engine.request(
            "GET", replica_url, "/v1/models", meter=call_meter
        )
        try:
            served_names = [str(model["id"]) for model in server_reply["data"]]
        except (KeyError, TypeError) as error:
            raise BadReply(f"{replica_url}/v1/models lists no models") from error
        if len(served_names) != 1:
            raise InputError(
                f"{replica_url} serves {len(served_names)} models: pass model= with one "
                f"of {served_names}"
            )
        return served_names[0]

    async def _logit_offset(
        self, replica_url: str, served_name: str, call_meter: Meter | None
    ) -> float:
        """0 if the server's logits include the bias, the bias if they do not."""
        export_manifest = self._open()[1]
        known_prompts = export_manifest["canaries"]
        expected_logits = np.array([prompt["logit"] for prompt in known_prompts])
        prompt_ids = [prompt["ids"] for prompt in known_prompts]
        prompt_logits = await self._classify(
            replica_url, served_name, prompt_ids, call_meter
        )
        logit_tolerance = 0.05 * max(1.0, float(np.abs(expected_logits).max()))
        for logit_offset in (0.0, float(export_manifest["bias"])):
            logit_errors = np.abs(prompt_logits + logit_offset - expected_logits)
            if logit_errors.max() <= logit_tolerance:
                return logit_offset
        raise ProbeMismatch(
            f"{replica_url} does not serve the checkpoint in {self.folder}: on its fixed prompts "
            f"it must give {np.round(expected_logits, 3).tolist()}, it gave "
            f"{np.round(prompt_logits, 3).tolist()}; serve that folder, and without an "
            "activation"
        )

    async def _classify(
        self,
        replica_url: str,
        served_name: str,
        prompt_ids: list[list[int]],
        call_meter: Meter | None,
    ) -> Floats:
        request_body = {
            "model": served_name,
            "input": prompt_ids,
            "use_activation": False,
        }
        server_reply = await self.engine.request(
            "POST", replica_url, "/classify", request_body, call_meter
        )
        return _parse_logits(server_reply, len(prompt_ids))


def _parse_logits(server_reply: Any, prompt_count: int) -> Floats:
    """The one number of each prompt, in the order of the request."""
    try:
        indexed_logits = []
        for reply_item in server_reply["data"]:
            (logit,) = reply_item["probs"]
            indexed_logits.append((int(reply_item["index"]), float(logit)))
        return scores_in_order(indexed_logits, prompt_count)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise BadReply(
            f"expected a /classify reply with one number for each of {prompt_count} prompts"
        ) from None  # the error may quote the reply


def _load_manifest(folder: Path) -> dict[str, Any]:
    manifest_path = folder / MANIFEST
    try:
        export_manifest = json.loads(manifest_path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{manifest_path} cannot be read: {error}; expected a folder that export() wrote"
        ) from error
    if (
        not isinstance(export_manifest, dict)
        or not export_manifest.keys() >= MANIFEST_KEYS
    ):
        raise InputError(
            f"{manifest_path} is not an exported probe: expected {sorted(MANIFEST_KEYS)}"
        )
    return export_manifest
