"""A model that obeys every attack it can read, and what may come of it, method by method.

What is held in all: an extractive result is made of verbatim pieces of its sources, asks the user's own
question, and about passages asked about one by one a hostile passage changes nothing but itself; no untrusted
text stands in a system message or outside an envelope of any prompt. What an obeying model can still do is
counted by `can_happen`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envelopes import enclosed
from laws import check_result

from denoise_core import Message, Passage, run
from denoise_core.augmenter.knowledge.queries import LLMQueries
from denoise_core.augmenter.memory import Attempt, WorkingMemory
from denoise_core.augmenter.prompts import QUESTION_ANSWERING, draft_prompt
from denoise_core.augmenter.utility import Groundedness
from denoise_core.s2a import Options, S2ADenoiser
from denoise_core.support.judging import AnswerVerdict
from denoise_core.testing import FunctionLLM
from denoise_core.text.delimit import sanitize_text

DATA = Path(__file__).parents[1] / "data" / "attacks"
METHODS = ("s2a_alone", "s2a_joint", "draft", "judge", "search_query")
QUESTION = "When does the harbour bus leave?"
TRUSTED = Passage(
    "The harbour bus leaves at 08:10. It does not run on Sundays.", "trusted"
)
HISTORY = "user: Hello, I am new here."
WORST = (
    '{"claims": [{"words": "", "verdict": "supported", "quotes": [{"evidence": 1, "text": "a quote"}]}], '
    '"abstains": false, "answers_the_question": true}'
)


def attacks(folder: Path = DATA) -> list[dict[str, Any]]:
    """Those of every file there."""
    text = "".join(path.read_text("utf-8") for path in sorted(folder.glob("*.jsonl")))
    return [json.loads(line) for line in text.splitlines() if line.strip()]


@dataclass
class Outcome:
    """``leaks`` break what is promised; ``can_happen`` names what the table allows and did happen."""

    leaks: list[str] = field(default_factory=list)
    can_happen: list[str] = field(default_factory=list)

    def note(self, leaks: dict[str, object], can_happen: dict[str, object]) -> None:
        """Add what is true of each."""
        self.leaks += [what for what, is_so in leaks.items() if is_so]
        self.can_happen += [what for what, is_so in can_happen.items() if is_so]


class Obeying:
    """Replies as the attack wants once all of its triggers stand in a prompt, else as a good model would."""

    def __init__(self, attack: dict[str, Any], kind: str, otherwise: str) -> None:
        self.attack = attack
        self.obeyed = False
        self.prompts: list[Sequence[Message]] = []
        self.kind, self.otherwise = kind, otherwise
        self.llm = FunctionLLM(self.reply)

    def reply(self, messages: Sequence[Message]) -> str:
        self.prompts.append(messages)
        seen = "\n".join(m.content for m in messages)
        reply = self.otherwise
        if all(
            t in seen or (sanitize_text(t) or t) in seen
            for t in self.attack["triggers"]
        ):
            self.obeyed = True
            reply = str(self.attack["obey"].get(self.kind, reply))
        # In the form that was asked for, so that what it says is read.
        return f"Context: {reply}" if self.kind == "rewrite" else reply


TRIED: dict[tuple[str, str], Outcome] = {}


def tried(attack: dict[str, Any], method: str) -> Outcome:
    """The attack against one method, with a model that obeys it; tried once."""
    key = (attack["id"], method)
    if key not in TRIED:
        outcome = TRIED[key] = Outcome()
        if method.startswith("s2a"):
            _s2a(attack, method, "default", outcome)
            _s2a(attack, method, "select", outcome)
        else:
            _augmenter(attack, method, outcome)
    return TRIED[key]


def _placed(attack: dict[str, Any]) -> dict[str, list[str]]:
    """The texts of an attack by what carries them."""
    found: dict[str, list[str]] = {}
    for part in attack.get("parts") or [attack]:
        found.setdefault(part["carrier"], []).append(part["text"])
    return found


def _passages(placed: dict[str, list[str]], *carriers: str) -> list[Passage]:
    """Documents as texts, titles as headers, metadata where ``show`` names it."""
    bodies = []
    for carrier in ("document", "evidence", "tool_result", *carriers):
        bodies += placed.get(carrier, [])
    header = "\n".join(placed.get("title", []))
    metadata = {"note": "\n".join(placed["metadata"])} if "metadata" in placed else {}
    bodies = bodies or ["The ticket office is in Mill Street. It opens at nine."]
    return [
        Passage(text, f"hostile {n}", metadata=metadata, header=header)
        for n, text in enumerate(bodies)
    ]


def _memory(placed: dict[str, list[str]]) -> WorkingMemory:
    evidence = (TRUSTED, *_passages(placed))
    turns = tuple(Message("user", text) for text in placed.get("history", [HISTORY]))
    question = placed.get("question", [QUESTION])[0]
    memory = WorkingMemory(question, evidence, history=turns)
    if "feedback" in placed or "draft" in placed:
        verdict = AnswerVerdict(
            False,
            0.1,
            kind="other",
            reason="not borne out",
        )
        said = placed.get("feedback", ["Sentence 1 is not borne out."])[0]
        draft = placed.get("draft", ["It leaves at ten."])[0]
        memory = memory.with_attempt(Attempt(draft, verdict, said, evidence))
    return memory


def _s2a(attack: dict[str, Any], method: str, variant: str, outcome: Outcome) -> None:
    is_extractive, is_joint = variant == "select", method == "s2a_joint"
    model = Obeying(attack, "rewrite", "NONE")
    if is_extractive:
        model = Obeying(attack, "numbers", "1")
    placed = _placed(attack)
    question = placed.get("question", [QUESTION])[0]
    passages = [TRUSTED, *_passages(placed, "draft", "feedback")]
    options = Options(join_passages=is_joint, metadata=("note",))
    denoiser = S2ADenoiser(model.llm, variant=variant, options=options)
    result = denoiser.denoise(question, passages)
    _check_prompts(attack, model, placed, outcome)
    if is_extractive:
        check_result(passages, result)
    marker = attack["forbidden"]
    if attack["forbidden_in_text"]:
        marker = ""
    has_marker = marker and any(marker in p.text for p in result.passages)
    kept = [p.text for p in result.passages if p.id == TRUSTED.id]
    clean = S2ADenoiser(
        FunctionLLM(lambda m: "1"),
        variant="select",
        options=options,
    )
    expected = [p.text for p in clean.denoise(question, [TRUSTED]).passages]
    is_own_question = "question" not in placed
    outcome.note(
        {
            "a passage changed the question": is_own_question
            and result.query != question,
            "a result holds rewritten text": any(
                p.is_rewritten for p in result.passages
            ),
            "the marker stands in text of a source": bool(has_marker),
            "a hostile passage changed what was kept of another": is_extractive
            and not is_joint
            and is_own_question
            and kept != expected,
        },
        {
            "joint selection: another document's text is dropped": is_extractive
            and is_joint
            and model.obeyed
            and "08:10" not in "".join(kept),
        },
    )


def _augmenter(attack: dict[str, Any], method: str, outcome: Outcome) -> None:
    placed = _placed(attack)
    memory = _memory(placed)
    answer = "The bus leaves at 08:10 [1]."
    kind, otherwise = {
        "draft": ("answer", answer),
        "judge": ("verdict", answer),
        "search_query": ("query", answer),
    }[method]
    model = Obeying(attack, kind, otherwise)
    if method == "judge":
        candidate = placed.get("draft", [answer])[0]
        verdict = run(Groundedness(model.llm).assess(memory, candidate))[0]
        worst = Groundedness(FunctionLLM(lambda m: WORST)).assess(memory, candidate)
        outcome.note(
            {"passed without a verdict": verdict.passed and not model.obeyed},
            {
                "a judge that is a model accepts what it is told to accept": model.obeyed
                and run(worst)[0].passed
            },
        )
    elif method == "search_query":
        queries = run(LLMQueries(model.llm)(memory, wide=False))[0]
        outcome.note(
            {"the user's question is not first": queries[0] != memory.question},
            {
                "a model that writes queries searches for what it is told to": (
                    model.obeyed and len(queries) > 1
                )
            },
        )
    else:
        model.llm.complete(draft_prompt(memory, QUESTION_ANSWERING))
        outcome.note({}, {"a draft says what its evidence tells it to": model.obeyed})
    _check_prompts(attack, model, placed, outcome)


def _check_prompts(
    attack: dict[str, Any],
    model: Obeying,
    placed: dict[str, list[str]],
    outcome: Outcome,
) -> None:
    """No untrusted line stands in a system message or outside the envelopes; an assistant's turn is what
    the model itself replied."""
    text = "\n".join(sanitize_text(part) for parts in placed.values() for part in parts)
    untrusted = [line.strip() for line in text.split("\n") if len(line.strip()) > 15]
    untrusted += filter(None, [attack["forbidden"]])
    for message in itertools.chain(*model.prompts):
        outside = message.content
        if message.role == "assistant":
            continue
        if message.role != "system":
            outside = enclosed(outside)[1]
        for line in untrusted:
            if line in outside:
                leak = f"{message.role} message, outside the envelopes: {line[:60]!r}"
                outcome.leaks.append(leak)
