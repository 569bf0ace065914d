"""The paper's own utilities by name: knowledge F1 (section 2.4) and self-criticism (3.2).

Any other is a function: ``Augmenter(judge=lambda question, evidence, claim: ...)``.
Thresholds and prompt are ours; the paper's are not available.
"""

from __future__ import annotations

from collections import Counter

from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.prompts import (
    draft_block,
    labelled_prefix,
    with_title_line,
)
from denoise_core.errors import InputError, UnparsableReply
from denoise_core.protocols import LLM, expect_llm
from denoise_core.runtime.effects import Flow, complete
from denoise_core.support.answers import parse_answer
from denoise_core.support.check import EMPTY_EVIDENCE
from denoise_core.support.citation_marks import remove_citations
from denoise_core.support.judging import (
    ABSTENTION,
    ABSTENTION_REASON,
    AnswerVerdict,
    ClaimVerdict,
)
from denoise_core.support.labels import evidence_ranges
from denoise_core.text.delimit import ENVELOPE_NOTE
from denoise_core.text.replies import strip_reasoning
from denoise_core.text.words import drop_articles, split_words
from denoise_core.types import Message, Passage

CRITICISE = (
    f"You check a draft answer against evidence. {ENVELOPE_NOTE} A statement is supported only if the evidence "
    "says it; what you know yourself does not count. Numbers, dates, names and negations must agree exactly.\n"
    "Write one word on the first line: supported (all of the draft is), unsupported, unclear, or abstains (the "
    "draft says that it does not know). Below it, for a draft that is unsupported, write a line for each problem: "
    "the words of the draft, and what the evidence says instead."
)
_FEW_WORDS = "it has few words of the evidence: say it in the evidence's own words"
_MAX_PROBLEMS = 20


class KnowledgeF1:
    """Unigram F1 of a draft and the evidence it fits best (section 2.4; Shuster et al. 2021).

    The evidence is each passage and each of its sentences, so that the measure does not
    fall with every passage that is added. It compares words, not what they say.

    Args:
        threshold: The F1 from which on a draft passes, 0 to 1.

    Raises:
        InputError: For a threshold out of range.
    """

    name = "knowledge F1"

    def __init__(self, threshold: float = 0.3) -> None:
        if not 0.0 <= threshold <= 1.0:
            raise InputError(f"threshold={threshold}: expected 0 to 1")
        self.threshold = threshold

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[AnswerVerdict]:
        """Compare the words; asks nobody."""
        if not memory.evidence:
            return EMPTY_EVIDENCE
        parsed_answer = parse_answer(candidate, memory.question)
        draft_text = remove_citations(parsed_answer.text_without_reasoning)
        draft_words = _count_words(draft_text)
        score = 0.0
        for passage in memory.evidence:
            reference_texts = _reference_texts(passage)
            for reference_text in reference_texts:
                reference_words = _count_words(reference_text)
                reference_score = _unigram_f1(draft_words, reference_words)
                score = max(score, reference_score)
        if score >= self.threshold:
            return AnswerVerdict(True, score)
        reason = f"{_FEW_WORDS} (knowledge F1 {score:.2f})"
        return AnswerVerdict(False, score, kind="knowledge_f1", reason=reason)
        yield  # makes this a flow, though it asks nothing


def _reference_texts(passage: Passage) -> list[str]:
    text = passage.text
    sentence_ranges = evidence_ranges(text)
    sentences = [text[start:end] for start, end in sentence_ranges]
    whole_text = with_title_line(passage)
    return [whole_text, *sentences]


def _count_words(text: str) -> Counter[str]:
    all_words = split_words(text)
    counted_words = drop_articles(all_words)
    return Counter(counted_words)


def _unigram_f1(words: Counter[str], reference: Counter[str]) -> float:
    shared_words = words & reference
    shared_count = shared_words.total()
    total_count = words.total() + reference.total()
    if total_count:
        return 2 * shared_count / total_count
    return 0.0


class SelfCriticism:
    """One verdict of a model on the whole draft, with its problems as findings (section 3.2).

    The model is ``llm``, or the one that drafts when it is None. A reply whose first
    line has more than the verdict gives the verdict unknown, and so does one that lists
    problems of a draft that it calls supported.
    """

    name = "self-criticism"

    def __init__(self, llm: LLM | None = None) -> None:
        self.llm = None if llm is None else expect_llm(llm)

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[AnswerVerdict]:
        """Ask the model for its verdict."""
        if not memory.evidence:
            return EMPTY_EVIDENCE
        parsed_answer = parse_answer(candidate, memory.question)
        evidence_text = labelled_prefix(memory)
        draft_text = draft_block(parsed_answer.text_without_reasoning)
        system_message = Message("system", CRITICISE)
        judged_message = Message("user", f"{evidence_text}\n\n{draft_text}")
        messages = (system_message, judged_message)
        reply = yield from complete(messages, tag="judge", llm=self.llm)
        return read_criticism(reply.text)


def read_criticism(reply_text: str) -> AnswerVerdict:
    r"""The verdict in a reply to `CRITICISE`; unknown for any other text.

    >>> read_criticism("**Unsupported**\n- 1925: the evidence says 1889").reasons[0]
    '1925: the evidence says 1889'
    """
    try:
        answer_text = strip_reasoning(reply_text)
    except UnparsableReply as error:
        return AnswerVerdict(kind="unparsable", reason=str(error))
    reply_lines = answer_text.splitlines()
    written_lines = [line.strip(" \t-*•") for line in reply_lines if line.strip()]
    first_words = split_words(written_lines[0]) if written_lines else []
    if first_words[:1] == ["verdict"]:
        first_words = first_words[1:]
    problem_lines = written_lines[1 : _MAX_PROBLEMS + 1]
    problems = []
    for line in problem_lines:
        problem = ClaimVerdict("", 0, 0, False, kind="criticism", reason=line)
        problems.append(problem)
    match first_words:
        case ["supported"] if not problems:
            return AnswerVerdict(True, 1.0)
        case ["unsupported"] | ["not", "supported"]:
            reason = "the model criticises it"
            return AnswerVerdict(
                False, 0.0, tuple(problems), kind="criticism", reason=reason
            )
        case ["abstains"]:
            return AnswerVerdict(kind=ABSTENTION, reason=ABSTENTION_REASON)
        case ["unclear"]:
            return AnswerVerdict(kind="judge_unsure", reason="the model could not tell")
    reply_start = reply_text[:80]
    reason = f"expected a verdict on the first line, got {reply_start!r}"
    return AnswerVerdict(kind="unparsable", reason=reason)
