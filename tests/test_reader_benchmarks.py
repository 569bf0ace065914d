"""The parts of the benchmarks with the reader: batches change nothing, questions are what they say they are."""

import importlib
import random
import sys
from pathlib import Path

import pytest

from denoise_core import Message, Passage
from denoise_core.running.effects import Complete, batch, complete
from denoise_core.s2a import S2ADenoiser
from denoise_core.types import Reply, Usage
from denoise_lab.worlds.opinions import KINDS
from denoise_lab.worlds.world import World

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "shared" / "lab" / "benchmarks")]
flows = importlib.import_module("denoise_lab.experiments.flows")
opinions = importlib.import_module("denoise_lab.experiments.opinions")
problems = importlib.import_module("s2a_math")
loops = importlib.import_module("denoise_lab.experiments.town")


class Echo:
    """Says how long the text is; keeps what it was asked, batch by batch."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[Message, ...]]] = []

    def __call__(self, conversations):
        self.batches.append(list(conversations))
        return [Reply(str(len(c[-1].content)), Usage(len(c[-1].content), 1)) for c in conversations]


def asking(text, then=0):
    """A flow of one call and, after it, a batch of ``then``."""
    first = yield from complete((Message("user", text),), tag="ask")
    rest = yield from batch(tuple(Complete((Message("user", f"{text} {n}"),), "ask") for n in range(then)))
    return [first.text, *(r.text for r in rest)]


def test_flows_side_by_side_return_what_they_return_alone():
    texts = ["a" * n for n in range(1, 80)]
    model = Echo()
    together = flows.together([asking(t, n % 3) for n, t in enumerate(texts)], [flows.Batched(model)] * 79)
    alone = [flows.together([asking(t, n % 3)], [flows.Batched(Echo())])[0] for n, t in enumerate(texts)]
    assert [value for value, _ in together] == [value for value, _ in alone]
    assert [trace.usage for _, trace in together] == [trace.usage for _, trace in alone]
    assert len(model.batches[0]) == flows.SIZE
    assert max(map(len, model.batches)) <= flows.SIZE


def test_the_same_call_is_made_once_and_counted_each_time():
    model = Echo()
    llm = flows.Batched(model)
    told = flows.together([asking("abc") for _ in range(5)], [llm] * 5)
    assert sum(map(len, model.batches)) == 1
    assert [trace.usage.output_tokens for _, trace in told] == [1] * 5
    assert llm.complete((Message("user", "abc"),)).text == "3"
    assert sum(map(len, model.batches)) == 1


def test_a_model_that_fails_fails_every_flow_that_waits_and_no_later_one():
    def model(conversations):
        if any("bad" in c[-1].content for c in conversations):
            raise ConnectionError("gone")
        return [Reply("well") for _ in conversations]

    llm = flows.Batched(model)
    with pytest.raises(ConnectionError, match="gone"):
        flows.together([asking("bad"), asking("good")], [llm, llm])
    assert flows.together([asking("good")], [llm])[0][0] == ["well"]


def test_a_flow_that_asks_again_is_answered_from_memory():
    model = Echo()
    llm = flows.Batched(model)
    for _ in range(3):
        S2ADenoiser(llm).denoise("Who?", [Passage("Ada. Bob.", "p")])
    assert sum(map(len, model.batches)) == 2, "the reply that cannot be read, and the one that corrects it"


@pytest.mark.parametrize("part", ["closed", "context"])
def test_an_opinion_is_of_its_kind_and_the_oracle_sees_none(part):
    rng = random.Random(3)
    asked = opinions.closed_book(rng, 15)
    if part == "context":
        asked = opinions.forms_in_context(World(rng, test=True), rng, 15)
    assert [a.case.kind for a in asked] == ["none", *KINDS] * 15
    for a in asked:
        gold = a.case.gold[0]
        added = a.case.question.removeprefix(a.case.clean_question)
        assert (a.case.kind == "none") == (added == "")
        assert (gold in added) == a.case.kind.startswith("correct")
        assert bool(a.suggested) == (a.case.kind == "incorrect_suggested")
        assert a.suggested in added
        assert a.suggested != gold
        if part == "context":
            assert any(gold in p.text for p in a.case.passages)
            assert gold in a.case.clean_passages[0].text


def test_the_answer_is_what_stands_after_the_steps():
    assert opinions.final("Ada lives in Rome. The answer is Rome.") == "Rome"
    assert opinions.final(" Rome.\n") == "Rome"


def test_word_problems_hold_their_sentences_and_the_oracle_lacks_the_noise():
    cases = problems.cases(random.Random(1), 4)
    assert len({c.id for c in cases}) == len(cases) == 24
    for c in cases:
        whole, clean = c.passages[0].text, c.clean_passages[0].text
        assert (len(whole) > len(clean)) == (not c.kind.endswith("none"))


def test_a_towns_questions_can_be_answered_from_their_gold_passage_and_halves_do_not_meet():
    test, training = (loops.make_town(random.Random(f"t{n}"), 30, n) for n in (0, 1))
    for town in (test, training):
        assert len(town.questions) == 30
        assert sum(q.known for q in town.questions) == 10
        for q in town.questions:
            assert q.said in q.gold.text
            assert q.answer in q.said
            assert q.gold.id in {p.id for p in town.narrow.bm25.passages}
            assert q.right(f"{q.answer} [2].")
            assert q.right(q.answer)
            assert not q.right(f"not {q.answer}")
    assert not {q.text for q in test.questions} & {q.text for q in training.questions}


def test_a_draft_asked_for_again_is_drawn_and_nothing_else_is():
    from denoise_core.augmenter.memory import WorkingMemory
    from denoise_core.augmenter.prompts import QUESTION_ANSWERING, draft_prompt

    greedy, sampling = Echo(), Echo()
    llm = loops.Redrawing(flows.Batched(greedy), flows.Batched(sampling))
    draft = draft_prompt(WorkingMemory("Who?"), QUESTION_ANSWERING)
    for _ in range(2):
        llm.complete(draft)
        llm.complete((Message("system", "Judge."), Message("user", "Who?")))
    assert [c for b in sampling.batches for c in b] == [draft]
    assert len(greedy.batches) == 2
