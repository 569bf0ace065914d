"""The paper's ablations as one command: consolidator, utility, feedback, policy; with harm and cost.

Real dialogues, knowledge and human responses (the last turns of DSTC11 Track 5); the model that answers is
simulated by the rules of `denoise_lab.policy.simulate`, whose gain from feedback is an assumption
(0.7 to 0.9). So the rows show how the parts act together and what they cost under that assumption; they are no
finding about a real model. KF1 is held against the gold snippets, the other measures against the human response;
right, for harm and corrections, means a KF1 of at least 0.5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness import Benchmark, read

from denoise_core import Passage
from denoise_core.augmenter import Answer, Augmenter, Consolidator, LoopLimits, Rules, Verdict, WorkingMemory
from denoise_core.augmenter.utilities import Groundedness, KnowledgeOverlap, knowledge_f1
from denoise_core.augmenter.utility import without_effects
from denoise_core.running.effects import Flow
from denoise_core.testing import ListRetriever
from denoise_lab.policy import Simulator, Turn, simulators
from denoise_lab.responses import loop_cost, response_scores

RIGHT = 0.5


class NoFeedback:
    """Says nothing, so that the next draft is written from the same prompt."""

    def write(self, memory: WorkingMemory, candidate: str, verdict: Verdict) -> Flow[str]:
        return without_effects("")


class AlwaysAgain:
    """Passes nothing, scores by groundedness: every draft gets feedback, the best is sent."""

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[Verdict]:
        found = Groundedness().judge(memory, candidate)
        return without_effects(Verdict("fail", found.score, found.reasons) if found.passed else found)


def gold(s: Simulator) -> Consolidator:
    return Consolidator(ListRetriever([p for p in s.turn.snippets if p.id in s.turn.gold]))


Change = Callable[[Augmenter, Simulator], None]


def _set(**parts: Any) -> Change:
    def change(loop: Augmenter, simulator: Simulator) -> None:
        for name, part in parts.items():
            setattr(loop, name, part(simulator) if name == "consolidator" else part)

    return change


ALWAYS = Rules(without_evidence="draft", widen=False)
ONE, TWO = LoopLimits(attempts=1), LoopLimits(attempts=2, patience=2)
VARIANTS: dict[str, Change] = {
    "knowledge none": _set(policy=Rules(consult="never"), limits=ONE),
    "knowledge BM25, one draft": _set(limits=ONE),
    "knowledge BM25, utility and feedback": _set(),
    "knowledge gold, one draft": _set(consolidator=gold, limits=ONE),
    "knowledge gold, utility and feedback": _set(consolidator=gold),
    "utility without feedback (two drafts, the better sent)": _set(feedback=NoFeedback(), limits=TWO),
    "feedback always (two drafts)": _set(utility=AlwaysAgain(), limits=TWO),
    "utility KF1 instead of groundedness": _set(utility=KnowledgeOverlap()),
    "policy self-ask": _set(policy=Rules(consult="self_ask", without_evidence="draft", widen=False)),
    "policy with wide search": _set(policy=Rules(without_evidence="draft")),
}


def simulated(bench: Benchmark) -> None:
    """All variants' rows. Needs real data, except in the quick form."""
    options = bench.options
    turns = _made_up() if options.quick else _last_turns(read(options.data, "dstc11_track5"))
    episodes = simulators(turns, seed=options.seed + 1)
    bench.row("dialogues", len(episodes), "count")
    for name, change in VARIANTS.items():
        answers = []
        for episode in episodes:
            loop = episode.augmenter(ALWAYS)
            change(loop, episode)
            answers.append(loop.answer(episode.turn.question, episode.turn.history))
        _report(bench, name, episodes, answers)


def _report(bench: Benchmark, name: str, episodes: Sequence[Simulator], answers: Sequence[Answer]) -> None:
    turns = [e.turn for e in episodes]
    knowledge = [t.right for t in turns]
    for measure, value in response_scores(
        [a.text for a in answers], [t.response for t in turns], knowledge
    ).items():
        bench.row(f"{name}: {measure}", value, "words" if measure == "length" else "percent")
    right = [lambda text, known=k: knowledge_f1(text, [known]) >= RIGHT for k in knowledge]
    cost = loop_cost(answers, right)
    bench.row(f"{name}: right as sent", cost.right_sent / cost.answers, "share")
    bench.row(f"{name}: harm rate", cost.harm_rate, "share of right first drafts")
    bench.row(f"{name}: corrected", cost.corrected / cost.answers, "share")
    bench.row(f"{name}: extra calls", cost.extra_calls / cost.answers, "calls an answer")
    if cost.calls_per_correction is not None:
        bench.row(f"{name}: extra calls for each correction", cost.calls_per_correction, "calls")


def _last_turns(rows: Sequence[dict[str, Any]]) -> list[Turn]:
    found = []
    for row in rows:
        snippets = tuple(Passage(p["text"], p["id"], metadata={"title": p["title"]}) for p in row["passages"])
        known = frozenset(p["id"] for p in row["passages"] if p["is_gold"])
        if known:
            found.append(Turn(row["question"], (), snippets, known, row["response"]))
    return found


def _made_up() -> list[Turn]:
    return [
        Turn(
            f"What does breakfast at house {n} cost?",
            (),
            (
                Passage(f"Breakfast at house {n} costs {n + 5} pounds.", "a", metadata={"title": f"House {n}"}),
                Passage(f"House {n} has a garden for breakfast.", "b", metadata={"title": f"House {n}"}),
            ),
            frozenset(("a",)),
            f"Breakfast there costs {n + 5} pounds.",
        )
        for n in range(6)
    ]
