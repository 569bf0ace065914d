"""The paper's measures, and what a loop corrected, harmed and cost."""

import subprocess
import sys

import pytest
from augmenter_doubles import scripted

from denoise_core import InputError, Reply, Usage
from denoise_core.augmenter import Augmenter, LoopLimits, Rules
from denoise_core.support.judging import AnswerVerdict, ClaimVerdict, FlowJudge
from denoise_core.testing import ListRetriever
from denoise_lab.responses import loop_cost, response_scores

SAID = ["The tower was completed in 1889 [1].", "It has three floors and a lift."]
REFERENCES = ["The tower was completed in 1889.", "It has three floors."]


def test_equal_texts_score_full_and_citations_do_not_count():
    same = response_scores(SAID[:1], REFERENCES[:1], REFERENCES[:1])
    for name in ("bleu4", "chrf", "rouge1", "kf1"):
        assert same[name] == pytest.approx(100.0)
    assert same["length"] == 6


def test_worse_texts_score_less_everywhere():
    best, worse = (
        response_scores(REFERENCES, REFERENCES, REFERENCES),
        response_scores(SAID, REFERENCES, REFERENCES),
    )
    meteor = next(name for name in best if name.startswith("meteor"))
    for name in ("bleu4", "chrf", "rouge1", "kf1", meteor):
        assert 0 < worse[name] < best[name]


def test_measuring_leaves_the_logging_of_the_process_alone():
    code = """
import logging
from denoise_core import Passage
from denoise_core.augmenter import BM25Retriever
from denoise_lab.responses import response_scores
before = list(logging.root.handlers), logging.root.level
scores = response_scores(["It has three floors."], ["It has three floors."])
BM25Retriever([Passage("It has three floors.", "a")]).retrieve("floors")
assert (list(logging.root.handlers), logging.root.level) == before, logging.root.handlers
print(round(scores["rouge1"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("100\n", "")


def test_lists_of_unequal_length_are_refused():
    for lists in (([], []), (["a"], []), (["a"], ["b"], [])):
        with pytest.raises(InputError, match="as many references"):
            response_scores(*lists)


class Holds(FlowJudge):
    """Asks no model, so that all calls are the drafts' own."""

    def flow(self, question, claims, passages):
        yield from ()
        verdicts = [
            ClaimVerdict(c.text, c.start, c.end, "1889" in c.text or "Paris" in c.text)
            for c in claims
        ]
        return AnswerVerdict.of_claims(verdicts, answers_question=True)


def test_the_cost_of_a_loop_counts_what_it_corrected_and_what_it_harmed(
    passages, question
):
    def answer(*replies, **options):
        llm = scripted(*(Reply(r, Usage(9, 1)) for r in replies))
        loop = Augmenter(
            llm,
            ListRetriever(passages),
            judge=Holds(),
            policy=Rules(widen=False),
            **options,
        )
        return loop.answer(question)

    answers = [
        answer("It was completed in 1889 [1]."),
        answer("It was completed in 1925 [1].", "It was completed in 1889 [1]."),
        answer(
            "Done in eighteen eighty nine, they say.",
            "In winter the Eiffel Tower was completed in Paris [1].",
        ),
        answer("In 1925.", "In 1930.", limits=LoopLimits(attempts=2)),
    ]
    right = [lambda text: "1889" in text or "eighty nine" in text] * 4
    cost = loop_cost(answers, right)
    assert (cost.answers, cost.right_first, cost.right_sent) == (4, 2, 2)
    assert (cost.corrected, cost.harmed, cost.harm_rate) == (1, 1, 0.5)
    assert (cost.extra_calls, cost.extra_tokens, cost.calls_per_correction) == (
        3,
        30,
        3.0,
    )
    with pytest.raises(InputError, match="4 answers and 1 judges"):
        loop_cost(answers, right[:1])
