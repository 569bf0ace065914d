"""An exported probe behind servers that speak vLLM's ``/classify``: one, or several replicas.

Serve a folder that `denoise_lab.export` of the laboratory wrote, with a server of your own::

    vllm serve FOLDER --runner pooling --enable-prefix-caching

Prompts travel as token ids, so that the server cannot tokenise them otherwise. This module needs no torch.
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
Prompts = tuple[
    list[list[int]], list[bytes], NDArray[np.intp]
]  # ids, documents' keys, places of their texts

MANIFEST = "end.json"  # beside the exported checkpoint: layout, window, bias, scores to check a server by


class RemoteScorer:
    """Scores with the checkpoint in ``folder`` as served at ``url``, an address before ``/classify`` or several.

    Only the folder's tokenizer and manifest are read here. With several replicas a document always goes to the
    same one, so that the engine's prefix cache knows it, and to the next while that one is down; `Engine` says
    what is tried again, ``limits`` how often and how long. ``batch`` is the most prompts of a request.

    Each replica is asked at its first use, and again when it comes back: for its model (``model`` is the served
    name; None takes the only one there is), and for the scores the checkpoint must have on three fixed prompts. A
    server of another model, or one that applies an activation, is refused with `ProbeMismatch`; a server that
    leaves out the bias has it added.

    ``key_env`` names the environment variable with the key. The key is in no attribute, pickle or log.
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
        self._opened: tuple[BoundLayout, dict[str, Any]] | None = None
        self._lock = threading.Lock()
        self._served: dict[
            str, tuple[str, float]
        ] = {}  # of a replica its model, and what its logits lack
        self._asking: dict[str, asyncio.Lock] = {}

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        """Logits, higher is more relevant; float32 ``(len(texts),)``. Equal to the local `ProbeScorer`'s."""
        if not texts:
            return np.zeros(0, dtype=np.float32)
        prompts, keys, owner = self._prompts(query, texts)
        logits = self.engine.run(partial(self._logits, prompts, keys))
        return max_over_windows(logits, owner, len(texts))

    async def ascore(self, query: str, texts: Sequence[str]) -> Floats:
        """`score` without holding a thread while the server works."""
        if not texts:
            return np.zeros(0, dtype=np.float32)
        prompts, keys, owner = await run_in_pool(self._prompts, query, texts)
        logits = await self.engine.arun(partial(self._logits, prompts, keys))
        return max_over_windows(logits, owner, len(texts))

    # -- prompts, on the caller's thread ---------------------------------------------------------------------

    def _open(self) -> tuple[BoundLayout, dict[str, Any]]:
        with self._lock:
            if self._opened is None:
                manifest = _manifest(self.folder)
                HiddenStateSpec.from_dict(manifest["reading"])
                tokenizer = require(
                    "transformers", extra="end"
                ).AutoTokenizer.from_pretrained(str(self.folder))
                parts = [
                    Slot(p) if isinstance(p, str) else tuple(p)
                    for p in manifest["layout"]["parts"]
                ]
                self._opened = (
                    BoundLayout(manifest["layout"]["name"], tuple(parts), tokenizer),
                    manifest,
                )
            return self._opened

    def _prompts(self, query: str, texts: Sequence[str]) -> Prompts:
        layout, manifest = self._open()
        with self._lock:  # the tokenizer is shared
            prompts, owner = build_prompts(
                layout, [(query, t) for t in texts], manifest["window"]
            )
        return (
            [list(p.ids) for p in prompts],
            [document_key(texts[int(i)]) for i in owner],
            owner,
        )

    # -- requests, on the engine's loop ----------------------------------------------------------------------

    async def _logits(
        self, prompts: list[list[int]], keys: list[bytes], meter: Meter | None
    ) -> Floats:
        async def ask(url: str, positions: list[int]) -> list[float]:
            try:
                model, offset = await self._known(url, meter)
                given = await self._classify(
                    url, model, [prompts[i] for i in positions], meter
                )
            except RetryableError:
                self._served.pop(url, None)  # what comes back there may be another
                raise
            return [float(x) + offset for x in given]

        return fill_missing_scores(
            await self.engine.request_batches(keys, self.batch, ask)
        )

    async def _known(self, url: str, meter: Meter | None) -> tuple[str, float]:
        async with self._asking.setdefault(url, asyncio.Lock()):
            if url not in self._served:
                self._served[url] = await self._ask(url, meter)
            return self._served[url]

    async def _ask(self, url: str, meter: Meter | None) -> tuple[str, float]:
        try:
            listed = (await self.engine.request("GET", url, "/v1/models", meter=meter))[
                "data"
            ]
            names = [str(dict(m).get("id")) for m in listed]
        except (
            BadReply,
            KeyError,
            TypeError,
            ValueError,
        ):  # it lists no models: the fixed prompts decide alone
            names = []
        model = self.model or (names[0] if len(names) == 1 else str(self.folder))
        if names and model not in names:
            raise InputError(
                f"{url} serves {', '.join(names)} and not {model!r}: pass model= with one of these"
            )
        return model, await self._offset(url, model, meter)

    async def _offset(self, url: str, model: str, meter: Meter | None) -> float:
        """0 if the server's logits hold the bias, the bias if they do not."""
        manifest = self._open()[1]
        wanted = np.array([c["logit"] for c in manifest["canaries"]])
        given = await self._classify(
            url, model, [c["ids"] for c in manifest["canaries"]], meter
        )
        spread = max(1.0, float(np.abs(wanted).max()))
        for offset in (0.0, float(manifest["bias"])):
            if np.abs(given + offset - wanted).max() <= 0.05 * spread:
                return offset
        raise ProbeMismatch(
            f"{url} does not serve the checkpoint in {self.folder}: on its fixed prompts it must give "
            f"{np.round(wanted, 3).tolist()}, it gave {np.round(given, 3).tolist()}; serve that folder, and "
            "without an activation"
        )

    async def _classify(
        self, url: str, model: str, prompts: list[list[int]], meter: Meter | None
    ) -> Floats:
        body = {"model": model, "input": prompts, "use_activation": False}
        reply = await self.engine.request("POST", url, "/classify", body, meter)
        return np.array(_logits(reply, len(prompts)), dtype=np.float32)


def _logits(reply: Any, count: int) -> list[float]:
    """The one number of each prompt, in the order they were asked."""
    try:
        data = sorted(reply["data"], key=lambda item: item["index"])
        rows = [item["probs"] for item in data]
        if [item["index"] for item in data] == list(range(count)) and all(
            len(row) == 1 for row in rows
        ):
            found = [float(row[0]) for row in rows]
            if np.isfinite(found).all():
                return found
    except (KeyError, TypeError, ValueError, OverflowError):
        pass
    raise BadReply(
        f"expected a /classify reply with one number for each of {count} prompts"
    )


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read: {error}; expected a folder that export() wrote"
        ) from error
    needed = {"reading", "bias", "window", "layout", "canaries"}
    if not isinstance(found, dict) or not needed <= found.keys():
        raise InputError(f"{path} is not an exported probe: expected {sorted(needed)}")
    return found
