"""Self-criticism as LLM-Augmenter has it: one verdict on the whole candidate (section 3.2), for its protocols.

Strict parsing: "No - not since yesterday" holds the letters of "yes" and must not pass. A reply that is not
exactly the JSON object asked for gives the verdict unknown, with the reply's beginning as the cause.
"""

from __future__ import annotations

import json
import re
from typing import Any

from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.prompts import draft_block, evidence_block, question_block
from denoise_core.errors import InputError, UnparsableReply
from denoise_core.protocols import LLM, expect_llm
from denoise_core.runtime.effects import Flow, complete
from denoise_core.support.check import parse_no_answer
from denoise_core.support.citing import remove_citations
from denoise_core.support.judging import AnswerVerdict, ClaimVerdict
from denoise_core.text.delimit import ENVELOPE_NOTE
from denoise_core.types import Message

CRITICISE = (
    f"You check a draft answer against evidence. {ENVELOPE_NOTE} A statement is supported only if the evidence says it; "  # noqa: E501
    "what you know yourself does not count. Numbers, dates, names and negations must agree exactly.\n"
    'Reply with one JSON object and nothing else: {"verdict": "supported" | "unsupported" | "unclear", '
    '"score": 0 to 10, "problems": [{"claim": "words of the draft", "problem": "what is wrong, and what the '
    'evidence says instead"}]}'
)
_THOUGHT = re.compile(
    r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE
)
_FENCE = re.compile(r"```(?:json)?(.*?)```", re.DOTALL)
_VERDICTS = {"supported": "pass", "unsupported": "fail", "unclear": "unknown"}
_PHRASES = re.compile(
    r"""\b(?:
      (?:i|we)(?:\ am|\ are|'m|'re)?\ ?(?:sorry|afraid)?,?\ ?(?:but\ )?(?:i\ |we\ )?
        (?:do\ not|don't|did\ not|didn't|cannot|can't|could\ not|couldn't|am\ unable\ to|are\ unable\ to)
        \ (?:actually\ )?(?:know|have|find|see|tell|say|answer|provide|determine|confirm)
    | (?:no|not\ enough|insufficient|lack(?:s|ing)?)
        \ (?:specific\ |relevant\ |further\ |such\ |any\ )?(?:information|evidence|details)
    | (?:does\ not|doesn't|do\ not|don't|did\ not|didn't)
        \ (?:say|state|mention|contain|provide|specify|include|answer)
    | (?:is|are|was|were)\ not\ (?:mentioned|stated|specified|given|provided|answered|available\ in)
    | (?:cannot|can't)\ be\ (?:answered|determined|known)
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
_LONGEST = 60  # words; a longer text that also admits a gap is an answer with a caveat


class SelfCriticism:
    """The verdict of ``llm``, or of the model that drafts when it is None (LLM-Augmenter, section 3.2).

    Passes when the model says ``supported``, lists no problem, and its score is at least ``threshold``.
    """

    def __init__(self, llm: LLM | None = None, *, threshold: float = 0.5) -> None:
        if not 0.0 <= threshold <= 1.0:
            raise InputError(f"threshold={threshold}: expected 0 to 1")
        self.llm = None if llm is None else expect_llm(llm)
        self.threshold = threshold

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[AnswerVerdict]:
        if not candidate.strip():
            return AnswerVerdict(False, kind="empty", reason="the answer is empty")
        if abstains(candidate):
            return AnswerVerdict(
                kind="abstention", reason="the answer says that it does not know"
            )
        if not memory.evidence:
            return AnswerVerdict(
                kind="empty_evidence", reason="there is no evidence to hold it against"
            )
        reply = yield from complete(
            criticism_prompt(memory, candidate), tag="judge", llm=self.llm
        )
        try:
            return read_criticism(reply.text, self.threshold, candidate)
        except UnparsableReply as error:
            return AnswerVerdict(kind="unparsable", reason=str(error))


def abstains(candidate: str) -> bool:
    """The candidate declines to answer, by the mark or as far as its words tell.

    >>> [abstains(text) for text in ("I'm sorry, I don't have that information.", "unknown", "He is unknown.")]
    [True, True, False]
    """
    unknown = candidate.strip().rstrip(".").casefold() in ("unknown", "n/a")
    return unknown or parse_no_answer(candidate) is not None or gap(candidate)


def gap(text: str) -> bool:
    """The first sentence of a short text says that something is not known or not told."""
    words = " ".join(remove_citations(text).replace("’", "'").split())
    first = re.split(r"(?<=[.!?])\s", words, maxsplit=1)[0]
    return len(words.split()) <= _LONGEST and _PHRASES.search(first) is not None


def criticism_prompt(memory: WorkingMemory, candidate: str) -> tuple[Message, ...]:
    parts = (
        evidence_block(memory.evidence),
        question_block(memory.question),
        draft_block(candidate),
    )
    return (Message("system", CRITICISE), Message("user", "\n\n".join(parts)))


def read_criticism(reply: str, threshold: float, candidate: str = "") -> AnswerVerdict:
    """The verdict in a reply. Raises `UnparsableReply` unless it is the object that was asked for."""
    said = _object(reply)
    verdict, score, problems = (
        said.get("verdict"),
        said.get("score"),
        said.get("problems", []),
    )
    if not isinstance(verdict, str) or verdict not in _VERDICTS:
        raise UnparsableReply(
            f"the judge's verdict is {verdict!r}; expected one of {', '.join(_VERDICTS)}"
        )
    if (
        isinstance(score, bool)
        or not isinstance(score, (int, float))
        or not 0 <= score <= 10
    ):
        raise UnparsableReply(
            f"the judge's score is {score!r}; expected a number from 0 to 10"
        )
    if not isinstance(problems, list) or not all(map(_is_problem, problems)):
        raise UnparsableReply(
            "the judge's problems are not a list of objects with the texts claim and problem"
        )
    claims = tuple(_problem(p["claim"], p["problem"], candidate) for p in problems)
    outcome = _VERDICTS[verdict]
    if outcome == "unknown":
        return AnswerVerdict(
            None, score / 10, claims, None, "judge_unsure", "the judge could not tell"
        )
    if outcome == "pass" and not claims and score / 10 >= threshold:
        return AnswerVerdict(True, score / 10)
    return AnswerVerdict(
        False,
        score / 10,
        claims,
        None,
        "criticism",
        f"the judge gives it {score:g} of 10",
    )


def _problem(claim: str, problem: str, candidate: str) -> ClaimVerdict:
    at = candidate.find(claim)
    start, end = (at, at + len(claim)) if at >= 0 else (0, 0)
    return ClaimVerdict(claim, start, end, False, kind="criticism", reason=problem)


def _object(reply: str) -> dict[str, Any]:
    text = _THOUGHT.sub("", reply).strip()
    fenced = _FENCE.fullmatch(text)
    try:
        said = json.loads(fenced.group(1) if fenced else text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UnparsableReply(
            f"expected one JSON object from the judge, got {reply[:80]!r}"
        ) from error
    if not isinstance(said, dict):
        raise UnparsableReply(
            f"expected one JSON object from the judge, got {reply[:80]!r}"
        )
    return said


def _is_problem(item: object) -> bool:
    return (
        isinstance(item, dict)
        and isinstance(item.get("claim"), str)
        and isinstance(item.get("problem"), str)
    )
