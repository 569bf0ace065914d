"""Passages that answer differently: each answer keeps its best passage, and the result names them."""

import pytest

from denoise_core import InputError, Passage, default_denoiser
from denoise_core.embedded import WithConflicts, span_reader
from denoise_core.embedded.conflicts import conflicts
from denoise_core.embedded.reader import Found
from denoise_core.end import ENDDenoiser
from denoise_core.running.pipeline import Pipeline
from denoise_core.testing import check_denoiser

QUESTION = "When was the Halden tower completed?"
PASSAGES = (
    Passage("The Halden tower was completed in 1889 and is open daily.", "a"),
    Passage("Bananas are rich in potassium.", "b"),
    Passage("According to the almanac the Halden tower was completed in 1925.", "c"),
    Passage("The tower of Halden was finished in 1889, the guide says.", "d"),
)


class Told:
    """A reader that is told what each passage answers, with a probability."""

    def __init__(self, said):
        self.said = said

    def per_passage(self, query, passages):
        out = []
        for p in passages:
            text, holds = self.said.get(p.id, (None, 0.0))
            at = p.text.find(text) if text else -1
            out.append(Found(text, p.id, at, at + len(text), -1.0, holds) if at >= 0 else None)
        return out


TOLD = Told({"a": ("1889", 0.9), "c": ("1925", 0.7), "d": ("1889", 0.8), "b": ("potassium", 0.3)})


def one_kept():
    return ENDDenoiser(First(), keep=1)


class First:
    def score(self, query, texts):
        return [-float(i) for i in range(len(texts))]


def test_each_answer_is_named_with_the_passages_that_give_it():
    found = conflicts(TOLD, QUESTION, PASSAGES)
    assert [(c.answer, c.passages, c.holds) for c in found] == [("1889", ("a", "d"), 0.9), ("1925", ("c",), 0.7)]
    for c in found:
        text = next(p.text for p in PASSAGES if p.id == c.span.passage_id)
        assert text[c.span.start : c.span.end] == c.answer


def test_passages_that_agree_are_no_conflict():
    agree = Told({"a": ("1889", 0.9), "d": ("1889", 0.8), "c": ("1925", 0.4)})
    assert conflicts(agree, QUESTION, PASSAGES) == ()
    assert conflicts(agree, QUESTION, PASSAGES, 0.4) != ()
    fuller = Told({"a": ("completed in 1889", 0.9), "d": ("1889", 0.8)})
    assert conflicts(fuller, QUESTION, PASSAGES) == ()


def test_each_answer_keeps_its_best_passage_and_all_laws_hold():
    alone = one_kept().denoise(QUESTION, PASSAGES)
    result = check_denoiser(lambda: WithConflicts(one_kept(), reader=TOLD), QUESTION, PASSAGES)
    assert [p.id for p in alone.passages] == ["a"]
    assert [p.id for p in result.passages] == ["a", "c"]
    assert {k.span.passage_id for k in result.kept} == {"a", "c"}
    assert len(result.conflicts) == 2


def test_without_conflict_the_result_is_the_denoiser_s_own():
    silent = WithConflicts(one_kept(), reader=Told({}))
    found, own = silent.denoise(QUESTION, PASSAGES), one_kept().denoise(QUESTION, PASSAGES)
    assert (found.passages, found.dropped, found.conflicts) == (own.passages, own.dropped, ())


def test_a_chain_keeps_the_conflicts_of_its_steps():
    chain = Pipeline(ENDDenoiser(First(), keep=3), WithConflicts(one_kept(), reader=TOLD))
    result = check_denoiser(lambda: chain, QUESTION, PASSAGES)
    assert [(c.answer, c.span.passage_id) for c in result.conflicts] == [("1889", "a"), ("1925", "c")]


def test_the_reader_that_ships_sees_a_year_against_another():
    result = check_denoiser(lambda: WithConflicts(default_denoiser(), least=0.2), QUESTION, PASSAGES)
    assert {"1889", "1925"} <= {c.answer for c in result.conflicts}
    assert {"a", "c"} <= {p.id for p in result.passages}
    assert conflicts(span_reader(), QUESTION, PASSAGES[:2], 0.2) == ()


@pytest.mark.parametrize("least", [-0.1, 1.1, float("nan")])
def test_a_probability_is_asked_for(least):
    with pytest.raises(InputError, match="least"):
        WithConflicts(one_kept(), least=least)
