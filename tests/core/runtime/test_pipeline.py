"""A pipeline keeps the laws of a denoiser, and tells everything in terms of the first input."""

from dataclasses import replace

import pytest
from faults import Faulty
from growing_texts import passages_of
from hypothesis import given
from hypothesis import strategies as st

from denoise_core import DenoiseResult, InputError, Passage, Pipeline
from denoise_core.end import ENDDenoiser
from denoise_core.testing import FunctionScorer, check_denoiser
from denoise_core.text.chunk import sentence_chunker, sentence_spans

TEXT = st.text(alphabet="ab. !\n😀א", max_size=60)


def by_length(keep, chunker):
    return ENDDenoiser(FunctionScorer(lambda q, t: len(t)), keep=keep, chunker=chunker)


def by_letter(keep, chunker):
    return ENDDenoiser(
        FunctionScorer(lambda q, t: t.count("a")), keep=keep, chunker=chunker
    )


@given(
    st.lists(TEXT, max_size=4),
    st.sampled_from([0.3, 0.6, 0.99]),
    st.sampled_from([0.3, 0.6, 0.99]),
)
def test_a_pipeline_of_extractive_steps_is_extractive(texts, first, second):
    passages = passages_of(texts)
    result = check_denoiser(
        lambda: Pipeline(
            by_length(first, sentence_spans),
            by_letter(second, sentence_chunker(7)),
            by_length(0.9, sentence_chunker(3)),
        ),
        "q",
        passages,
    )
    assert len(result.trace.events) <= 3


def test_one_step_is_that_step():
    passages = [Passage("aaa. b.", "x"), Passage("b.", "y")]
    step = by_letter(0.4, sentence_spans)
    alone = step.denoise("q", passages)
    piped = Pipeline(step).denoise("q", passages)
    assert replace(piped, trace=alone.trace) == alone


def rewrite(query, passages):
    kept = []
    for passage in passages:
        spans = passage.source_spans
        kept.append(replace(passage, text="new. more.", spans=spans, is_rewritten=True))
    return DenoiseResult("what?", tuple(kept))


def test_a_rewritten_text_keeps_its_sources_through_later_steps():
    passages = [Passage("An old and long text.", "x"), Passage("Another.", "y")]
    result = check_denoiser(
        lambda: Pipeline(Faulty(rewrite), by_length(1, sentence_spans)), "q", passages
    )
    (kept,) = result.passages
    assert kept.text == "new. "
    assert kept.is_rewritten is True
    assert kept.source_spans == passages[0].source_spans
    assert [drop.span.passage_id for drop in result.dropped] == ["y"]
    assert result.query == "what?"


def test_an_empty_pipeline_is_an_error():
    with pytest.raises(InputError, match="at least one"):
        Pipeline()
