"""A way to denoise as plain JSON: what ``denoise.json`` holds, and the denoiser that is made of it.

``kind`` is one of `KINDS`; ``tokens`` is the budget of those that rank, in word pieces of the embedded encoder;
``folder`` is where a probe or a fitted denoiser lies, seen from the file. Nothing in the file is executed.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denoise_core._files import write_whole
from denoise_core.embedded.default import (
    default_denoiser,
    embedding_scorer,
    shared_encoder,
)
from denoise_core.embedded.encoder import EmbeddingCache
from denoise_core.embedded.fitted import load_denoiser as load_fitted
from denoise_core.end.denoiser import ENDDenoiser, OnIrrelevant
from denoise_core.end.probe import Probe
from denoise_core.end.scorer import ProbeScorer
from denoise_core.end.selection import TokenLimit
from denoise_core.errors import DenoiseError, InputError
from denoise_core.evaluate.comparison.answering import Answerer
from denoise_core.protocols import LLM, Denoiser, Scorer, expect_denoiser
from denoise_core.s2a import S2ADenoiser
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.scorers.encoders import CrossEncoderScorer

FORMAT, VERSION = "rag-denoise setting", 1
SETTING_FILE = "denoise.json"
KINDS = (
    "everything",
    "first",
    "default",
    "bm25",
    "cosine",
    "cross-encoder",
    "probe",
    "fitted",
    "s2a",
)


class OriginalOrderScorer:
    """A scorer that asks nothing: earlier texts score higher. "Just lower k" as a denoiser."""

    listwise = True

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """0, -1, -2 ...; float32 ``(len(texts),)``."""
        return -np.arange(len(texts), dtype=np.float32)


def denoiser_from_setting(
    setting: Mapping[str, Any], *, llm: LLM | None = None, model: Any = None
) -> Denoiser:
    """The denoiser that ``setting`` describes.

    ``llm`` is what S2A asks; ``model`` is the probe's, where it does not lie under the name it was fitted by.
    Raises `InputError` for a kind or value that is not known, and for S2A without ``llm``.
    """
    kind = setting.get("kind")
    if kind == "everything":
        return ENDDenoiser(OriginalOrderScorer(), threshold=-math.inf)
    if kind == "default":
        return default_denoiser(setting.get("keep", "auto"), chunker="auto")
    if kind == "fitted":
        return load_fitted(_text(setting, "folder"), model)
    if kind == "s2a":
        if llm is None:
            raise InputError(
                "this setting asks a model: pass llm=, the core LLM it was measured with or another"
            )
        return S2ADenoiser(llm, variant=setting.get("variant", "select"))
    makers: dict[Any, Any] = {
        "first": OriginalOrderScorer,
        "bm25": BM25Scorer,
        "cosine": embedding_scorer,
        "cross-encoder": lambda: CrossEncoderScorer(_text(setting, "model")),
        "probe": lambda: load_probe_scorer(
            Path(_text(setting, "folder")),
            setting.get("model") if model is None else model,
        ),
    }
    if kind not in makers:
        raise InputError(
            f"kind: {kind!r} is not known; expected one of {', '.join(KINDS)}"
        )
    tokens = setting.get("tokens")
    if not isinstance(tokens, int) or isinstance(tokens, bool):
        raise InputError(f"tokens: expected a whole number, got {tokens!r}")
    scorer: Scorer = makers[kind]()
    return ENDDenoiser(
        scorer, keep=TokenLimit(tokens, shared_encoder().count_tokens), chunker="auto"
    )


def save_setting(
    path: str | Path, setting: Mapping[str, Any], evidence: Mapping[str, Any]
) -> Path:
    """Write ``setting`` with what speaks for it. A ``folder`` is written as seen from the file."""
    path = Path(path)
    own = dict(setting)
    if "folder" in own:
        own["folder"] = Path(
            os.path.relpath(own["folder"], path.resolve().parent)
        ).as_posix()
    record = {
        "format": FORMAT,
        "version": VERSION,
        "denoiser": own,
        "evidence": dict(evidence),
    }
    write_whole(
        path, json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    )
    return path


def read_setting(path: str | Path) -> dict[str, Any]:
    """The setting in a file that `save_setting` wrote. Raises `InputError` for anything else."""
    path = Path(path)
    try:
        record = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path} holds no setting, as 'rag-denoise evaluate' writes it ({error})"
        ) from error
    if (
        not isinstance(record, dict)
        or record.get("format") != FORMAT
        or record.get("version") != VERSION
    ):
        raise InputError(
            f'{path} is no setting of this release: expected "format": "{FORMAT}"'
        )
    setting = record.get("denoiser")
    if not isinstance(setting, dict) or setting.get("kind") not in KINDS:
        raise InputError(
            f"{path}: 'denoiser' must name a kind, one of {', '.join(KINDS)}"
        )
    if isinstance(setting.get("folder"), str):
        setting = {**setting, "folder": str(path.resolve().parent / setting["folder"])}
    return setting


def load_denoiser(
    path: str | Path,
    model: Any = None,
    *,
    keep: float | int | str | None = None,
    risk: float | None = None,
    on_irrelevant: OnIrrelevant = "keep",
    llm: LLM | None = None,
) -> Denoiser:
    """The denoiser in ``path``: a ``denoise.json`` of ``rag-denoise evaluate``, or what ``rag-denoise fit`` wrote.

    ``model`` is a probe's, by name, path or object, where it does not lie under the name it was fitted by; ``llm``
    what a setting of S2A asks. The others are those of `embedded.fitted.load_denoiser` and for its folders alone:
    a ``denoise.json`` says itself how much is kept. Raises `InputError` for anything else.
    """
    path = Path(path)
    if path.is_dir() and not (path / SETTING_FILE).is_file():
        return load_fitted(
            path, model, keep=keep, risk=risk, on_irrelevant=on_irrelevant
        )
    if keep is not None or risk is not None or on_irrelevant != "keep":
        raise InputError(
            f"{path} says itself how much is kept: give it nothing but model and llm"
        )
    return denoiser_from_setting(
        read_setting(path / SETTING_FILE if path.is_dir() else path),
        llm=llm,
        model=model,
    )


def load_probe_scorer(
    folder: str | Path, model: Any = None, *, load_now: bool = False
) -> ProbeScorer:
    """END's scorer by the probe in ``folder``, on ``model`` or, without one, on the model that its card names.

    ``at_once`` opens the model now and not at the first use. Raises then `ProbeMismatch` when it is not the
    probe's, `InputError` when it cannot be opened.
    """
    probe = Probe.load(folder)
    scorer = ProbeScorer(probe.reading.model.name if model is None else model, probe)
    if not load_now:
        return scorer
    try:
        scorer.score("?", ["?"])
    except DenoiseError:
        raise
    except (OSError, ValueError) as error:
        named = (
            f"belongs to the model {probe.reading.model.name!r}"
            if model is None
            else f"is to read {model!r}"
        )
        raise InputError(
            f"the probe in {folder} {named}, which cannot be opened ({error}); name the model's folder: "
            "--llm FOLDER, in Python model="
        ) from error
    return scorer


def _text(setting: Mapping[str, Any], name: str) -> str:
    value = setting.get(name)
    if not isinstance(value, str):
        raise InputError(f"{name}: expected a text, got {value!r}")
    return value


EVERYTHING = "everything"
SAME_BUDGET = "same"  # as many tokens as the default keeps on average


@dataclass(frozen=True, slots=True)
class Strategy:
    """``setting`` is the way as plain JSON (`comparison.setting`), None for a denoiser that only Python knows.

    ``{"tokens": "same"}`` stands for as many tokens as the default keeps on average over these questions.
    ``answerer`` answers in the place of the evaluation's, for a way that is more than what is kept.
    """

    name: str
    setting: Mapping[str, Any] | None = None
    denoiser: Denoiser | None = None
    answerer: Answerer | None = None

    def ready(self, budget: int | None, llm: LLM | None = None) -> Strategy:
        """The way with its denoiser made; ``budget`` is in tokens. Raises `InputError` as `denoiser_of`."""
        if self.denoiser is not None:
            return self
        assert self.setting is not None
        own = dict(self.setting)
        if own.get("tokens") == SAME_BUDGET:
            if budget is None:
                raise InputError(
                    f"way {self.name!r}: 'same' tokens as the default, which is not among the ways"
                )
            own["tokens"] = budget
        return replace(self, setting=own, denoiser=denoiser_from_setting(own, llm=llm))


STANDARD = (
    Strategy(EVERYTHING, {"kind": "everything"}),
    Strategy("default", {"kind": "default", "keep": "auto"}),
    Strategy("first", {"kind": "first", "tokens": SAME_BUDGET}),
    Strategy("BM25", {"kind": "bm25", "tokens": SAME_BUDGET}),
    Strategy("cosine", {"kind": "cosine", "tokens": SAME_BUDGET}),
)
"""What is compared unless said otherwise; all run offline."""


def ways_of(
    given: Mapping[str, Strategy | Denoiser | Mapping[str, Any]]
    | Sequence[Strategy]
    | None,
) -> list[Strategy]:
    """`STANDARD` with what a user names, a `Way`, a denoiser or a setting; a sequence is taken alone, behind
    everything."""
    if given is not None and not isinstance(given, Mapping):
        return list({EVERYTHING: STANDARD[0], **{w.name: w for w in given}}.values())
    out = {w.name: w for w in STANDARD}
    for name, way in (given or {}).items():
        if isinstance(way, Strategy):
            out[name] = replace(way, name=name)
        elif isinstance(way, Mapping):
            out[name] = Strategy(name, way)
        else:
            out[name] = Strategy(name, None, expect_denoiser(way, f"ways[{name!r}]"))
    return list(out.values())


@contextmanager
def cold_cache() -> Iterator[None]:
    """For the time within, the embedded encoder has read nothing: what a question costs the first time."""
    own = shared_encoder()
    before = own.embedding_cache
    own.embedding_cache = EmbeddingCache(before.model)
    try:
        yield
    finally:
        own.embedding_cache = before
