"""Selection rules: which chunks to keep, given one score per chunk.

Every rule implements `KeepRule`; `rule_for` builds one from the short forms that
`ENDDenoiser` accepts, `select_chunks` applies it within ``min_keep`` and ``max_keep``.

``keep="auto"`` is `MarginRule`: keep what is within a margin of the list's best score.
A fraction keeps as much of every list, however clear its scores are. A margin keeps
little when one passage is far ahead and much when many are alike. `ScoreCalibration`
holds the margins, found by conformal risk control (`denoise_core.end.calibration`).

The best of many irrelevant scores is higher than the best of few, so distances grow
with the length of the list. They are counted in units of ``log(1 + n) / log(11)``:
a margin is that of a list of ten. It grows no further than to `LONG_LIST` chunks or the
longest list of the calibration: in lists of six sets, filled up to 400 and 800
passages, the margin of 30 loses less of the relevant ones than in the sets' own lists
(.09 and .07 against .11), in .07 of the passages. An unbounded margin keeps half of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from denoise_core.errors import BadScores, InputError
from denoise_core.spans import passage_spans, tile_spans
from denoise_core.text.documents import DocumentReader, number_documents
from denoise_core.text.language import identify_language
from denoise_core.text.token_budget import TokenBudget, estimate_tokens
from denoise_core.types import Passage, Span, join_header, replace_surrogates

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]

MIN_KEPT = 2  # chunks that keep="auto" keeps at least: two-part questions are common
SHORT_LIST = (
    4  # at most this many chunks: too few to compare, only the worst is dropped
)
NEARLY_ALL = 0.9  # share of kept chunks above which a note says that nothing was gained
LONG_LIST = 30  # chunks up to which margins grow, however short calibration lists were
DEFAULT_RISK = 0.10
PIECES_RISK = 0.06  # for files: losing a point less costs hundredths of the text
DOCUMENT_FACTOR = 1.5  # of the margin, for the best piece of each document
DOCUMENT_PENALTY = 0.6  # of how far a document's best piece is below the best of all
PASSAGE_LISTS = "lists of passages"  # kinds of input, as the trace names them
FILE_PIECES = "pieces of files"
LANGUAGE_SAMPLE = 4000  # characters of the passages, to detect their language
SAMPLED_PASSAGES = 20
TOO_CLOSE = "scores too close to separate"
LANGUAGE_NAMES = {
    "en": "English",
    "de": "German",
    "fr": "French",
    "es": "Spanish",
    "zh": "Chinese",
    "ja": "Japanese",
    "ko": "Korean",
    "ar": "Arabic",
    "he": "Hebrew",
    "ru": "Russian",
    "el": "Greek",
    "th": "Thai",
    "hi": "Hindi",
}


@dataclass(frozen=True, slots=True)
class Selection:
    """What a rule decided: one row per chunk, or per part if a token budget split it.

    Attributes:
        spans: The chunks or parts.
        scores: float32 ``(n,)``; minus infinity for chunks that were not scored.
        kept: bool ``(n,)``.
        reasons: Why each row would be dropped.
        notes: Remarks for ``DenoiseResult.note``.
        evicted_headers: Context spans of kept chunks that the budget had no room for.
    """

    spans: Sequence[Span]
    scores: Floats
    kept: Mask
    reasons: Sequence[str]
    notes: tuple[str, ...] = ()
    evicted_headers: frozenset[Span] = frozenset()


class KeepRule(Protocol):
    """Decides by score which chunks to keep."""

    def choose(self, scores: Floats, texts: Sequence[str]) -> Mask:
        """True for each chunk to keep; ``scores`` is ``(n,)`` without NaN."""
        ...

    def reason(self) -> str:
        """Why the other chunks are dropped."""
        ...


@dataclass(frozen=True, slots=True)
class TopFraction:
    """The best ``fraction`` of the scored chunks, between 0 and 1, rounded up.

    The paper keeps 0.3. Headings and markup are not scored and do not count.
    """

    fraction: float

    def __post_init__(self) -> None:
        if not 0 < self.fraction < 1:
            raise InputError(
                f"keep={self.fraction!r}: a fraction is between 0 and 1, such as 0.3. "
                "Write keep=1 for the best chunk alone, or threshold=-math.inf to "
                "keep all"
            )

    def choose(self, scores: Floats, texts: Sequence[str]) -> Mask:
        """The `fraction_count` best chunks."""
        scored_count = int((scores > -np.inf).sum())
        return top_k_mask(scores, fraction_count(self.fraction, scored_count))

    def reason(self) -> str:
        """Why the other chunks are dropped."""
        return f"not among the best {100 * self.fraction:g} %"


@dataclass(frozen=True, slots=True)
class TopK:
    """The best ``k`` chunks."""

    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise InputError(f"keep={self.k}: expected 1 chunk or more")

    def choose(self, scores: Floats, texts: Sequence[str]) -> Mask:
        """The ``k`` best chunks."""
        return top_k_mask(scores, self.k)

    def reason(self) -> str:
        """Why the other chunks are dropped."""
        return f"not among the best {self.k}"


@dataclass(frozen=True, slots=True)
class ScoreThreshold:
    """Every chunk with ``score >= threshold``, in the scorer's own unit."""

    threshold: float

    def __post_init__(self) -> None:
        if math.isnan(self.threshold):
            raise InputError("threshold is NaN: expected a number in the scorer's unit")

    def choose(self, scores: Floats, texts: Sequence[str]) -> Mask:
        """Every chunk that reaches the threshold."""
        # As Python floats: float32 would round the threshold.
        reached = scores.astype(np.float64) >= self.threshold
        return np.asarray(reached, dtype=np.bool_)

    def reason(self) -> str:
        """Why the other chunks are dropped."""
        return f"score below {self.threshold:g}"


@dataclass(frozen=True, slots=True)
class TokenLimit:
    """The best chunks, down by score, that fit into ``limit`` tokens.

    `ENDDenoiser` cuts the first chunk that does not fit at its sentences or rows
    (`denoise_core.end.budget`); worse chunks never replace it. It counts the header of
    each passage that is kept, which prompts show with the text.

    Attributes:
        limit: Tokens, 1 or more.
        count: Tokens of a text; `estimate_tokens` by default.
        drop_headers_first: Drop the headings above a chunk to make room for chunks.
    """

    limit: int
    count: Callable[[str], int] = estimate_tokens
    drop_headers_first: bool = True

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise InputError(
                f"TokenLimit({self.limit}): expected a budget of 1 token or more"
            )

    def choose(self, scores: Floats, texts: Sequence[str]) -> Mask:
        """The best texts, up to the first that does not fit: how S2A's ``keep`` takes it.

        END also cuts the text that does not fit (`denoise_core.end.budget`).
        """
        kept_mask = np.zeros(len(scores), dtype=np.bool_)
        budget = TokenBudget(self.limit, self.count)
        for i in rank_by_score(scores):
            if not budget.try_add(texts[int(i)]):
                break
            kept_mask[i] = True
        return kept_mask

    def reason(self) -> str:
        """Why the other chunks are dropped."""
        return f"over the budget of {self.limit} tokens"


@dataclass(frozen=True, slots=True)
class ScoreCalibration:
    """What a scorer's scores mean for ``keep="auto"``; ships with the scorer as JSON.

    Attributes:
        margins: For each risk the distance from the best score within which chunks of
            a list of ten are kept, in the scorer's unit.
        floor: The best score below which no passage seems relevant; None if unknown.
        top_score: The highest best score seen in calibration. A list above it is out
            of distribution and gets the widest margin.
        questions: Number of calibration questions.
        set_names: The question sets.
        piece_calibration: The calibration for pieces of a few long texts, most of
            them irrelevant; None uses this one for both kinds of input.
        language: ISO 639-1 code of the calibration texts, None if any will do.
        longest_list: Chunks of the longest calibration list; margins do not grow beyond
            it (see `list_length_factor`). None, as in files of earlier releases, if
            unknown: then they grow with every list.
    """

    margins: Mapping[float, float]
    floor: float | None
    top_score: float
    questions: int
    set_names: tuple[str, ...] = ()
    piece_calibration: ScoreCalibration | None = None
    language: str | None = None
    longest_list: int | None = None

    def __post_init__(self) -> None:
        all_numbers = [*self.margins, *self.margins.values(), self.top_score]
        for bound in (self.floor, self.longest_list):
            if bound is not None:
                all_numbers.append(bound)
        is_valid = self.margins and min(self.margins.values()) >= 0
        if not is_valid or not all(map(math.isfinite, all_numbers)):
            raise InputError(
                "a ScoreCalibration needs a finite margin of 0 or more for at least "
                "one risk"
            )

    def language_mismatch(self, *chunk_texts: str) -> str:
        """A note if texts seem to be in another language; "" if not, or if unknown."""
        if self.language is None:
            return ""
        other_names = []
        for text in chunk_texts:
            code = identify_language(text)
            name = LANGUAGE_NAMES.get(code, code)
            if code not in ("", self.language) and name not in other_names:
                other_names.append(name)
        if not other_names:
            return ""
        own_name = LANGUAGE_NAMES.get(self.language, self.language)
        return (
            f"the text looks {', '.join(other_names)}; the built-in encoder is "
            f"{own_name}-only"
        )

    def rule(self, risk: float | None = None) -> MarginRule:
        """The rule for a risk.

        Args:
            risk: Expected fraction of relevant chunks dropped; None is `DEFAULT_RISK`
                for passages and `PIECES_RISK` for pieces of files.

        Raises:
            InputError: No margin was calibrated for this risk.
        """
        piece_rule = None
        if self.piece_calibration is not None:
            piece_risk = PIECES_RISK if risk is None else risk
            piece_rule = self.piece_calibration.rule(piece_risk)
            piece_rule = replace(piece_rule, input_kind=FILE_PIECES)
        if risk is None:
            risk = DEFAULT_RISK
        for known_risk, margin in self.margins.items():
            if math.isclose(known_risk, risk, abs_tol=1e-6):
                return MarginRule(self, risk, margin, piece_rule)
        known_risks = ", ".join(
            f"{known_risk:g}" for known_risk in sorted(self.margins)
        )
        raise InputError(
            f"risk={risk}: this scorer's keep='auto' is calibrated for {known_risks}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; `from_dict` reads it."""
        margins = {f"{risk:g}": self.margins[risk] for risk in sorted(self.margins)}
        json_fields: dict[str, Any] = {
            "margins": margins,
            "floor": self.floor,
            "top": self.top_score,
            "questions": self.questions,
            "sets": list(self.set_names),
            "language": self.language,
            "longest_list": self.longest_list,
        }
        if self.piece_calibration is not None:
            json_fields["pieces"] = self.piece_calibration.to_dict()
        return json_fields

    @classmethod
    def from_dict(cls, json_data: Mapping[str, Any]) -> ScoreCalibration:
        """Raises `InputError` for missing fields or values that are not numbers."""
        try:
            margins = {}
            for risk, margin in json_data["margins"].items():
                margins[float(risk)] = float(margin)
            pieces = json_data.get("pieces")
            if pieces is not None:
                pieces = cls.from_dict(pieces)
            return cls(
                margins,
                json_data["floor"],
                json_data["top"],
                int(json_data["questions"]),
                tuple(map(str, json_data.get("sets", ()))),
                pieces,
                json_data.get("language"),
                json_data.get("longest_list"),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"not a ScoreCalibration: {error!r}; expected margins, floor, top and "
                "questions"
            ) from error


@dataclass(frozen=True, slots=True)
class MarginRule:
    """Keeps chunks within ``margin * list_length_factor(n, ...)`` of the best score.

    At least `MIN_KEPT` chunks are kept; of `SHORT_LIST` chunks or fewer only the worst
    is dropped. A list whose best score is above the calibration's ``top_score`` is out
    of distribution: there the widest margin, that of the smallest risk, decides.

    ``documents`` are the numbers of the documents that pieces of files are from, one per
    chunk; with them distances are those of `score_distances`.
    """

    calibration: ScoreCalibration
    risk: float
    margin: float
    piece_rule: MarginRule | None = None
    input_kind: str = PASSAGE_LISTS
    documents: tuple[int, ...] = ()
    has_one_answer: bool = False

    def for_input(
        self,
        passages: int,
        chunks: int,
        documents: Sequence[int] = (),
        has_one_answer: bool = False,
    ) -> MarginRule:
        """The rule for pieces of files if there are two chunks or more a passage.

        ``has_one_answer``: see `score_distances`.
        """
        has_many_pieces = chunks >= 2 * passages
        if self.piece_rule is None or not has_many_pieces:
            return self
        return replace(
            self.piece_rule, documents=tuple(documents), has_one_answer=has_one_answer
        )

    @property
    def guarantee(self) -> str:
        """What holds, for which questions, in one sentence."""
        of_sets = ""
        if self.calibration.set_names:
            of_sets = f" ({', '.join(self.calibration.set_names)})"
        return (
            f"on average at most {100 * self.risk:g} % of a question's relevant chunks "
            "are dropped, for questions drawn like the "
            f"{self.calibration.questions} calibration questions on "
            f"{self.input_kind}{of_sets}, each set as often; not known for others"
        )

    def choose(self, scores: Floats, texts: Sequence[str]) -> Mask:
        """True for each chunk to keep; chunks without a score are never kept."""
        is_scored = np.isfinite(scores)
        count = int(is_scored.sum())
        kept_mask = is_scored.copy()
        if count:
            limit = self._limit(scores[is_scored])
            kept_mask &= self._distances(scores) <= limit + 1e-9
        minimum = MIN_KEPT
        if count <= SHORT_LIST:
            minimum = max(MIN_KEPT, count - 1)
        return ensure_min(min(minimum, count), kept_mask, scores)

    def _distances(self, scores: Floats) -> NDArray[np.float64]:
        documents: tuple[int, ...] = ()
        if len(self.documents) == len(scores):
            documents = self.documents
        return score_distances(scores, documents, self.has_one_answer)

    def keep_threshold(self, scores: Floats) -> float:
        """The lowest score within the margin; infinity if no chunk is scored."""
        scored = scores[np.isfinite(scores)]
        if not len(scored):
            return math.inf
        return float(scored.max()) - self._limit(scored) - 1e-9

    def _limit(self, scored: Floats) -> float:
        """How far below the best score a chunk may be."""
        margin = self.margin
        if scored.max() > self.calibration.top_score:
            margin = max(self.calibration.margins.values())
        longest_list = self.calibration.longest_list
        return list_length_factor(len(scored), longest_list) * margin

    def reason(self) -> str:
        """Why the other chunks are dropped; `reasons` has the distances."""
        return "too far below the best score"

    def reasons(self, scores: Floats) -> list[str]:
        """For each chunk how far it is below the best score, and how far it may be."""
        scored = scores[np.isfinite(scores)]
        if not len(scored):
            return [self.reason()] * len(scores)
        limit = self._limit(scored)
        distances = (scored.max() - scores).tolist()
        counted_distances = self._distances(scores).tolist()
        drop_reasons = []
        for distance, counted in zip(distances, counted_distances, strict=True):
            own_limit = limit * DOCUMENT_FACTOR
            if not counted < distance:  # the penalty of its document
                own_limit = max(0.0, limit - (counted - distance))
            drop_reasons.append(
                f"dropped: {distance:.3g} below the best score (limit {own_limit:.3g})"
            )
        return drop_reasons

    def is_off_topic(self, scores: Floats) -> bool:
        """Whether even the best chunk is below the floor; False if that is unknown.

        Scores measure topic: they do not say whether chunks on topic answer the question.
        """
        scored = scores[np.isfinite(scores)]
        floor = self.calibration.floor
        return floor is not None and len(scored) > 0 and bool(scored.max() < floor)

    def note(self, chunk_scores: Floats, kept_mask: Mask) -> str | None:
        """A remark if the scores did not separate the chunks."""
        is_scored = np.isfinite(chunk_scores)
        scored_count = int(is_scored.sum())
        best_score = chunk_scores.max(initial=-np.inf)
        if scored_count > 1 and best_score > self.calibration.top_score:
            return f"{TOO_CLOSE}: unlike the calibration's, so more were kept"
        kept_count = int(kept_mask[is_scored].sum())
        if scored_count > MIN_KEPT and kept_count > NEARLY_ALL * scored_count:
            return f"{TOO_CLOSE}: {kept_count:,} of {scored_count:,} chunks kept"
        if MIN_KEPT < scored_count <= SHORT_LIST:
            return f"{TOO_CLOSE}: of {scored_count} only the worst was dropped"
        return None


def score_distances(
    scores: Floats, documents: Sequence[int] = (), has_one_answer: bool = False
) -> NDArray[np.float64]:
    """How far each chunk is below the best score; infinite without a score.

    Of pieces of files, the best one of each document counts as `DOCUMENT_FACTOR` times
    nearer: what a question of two steps needs last is often in another document and
    little like it. Where the question has one answer, the other pieces of a document
    count as farther, by `DOCUMENT_PENALTY` of its best one's distance: files of the same
    form have a like piece each, and one of them is asked about.

    Args:
        scores: float32 ``(n,)``, at least one of them finite.
        documents: The number of each chunk's document; () if the chunks are passages.
        has_one_answer: The question asks for one fact.

    Returns:
        float64 ``(n,)``; float32 would round what is compared with the margin.
    """
    chunk_scores = scores.astype(np.float64)
    distances: NDArray[np.float64] = chunk_scores.max() - chunk_scores
    chunks_by_document: dict[int, list[int]] = {}
    for i, document in enumerate(documents):
        chunks_by_document.setdefault(document, []).append(i)
    for chunks in chunks_by_document.values():
        best_chunk = min(chunks, key=distances.__getitem__)
        best_distance = distances[best_chunk]
        if has_one_answer and math.isfinite(best_distance):
            distances[chunks] += DOCUMENT_PENALTY * best_distance
        distances[best_chunk] = best_distance / DOCUMENT_FACTOR
    return distances


@dataclass(slots=True)
class ScoredChunks:
    """Chunks of all passages.

    Chunk ``spans[i]`` has the text ``texts[i]``. ``scorer_texts[j]`` is the scored form
    of chunk ``scored_rows[j]``; chunks without text and headings are not scored.
    ``reader`` knows the context of chunks; None if they have none.
    """

    reader: DocumentReader | None
    passages: dict[str, Passage] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    scored_rows: list[int] = field(default_factory=list)
    scorer_texts: list[str] = field(default_factory=list)

    def add(self, span: Span, context: str, text: str) -> None:
        """Add a chunk; ``text`` is "" if it is not to be scored."""
        if text.strip():
            self.scored_rows.append(len(self.spans))
            scorer_text = join_header(context, text)
            self.scorer_texts.append(replace_surrogates(scorer_text))
        self.spans.append(span)
        self.texts.append(replace_surrogates(self.raw_text(span)))

    def raw_text(self, span: Span) -> str:
        """A span's characters."""
        return self.passages[span.passage_id].text[span.start : span.end]

    def context_of(self, span: Span) -> tuple[Span, ...]:
        """What keeping a span must also keep, maybe of other passages."""
        if self.reader is None:
            return ()
        return self.reader.context_of(span)

    def rows_naming(self, name: str) -> list[int]:
        """The scored chunks whose text or context has these characters, in any case."""
        folded_name = name.casefold()
        rows = []
        for row, text in zip(self.scored_rows, self.scorer_texts, strict=True):
            if folded_name in text.casefold():
                rows.append(row)
        return rows

    def document_numbers(self) -> list[int]:
        """The number of each chunk's document."""
        number_of_passage = number_documents(self.passages.values())
        return [number_of_passage[span.passage_id] for span in self.spans]

    def rule_of_input(
        self, rule: MarginRule, has_one_answer: bool = False
    ) -> MarginRule:
        """The rule for lists of passages or for pieces of files, whichever these are."""
        counts = len(self.passages), len(self.scored_rows)
        return rule.for_input(*counts, self.document_numbers(), has_one_answer)

    def language_sample(self) -> str:
        """The beginnings of the first passages."""
        head_length = LANGUAGE_SAMPLE // min(len(self.passages), SAMPLED_PASSAGES)
        first_passages = islice(self.passages.values(), SAMPLED_PASSAGES)
        return "\n".join(passage.text[:head_length] for passage in first_passages)


KeepSetting: TypeAlias = float | int | str | KeepRule


def rule_for(keep: KeepSetting | None, threshold: float | None) -> KeepRule:
    """The rule behind the short forms: a float is a fraction, an int a count.

    Raises:
        InputError: Anything else, or both ``keep`` and ``threshold``.
    """
    if threshold is not None:
        if keep is not None:
            raise InputError(
                f"keep={keep!r} and threshold={threshold!r}: give one of the two"
            )
        return ScoreThreshold(float(threshold))
    if isinstance(keep, bool) or keep is None or isinstance(keep, str):
        raise InputError(
            f"keep={keep!r}: expected a fraction like 0.3, a count like 5, "
            "'auto', or a rule"
        )
    if isinstance(keep, int | np.integer):
        return TopK(int(keep))
    if isinstance(keep, float | np.floating):
        return TopFraction(float(keep))
    return keep


def select_chunks(
    keep_rule: KeepRule,
    chunk_scores: Floats,
    chunk_texts: Sequence[str],
    *,
    min_keep: int = 1,
    max_keep: int | None = None,
) -> tuple[Mask, list[str]]:
    """Apply a rule and the limits that hold for every rule.

    Args:
        keep_rule: Decides by score.
        chunk_scores: float32 ``(n,)``.
        chunk_texts: The chunks' texts, for rules that count tokens.
        min_keep: Fill up to this many with the next best chunks.
        max_keep: Drop the worst chunks beyond this many; earlier chunks win ties.

    Returns:
        Which chunks are kept, bool ``(n,)``, and why each would be dropped.

    Raises:
        BadScores: A score is NaN.
    """
    chunk_scores = np.asarray(chunk_scores, dtype=np.float32)
    chunk_scores = check_no_nan(chunk_scores)
    if isinstance(keep_rule, MarginRule):
        drop_reasons = keep_rule.reasons(chunk_scores)
    else:
        drop_reasons = [keep_rule.reason()] * len(chunk_scores)
    chosen_mask = keep_rule.choose(chunk_scores, chunk_texts)
    chosen_mask = np.array(chosen_mask, dtype=np.bool_)
    kept_mask = ensure_min(min_keep, chosen_mask, chunk_scores)
    if max_keep is not None:
        score_order = rank_by_score(chunk_scores)
        kept_order = score_order[kept_mask[score_order]]
        for i in kept_order[max_keep:].tolist():
            kept_mask[i] = False
            drop_reasons[i] = f"more than {max_keep} chunks"
    return kept_mask, drop_reasons


def split_span(chunk_span: Span, part_spans: Sequence[Span]) -> list[Span]:
    """The span as its parts and the gaps between them; the span if it has no parts."""
    boundaries = []
    for part_span in part_spans:
        boundaries += [part_span.start, part_span.end]
    limits = chunk_span.start, chunk_span.end
    ranges = tile_spans(boundaries, *limits) or [limits]
    return list(passage_spans(chunk_span.passage_id, ranges))


def ensure_min(min_count: int, kept_mask: Mask, chunk_scores: Floats) -> Mask:
    """``kept``, filled up to ``minimum`` with the next best chunks."""
    missing_count = min_count - int(kept_mask.sum())
    if missing_count > 0:
        score_order = rank_by_score(chunk_scores)
        dropped_order = score_order[~kept_mask[score_order]]
        kept_mask[dropped_order[:missing_count]] = True
    return kept_mask


def check_no_nan(chunk_scores: Floats) -> Floats:
    """The scores; raises `BadScores` if one is NaN."""
    if np.isnan(chunk_scores).any():
        bad_chunks = np.flatnonzero(np.isnan(chunk_scores)).tolist()
        raise BadScores(
            f"the scorer gave NaN for chunks {bad_chunks[:5]}: nothing can be ranked "
            "by that; check its model's dtype"
        )
    return chunk_scores


def rank_by_score(chunk_scores: Floats) -> NDArray[np.intp]:
    """Positions from best to worst; equal scores keep the input's order."""
    return np.argsort(-chunk_scores, kind="stable")


def top_k_mask(chunk_scores: Floats, k: int) -> Mask:
    """True for the ``k`` best chunks."""
    kept_mask = np.zeros(len(chunk_scores), dtype=np.bool_)
    kept_mask[rank_by_score(chunk_scores)[:k]] = True
    return kept_mask


def fraction_count(fraction: float, n: int) -> int:
    """``ceil(fraction * n)``, safe from products like 0.1 * 30 = 3.0000000000000004."""
    exact_product = fraction * n
    tolerance = 1e-9 * max(1.0, exact_product)
    return min(n, math.ceil(exact_product - tolerance))


def list_length_factor(n: int, longest_list: int | None) -> float:
    """How much wider a margin is for a list of ``n`` than for one of ten.

    It grows up to ``longest_list``, at least up to `LONG_LIST`; None sets no bound.

    >>> list_length_factor(10, None)
    1.0
    >>> list_length_factor(800, 20) == list_length_factor(LONG_LIST, 20)
    True
    """
    if longest_list is not None:
        n = min(n, max(LONG_LIST, longest_list))
    return math.log1p(n) / math.log(11)
