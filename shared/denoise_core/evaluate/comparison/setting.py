"""Strategies as plain JSON: what ``denoise.json`` holds, and the denoiser it describes.

A setting has a ``kind``, one of `SETTING_KINDS`. Those that rank also have ``tokens``, the
budget per question in word pieces of the embedded encoder, or ``keep``, as `ENDDenoiser`
takes it; a fitted denoiser has its
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
from typing import Any, TypeAlias, cast

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
from denoise_core.end.selection import KeepSetting, TokenLimit
from denoise_core.errors import InputError, format_error
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
# By the work of choosing what is kept, least first.
SETTING_KINDS = (
    EVERYTHING,
    "first",
    "bm25",
    "cosine",
    "default",
    "fitted",
    "cross-encoder",
    "s2a",
)


class OriginalOrderScorer:
    """A scorer without a model: earlier texts score higher, as if k were just lower."""

    listwise = True

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return 0, -1, -2 ...; float32 ``(len(texts),)``."""
        text_count = len(texts)
        return -np.arange(text_count, dtype=np.float32)


SCORER_BUILDERS: dict[Any, Callable[[], Scorer]] = {
    "first": OriginalOrderScorer,
    "bm25": BM25Scorer,
    "cosine": embedding_scorer,
}


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
    kind = setting.get("kind")
    if kind == EVERYTHING:
        order_scorer = OriginalOrderScorer()
        return ENDDenoiser(order_scorer, threshold=-math.inf)
    if kind == "fitted":
        fitted_folder = _text_field(setting, "folder")
        return load_fitted_denoiser(fitted_folder, model)
    if kind == "s2a":
        if llm is None:
            raise InputError(
                "this setting asks a model: pass llm= in Python, or name one with --llm "
                "of 'rag-denoise run', such as http://localhost:8000/v1#name"
            )
        s2a_variant = setting.get("variant", "select")
        return S2ADenoiser(llm, variant=s2a_variant)
    if kind == "default":
        keep = _keep_rule({"keep": None, **setting})
        if keep is None:
            keep = "auto"
        return default_denoiser(keep, chunker="auto")
    if kind == "cross-encoder":
        model_name = _text_field(setting, "model")
        scorer: Scorer = CrossEncoderScorer(model_name)
        check_model_loads(scorer, model_name)
    elif kind in SCORER_BUILDERS:
        scorer = SCORER_BUILDERS[kind]()
    else:
        raise InputError(
            f"kind: {kind!r} is not known; expected one of {', '.join(SETTING_KINDS)}"
        )
    return ENDDenoiser(scorer, keep=_keep_rule(setting), chunker="auto")


def _keep_rule(setting: Mapping[str, Any]) -> KeepSetting | None:
    """How much is kept: ``tokens``, else ``keep``."""
    token_count = setting.get("tokens")
    if token_count is None and "keep" in setting:
        return cast("KeepSetting | None", setting["keep"])
    if not isinstance(token_count, int) or isinstance(token_count, bool):
        raise InputError(f"tokens: expected a whole number, got {token_count!r}")
    default_encoder = shared_encoder()
    return TokenLimit(token_count, default_encoder.count_tokens)


def save_setting(
    path: str | Path, setting: Mapping[str, Any], evidence: Mapping[str, Any]
) -> Path:
    """Write a setting and the evidence for it; its ``folder`` becomes relative to the file."""
    path = Path(path)
    stored_setting = dict(setting)
    if "folder" in setting:
        file_folder = path.resolve().parent
        relative_path = os.path.relpath(setting["folder"], file_folder)
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
        file_text = path.read_text("utf-8-sig")
        json_record = json.loads(file_text)
        stored_version = (json_record["format"], json_record["version"])
        if stored_version != (FORMAT, VERSION):
            raise ValueError("it is of another release")
        setting = dict(json_record["denoiser"])
        setting_kind = setting["kind"]
        SETTING_KINDS.index(setting_kind)
        if "folder" in setting:
            file_folder = path.resolve().parent
            fitted_folder = file_folder / setting["folder"]
            setting["folder"] = str(fitted_folder)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path} holds no setting, as 'rag-denoise evaluate' writes it "
            f"({format_error(error)})"
        ) from error
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
    setting_path = path
    if path.is_dir():
        setting_path = path / SETTING_FILE
    stored_setting = read_setting(setting_path)
    return denoiser_from_setting(stored_setting, llm=llm, model=model)


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
        if self.setting is None:
            return False
        return bool(self.setting.get(field_name) == field_value)

    @property
    def can_be_saved(self) -> bool:
        """Whether its setting says all that it does."""
        return self.setting is not None and self.answerer is None

    @property
    def work_rank(self) -> int:
        """The place of the setting's kind in `SETTING_KINDS`."""
        if self.setting is None:
            return len(SETTING_KINDS)
        return SETTING_KINDS.index(self.setting["kind"])

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
            whole_tokens = round(token_budget)
            setting["tokens"] = max(1, whole_tokens)
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
    if strategies is None or isinstance(strategies, Mapping):
        selected = list(STANDARD_STRATEGIES)
        own_strategies = strategies or {}
        for name, source in own_strategies.items():
            own_strategy = _as_strategy(name, source)
            selected.append(own_strategy)
    else:
        selected = [STANDARD_STRATEGIES[0], *strategies]
    strategy_by_name = {strategy.name: strategy for strategy in selected}
    return list(strategy_by_name.values())


def _as_strategy(name: str, source: StrategySource) -> Strategy:
    if name == EVERYTHING:
        raise InputError(
            f"strategies[{name!r}]: all passages, the bar for the others, are always "
            "compared; take another name"
        )
    if isinstance(source, Strategy):
        return replace(source, name=name)
    if isinstance(source, Mapping):
        return Strategy(name, source)
    given_denoiser = expect_denoiser(source, f"strategies[{name!r}]")
    return Strategy(name, denoiser=given_denoiser)


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
