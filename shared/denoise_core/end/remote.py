"""An exported probe behind an HTTP endpoint that speaks vLLM's ``/classify``.

Serve a folder that `denoise_core.end.export` wrote, with a server of your own::

    vllm serve FOLDER --runner pooling --enable-prefix-caching

Prompts travel as token ids, so that the server cannot tokenise them otherwise. This module needs no torch.
"""

from __future__ import annotations

import json
import threading
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.end.probe import Reading
from denoise_core.end.prompting import best_of_parts, prompts_of
from denoise_core.errors import InputError, ProbeMismatch
from denoise_core.local.layout import BoundLayout, Slot

Floats = NDArray[np.float32]

MANIFEST = "end.json"  # beside the exported checkpoint: layout, window, bias, scores to check a server by


class RemoteScorer:
    """Scores with the checkpoint in ``folder`` as served at ``url`` (the address before ``/classify``).

    Only the folder's tokenizer and manifest are read here. ``model`` is the served name, by default the
    folder as given. The first use asks for the scores the checkpoint must have on three fixed prompts: a
    server of another model, or one that applies an activation, is refused with `ProbeMismatch`; a server
    that leaves out the bias has it added. Errors of the connection come through as urllib raises them.
    """

    def __init__(
        self,
        url: str,
        folder: str | Path,
        *,
        model: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        batch: int = 64,
    ) -> None:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise InputError(f"url={url!r}: expected an http or https address")
        if batch < 1:
            raise InputError(f"batch={batch}: expected 1 or more")
        self.url = url.rstrip("/") + "/classify"
        self.folder = Path(folder)
        self.model = model or str(folder)
        self.timeout = timeout
        self.batch = batch
        self._headers = {"Content-Type": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._opened: tuple[BoundLayout, int | None, float] | None = None
        self._lock = threading.Lock()

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        """Logits, higher is more relevant; float32 ``(len(texts),)``. Equal to the local `ProbeScorer`'s."""
        if not texts:
            return np.zeros(0, dtype=np.float32)
        with self._lock:  # the tokenizer is shared
            layout, window, offset = self._open()
            prompts, owner = prompts_of(layout, [(query, t) for t in texts], window)
        logits = self._classify([list(p.ids) for p in prompts]) + np.float32(offset)
        return best_of_parts(logits, owner, len(texts))

    def _open(self) -> tuple[BoundLayout, int | None, float]:
        if self._opened is None:
            manifest = _manifest(self.folder)
            Reading.from_dict(manifest["reading"])
            tokenizer = require("transformers", extra="end").AutoTokenizer.from_pretrained(str(self.folder))
            parts = [Slot(p) if isinstance(p, str) else tuple(p) for p in manifest["layout"]["parts"]]
            layout = BoundLayout(manifest["layout"]["name"], tuple(parts), tokenizer)
            self._opened = layout, manifest["window"], self._offset(manifest)
        return self._opened

    def _offset(self, manifest: dict[str, Any]) -> float:
        """0 if the server's logits hold the bias, the bias if they do not."""
        wanted = np.array([c["logit"] for c in manifest["canaries"]])
        given = self._classify([c["ids"] for c in manifest["canaries"]])
        spread = max(1.0, float(np.abs(wanted).max()))
        for offset in (0.0, float(manifest["bias"])):
            if np.abs(given + offset - wanted).max() <= 0.05 * spread:
                return offset
        raise ProbeMismatch(
            f"{self.url} does not serve the checkpoint in {self.folder}: on its fixed prompts it must give "
            f"{np.round(wanted, 3).tolist()}, it gave {np.round(given, 3).tolist()}; serve that folder, and "
            "without an activation"
        )

    def _classify(self, prompts: Sequence[list[int]]) -> Floats:
        out: list[float] = []
        for start in range(0, len(prompts), self.batch):
            some = list(prompts[start : start + self.batch])
            body = json.dumps({"model": self.model, "input": some, "use_activation": False}).encode()
            request = urllib.request.Request(self.url, data=body, headers=self._headers, method="POST")
            with urllib.request.urlopen(request, timeout=self.timeout) as reply:
                out += _logits(json.loads(reply.read()), len(some))
        return np.array(out, dtype=np.float32)


def _logits(reply: Any, count: int) -> list[float]:
    """The one number of each prompt, in the order they were asked."""
    try:
        data = sorted(reply["data"], key=lambda item: item["index"])
        rows = [item["probs"] for item in data]
        if [item["index"] for item in data] == list(range(count)) and all(len(row) == 1 for row in rows):
            return [float(row[0]) for row in rows]
    except (KeyError, TypeError, ValueError):
        pass
    raise InputError(
        f"expected a /classify reply with one number for each of {count} prompts, got {json.dumps(reply)[:200]}"
    )


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}; expected a folder that export() wrote") from error
    needed = {"reading", "bias", "window", "layout", "canaries"}
    if not isinstance(found, dict) or not needed <= found.keys():
        raise InputError(f"{path} is not an exported probe: expected {sorted(needed)}")
    return found
