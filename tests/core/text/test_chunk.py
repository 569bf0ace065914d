"""Spans tile the text, whatever the text; sentences are cut where a reader would cut them."""

import contextvars
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from laws import check_tiling

from denoise_core import InputError, Passage, Span
from denoise_core.cancellation import CancelToken
from denoise_core.errors import ContractViolation
from denoise_core.text.chunk import (
    extract_spans,
    no_chunking,
    sentence_chunker,
    sentence_spans,
)

TEXTS = st.text(
    alphabet=st.sampled_from("aZ9 .!?…。！？؟\n\t\"'()-–אب你😀\r\u200f\u00a0"),
    max_size=200,
) | st.text(max_size=80)


def span_texts(passage, spans):
    return [passage.text[span.start : span.end] for span in spans]


def sentences(text):
    passage = Passage(text, "p")
    return span_texts(passage, sentence_spans(passage))


@given(TEXTS)
@example("")
@example(" \n\n ")
@example("a" * 9000)
def test_sentences_tile_any_text(text):
    passage = Passage(text, "p")
    check_tiling(passage, sentence_spans(passage))
    if text.strip():
        assert all(map(str.strip, sentences(text))), "a sentence of white space only"


@given(TEXTS, st.integers(1, 50))
@example("The cat sat on the mat. " * 900, 1000)
def test_chunks_tile_any_text_and_keep_their_size(text, max_characters):
    passage = Passage(text, "p")
    spans = sentence_chunker(max_characters)(passage)
    check_tiling(passage, spans)
    for span in spans:
        assert 0 < len(span) <= max_characters


@pytest.mark.parametrize(
    "expected",
    [
        ["Dr. Smith left. ", "He ran."],
        ["It cost 3.50 dollars. ", "Yes!"],
        ["Well... he said, e.g. this. ", "Done."],
        ["你好。", "世界！"],
        ["مرحبا؟ ", "نعم."],
        ["One.\n\n", "Two."],
        ["😀 Hi there. ", "Bye."],
        ["One \ud83d. ", "Two."],
    ],
)
def test_sentences_in_several_scripts(expected):
    assert sentences("".join(expected)) == expected


def test_chunks_pack_whole_sentences():
    passage = Passage("One two. Three four. Five six.", "p")
    chunks = span_texts(passage, sentence_chunker(21)(passage))
    assert chunks == ["One two. Three four. ", "Five six."]


@given(TEXTS, st.data())
def test_extract_is_the_source_at_its_spans(text, data):
    passage = Passage(text, "p", score=0.5, metadata={"k": 1})
    spans = sentence_spans(passage)
    kept_spans = [span for span in spans if data.draw(st.booleans())]
    extracted = extract_spans(passage, kept_spans)
    if not kept_spans:
        assert extracted is None
        return
    assert extracted.text == "".join(span_texts(passage, kept_spans))
    assert extracted.text == "".join(span_texts(passage, extracted.source_spans))
    assert replace(extracted, text=text, spans=()) == passage
    assert len(kept_spans) < len(spans) or extracted is passage
    for span, after in pairwise(extracted.spans):
        assert span.end < after.start


def test_no_chunking_returns_one_chunk_even_of_an_empty_text():
    assert no_chunking(Passage("", "p")) == (Span("p", 0, 0),)
    assert extract_spans(Passage("", "p"), [Span("p", 0, 0)]) == Passage("", "p")


def test_an_invalid_size_is_an_error():
    with pytest.raises(InputError, match="max_characters=0"):
        sentence_chunker(0)


def test_spans_of_an_earlier_result_refer_to_its_present_text():
    earlier = Passage("def ghi", "a", spans=(Span("a", 3, 10),))
    present = Span("a", 0, 7)
    assert extract_spans(earlier, [present]).source_spans == (present,)


@pytest.mark.parametrize("space", "\u00a0\u2003\u3000\u2028\x85\u202f")
def test_a_wide_space_before_a_full_stop_breaks_nothing(space):
    """The splitter panicked, and a panic is no `Exception`: it passed every error policy."""
    assert sentences(f"Signed: M{space}. Smith. The next one.")[-1] == "The next one."


def test_a_panic_of_the_splitter_is_a_failure(monkeypatch):
    class PanicException(BaseException):
        pass

    def panic(language, text):
        raise PanicException("not a char boundary")

    monkeypatch.setattr("sentencex.get_sentence_boundaries", panic)
    with pytest.raises(ContractViolation, match="not a char boundary"):
        sentence_spans(Passage("A text by itself.", "p"))


class CancelledLater(CancelToken):
    """Nobody waits any more once it has been asked three times."""

    asked = 0

    def is_cancelled(self):
        self.asked += 1
        return self.asked > 3


def test_cutting_a_long_text_stops_when_nobody_waits_for_it():
    """A megabyte that had run out of time was cut to its end, beside the requests after it."""
    token = CancelledLater()
    passage = Passage("It rains here. " * 10_000, "long")
    with pytest.raises(TimeoutError):
        contextvars.copy_context().run(token.run_in, lambda: sentence_spans(passage))
    assert token.asked == 4
