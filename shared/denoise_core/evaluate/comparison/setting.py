"""Strategies as plain JSON: what ``denoise.json`` holds, and the denoiser it describes.

A setting has a ``kind``, one of `SETTING_KINDS`. Those that rank also have ``tokens``, the
budget per question in word pieces of the embedded encoder; a fitted denoiser has its
``folder``, relative to the file. Nothing in the file is executed. A new kind goes into
`denoiser_from_setting`.
"""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from denoise_core._files import write_whole
from denoise_core.embedded.default import (
    default_denoiser,
    embedding_scorer,
    shared_encoder,
)
from denoise_core.embedded.encoder import EmbeddingCache
from denoise_core.embedded.fitted import load_fitted_denoiser
from denoise_core.end.denoiser import ENDDenoiser, OnIrrelevant
from denoise_core.end.selection import TokenLimit
from denoise_core.errors import InputError
from denoise_core.evaluate.comparison.answering import Answerer
from denoise_core.protocols import LLM, Denoiser, Scorer, expect_denoiser
from denoise_core.s2a import S2ADenoiser
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.scorers.encoders import CrossEncoderScorer, check_model_loads

FORMAT = "rag-denoise setting"
VERSION = 1
SETTING_FILE = "denoise.json"
EVERYTHING = "everything"
SAME_BUDGET = "same"  # as many tokens as the default keeps on average
RANKING_KINDS = ("first", "bm25", "cosine", "cross-encoder")
SETTING_KINDS = (EVERYTHING, "default", "fitted", "s2a", *RANKING_KINDS)


class OriginalOrderScorer:
    """A scorer without a model: earlier texts score higher, as if k were just lower."""

    listwise = True

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return 0, -1, -2 ...; float32 ``(len(texts),)``."""
        return -np.arange(len(texts), dtype=np.float32)


def denoiser_from_setting(
    setting: Mapping[str, Any], *, llm: LLM | None = None, model: Any = None
) -> Denoiser:
    """Build the denoiser that a setting describes.

    Args:
        setting: The setting as plain JSON.
        llm: The model that S2A asks.
        model: The probe's model, when its name at the fit does not lead to it here.

    Raises:
        InputError: A kind or value is unknown, S2A has no ``llm``, or a named model
            cannot be loaded.
    """
    setting_kind = setting.get("kind")
    if setting_kind == EVERYTHING:
        return ENDDenoiser(OriginalOrderScorer(), threshold=-math.inf)
    if setting_kind == "default":
        return default_denoiser(setting.get("keep", "auto"), chunker="auto")
    if setting_kind == "fitted":
        return load_fitted_denoiser(_text_field(setting, "folder"), model)
    if setting_kind == "s2a":
        if llm is None:
            raise InputError(
                "this setting asks a model: pass llm=, the core LLM it was measured with "
                "or another"
            )
        return S2ADenoiser(llm, variant=setting.get("variant", "select"))
    if setting_kind not in RANKING_KINDS:
        raise InputError(
            f"kind: {setting_kind!r} is not known; expected one of {', '.join(SETTING_KINDS)}"
        )
    token_count = setting.get("tokens")
    if not isinstance(token_count, int) or isinstance(token_count, bool):
        raise InputError(f"tokens: expected a whole number, got {token_count!r}")
    token_limit = TokenLimit(token_count, shared_encoder().count_tokens)
    ranking_scorer = _ranking_scorer(setting)
    return ENDDenoiser(ranking_scorer, keep=token_limit, chunker="auto")


def _ranking_scorer(setting: Mapping[str, Any]) -> Scorer:
    setting_kind = setting["kind"]
    if setting_kind == "cross-encoder":
        model_name = _text_field(setting, "model")
        scorer = CrossEncoderScorer(model_name)
        check_model_loads(scorer, model_name)
        return scorer
    scorer_builders: dict[str, Callable[[], Scorer]] = {
        "first": OriginalOrderScorer,
        "bm25": BM25Scorer,
        "cosine": embedding_scorer,
    }
    return scorer_builders[setting_kind]()


def save_setting(
    path: str | Path, setting: Mapping[str, Any], evidence: Mapping[str, Any]
) -> Path:
    """Write a setting and the evidence for it; its ``folder`` becomes relative to the file."""
    path = Path(path)
    stored_setting = dict(setting)
    if "folder" in setting:
        relative_path = os.path.relpath(setting["folder"], path.resolve().parent)
        stored_setting["folder"] = Path(relative_path).as_posix()
    json_record = {
        "format": FORMAT,
        "version": VERSION,
        "denoiser": stored_setting,
        "evidence": dict(evidence),
    }
    json_text = json.dumps(json_record, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(path, json_text + "\n")
    return path


def describe_use(setting: Mapping[str, Any], path: str | Path) -> str:
    """Return what to type to denoise by a setting that is stored at ``path``.

    Files on a disk have no order of relevance, so what goes by a retriever's order is used
    in Python, after the retriever.
    """
    setting_kind = setting.get("kind")
    if setting_kind in (EVERYTHING, "first"):
        return (
            "in Python, on the passages in your retriever's order: from denoise_core "
            f"import load_denoiser; load_denoiser({str(path)!r}).denoise(query, passages)"
        )
    command = f"rag-denoise run --denoiser {shlex.quote(str(path))} -q ... -p ..."
    if setting_kind == "s2a":
        command += " --llm http://host:port/v1#name"
    return command


def read_setting(path: str | Path) -> dict[str, Any]:
    """Read the setting in a file that `save_setting` wrote.

    Raises:
        InputError: The file holds anything else.
    """
    path = Path(path)
    try:
        json_record = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path} holds no setting, as 'rag-denoise evaluate' writes it ({error})"
        ) from error
    expected_header = {"format": FORMAT, "version": VERSION}
    if (
        not isinstance(json_record, dict)
        or not expected_header.items() <= json_record.items()
    ):
        raise InputError(
            f'{path} is no setting of this release: expected "format": "{FORMAT}"'
        )
    setting = json_record.get("denoiser")
    if not isinstance(setting, dict) or setting.get("kind") not in SETTING_KINDS:
        raise InputError(
            f"{path}: 'denoiser' must name a kind, one of {', '.join(SETTING_KINDS)}"
        )
    if isinstance(setting.get("folder"), str):
        setting["folder"] = str(path.resolve().parent / setting["folder"])
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
    """Load the denoiser that ``rag-denoise evaluate`` or ``rag-denoise fit`` wrote.

    Args:
        path: A ``denoise.json``, its folder, or the folder of a fitted denoiser.
        model: A probe's model, by name, path or object, when its name at the fit does not
            lead to it here.
        keep: Only for a fitted denoiser, as in `embedded.fitted.load_fitted_denoiser`; a
            ``denoise.json`` says itself how much is kept. So for ``risk`` and
            ``on_irrelevant``.
        risk: See ``keep``.
        on_irrelevant: See ``keep``.
        llm: What a setting of S2A asks.

    Raises:
        InputError: The path holds anything else, or names a model that cannot be loaded.
    """
    path = Path(path)
    if path.is_dir() and not (path / SETTING_FILE).is_file():
        return load_fitted_denoiser(
            path, model, keep=keep, risk=risk, on_irrelevant=on_irrelevant
        )
    if (keep, risk, on_irrelevant) != (None, None, "keep"):
        raise InputError(
            f"{path} says itself how much is kept: give it nothing but model and llm"
        )
    setting_path = path / SETTING_FILE if path.is_dir() else path
    return denoiser_from_setting(read_setting(setting_path), llm=llm, model=model)


def _text_field(setting: Mapping[str, Any], name: str) -> str:
    field_value = setting.get(name)
    if not isinstance(field_value, str):
        raise InputError(f"{name}: expected a text, got {field_value!r}")
    return field_value


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to denoise, to compare with others.

    Attributes:
        name: The name in the report.
        setting: The strategy as plain JSON; None for a denoiser that only Python knows.
            ``{"tokens": "same"}`` means as many tokens as the default keeps on average.
        denoiser: The denoiser, when it is built.
        answerer: Answers instead of the evaluation's answerer, for a strategy that does
            more than keep text.
    """

    name: str
    setting: Mapping[str, Any] | None = None
    denoiser: Denoiser | None = None
    answerer: Answerer | None = None

    def has(self, field_name: str, field_value: str) -> bool:
        """Whether the setting has this value."""
        return self.setting is not None and self.setting.get(field_name) == field_value

    def with_denoiser(
        self, token_budget: float | None, llm: LLM | None = None
    ) -> Strategy:
        """Build the denoiser. Raises `InputError` as `denoiser_from_setting` does."""
        if self.denoiser is not None:
            return self
        assert self.setting is not None
        setting = dict(self.setting)
        if self.has("tokens", SAME_BUDGET):
            if token_budget is None:
                raise InputError(
                    f"strategy {self.name!r}: 'same' tokens as the default, which is not "
                    "among the strategies"
                )
            setting["tokens"] = max(1, round(token_budget))
        built_denoiser = denoiser_from_setting(setting, llm=llm)
        return replace(self, setting=setting, denoiser=built_denoiser)


StrategySource: TypeAlias = Strategy | Denoiser | Mapping[str, Any]

STANDARD_STRATEGIES = (
    Strategy(EVERYTHING, {"kind": EVERYTHING}),
    Strategy("default", {"kind": "default", "keep": "auto"}),
    Strategy("first", {"kind": "first", "tokens": SAME_BUDGET}),
    Strategy("BM25", {"kind": "bm25", "tokens": SAME_BUDGET}),
    Strategy("cosine", {"kind": "cosine", "tokens": SAME_BUDGET}),
)
"""What is compared when nothing else is given; all run offline."""


def select_strategies(
    strategies: Mapping[str, StrategySource] | Sequence[Strategy] | None,
) -> list[Strategy]:
    """Add the user's strategies to the standard ones; a sequence only to everything."""
    if strategies is not None and not isinstance(strategies, Mapping):
        by_name = {EVERYTHING: STANDARD_STRATEGIES[0]}
        by_name |= {strategy.name: strategy for strategy in strategies}
        return list(by_name.values())
    by_name = {strategy.name: strategy for strategy in STANDARD_STRATEGIES}
    for name, strategy_source in (strategies or {}).items():
        if name == EVERYTHING:
            raise InputError(
                f"strategies[{name!r}]: all passages, the bar for the others, are always "
                "compared; take another name"
            )
        if isinstance(strategy_source, Strategy):
            by_name[name] = replace(strategy_source, name=name)
        elif isinstance(strategy_source, Mapping):
            by_name[name] = Strategy(name, strategy_source)
        else:
            built_denoiser = expect_denoiser(strategy_source, f"strategies[{name!r}]")
            by_name[name] = Strategy(name, denoiser=built_denoiser)
    return list(by_name.values())


@contextmanager
def empty_embedding_cache() -> Iterator[None]:
    """Let the encoder start without embeddings, to time the first question about a text."""
    default_encoder = shared_encoder()
    full_cache = default_encoder.embedding_cache
    default_encoder.embedding_cache = EmbeddingCache(full_cache.model)
    try:
        yield
    finally:
        default_encoder.embedding_cache = full_cache
