"""Windows of a passage: exact places, every word in some window, bounded length, any text."""

import sys
import threading
from itertools import pairwise

import pytest

from denoise_core import InputError, Passage
from denoise_core.embedded import sample
from denoise_core.embedded.reader.forward import (
    ASKED_SHARED,
    BODY_SHARED,
    HEAD_SHARED,
    QUESTION,
    batch,
    overlap,
    row,
)
from denoise_core.embedded.reader.windows import BODY, HEAD, NOWHERE, tokens, windows

LONG = "The tower, which was finished in 1889, stands in Paris. It is 330 metres tall! " * 30
TEXTS = [
    "The tower was finished in 1889.",
    "One. Two.\n\nThree? " * 60,
    LONG,
    "word " * 500,
    "برج إيفل في باريس. اكتمل في عام ١٨٨٩. " * 20,
    "😀 The tower 👩‍👩‍👧‍👧 was finished 🎉 in 1889. " * 15,
    "埃菲尔铁塔于1889年完工。它位于巴黎。" * 20,
    "Ünïcödé déjà vu ﬁn. " * 30,
    "x" * 3000,
    "half an emoji \ud83d stands here. " * 20,
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("title", ["", "Eiffel Tower"])
def test_windows_cover_the_words_and_stay_short(text, title):
    passage = Passage(text, "p", metadata={"title": title})
    found = windows(passage, tokens())
    covered = set()
    for w in found:
        assert w.passage_id == "p"
        assert len(w.ids) == len(w.places) <= HEAD + BODY
        assert w.head <= HEAD
        inside = w.places[w.head :]
        assert (inside[0][0], inside[-1][1]) == (w.start, w.end)
        for start, end in inside:
            assert 0 <= start < end <= len(text)
            covered.update(range(start, end))
        starts = [s for s, _ in inside]
        assert starts == sorted(starts)
    assert covered == {c for s, e in tokens().pieces(text).places for c in range(s, e)}


@pytest.mark.parametrize("text", TEXTS[:7])
def test_a_place_is_the_piece_itself(text):
    vocabulary = {tokens().pieces(w).ids[0]: w for w in ("tower", "1889", "paris", "finished")}
    for w in windows(Passage(text, "p"), tokens()):
        for piece, (start, end) in zip(w.ids, w.places, strict=True):
            if piece in vocabulary:
                assert text[start:end].lower() == vocabulary[piece]


def test_neighbours_overlap_by_a_sentence():
    found = windows(Passage(LONG, "p"), tokens())
    assert len(found) > 2
    assert all(b.start < a.end for a, b in pairwise(found))


def test_later_windows_are_headed_by_the_first_words_or_the_title():
    first, second, *_ = windows(Passage(LONG, "p"), tokens())
    assert first.head == 0
    assert LONG[: second.places[second.head - 1][1]] == "The tower, which was finished in"
    titled = windows(Passage(LONG, "p", metadata={"title": "Eiffel"}), tokens())
    assert all(w.head and w.places[: w.head] == (NOWHERE,) * w.head for w in titled)
    begins = windows(Passage("Eiffel\n" + LONG, "p", metadata={"title": "Eiffel"}), tokens())
    assert begins[0].head == 0
    assert begins[1].places[begins[1].head - 1] == (4, 6)


@pytest.mark.parametrize("text", ["", "   \n\t ", "\u200b"])
def test_nothing_to_read_gives_no_window(text):
    assert windows(Passage(text, "p"), tokens()) == ()


def test_what_is_read_grows_with_the_text_and_no_faster():
    text = "The tower stands in Paris. " * 8000
    assert len(text) > 200_000
    pieces = len(tokens().pieces(text).ids)
    assert sum(len(w.ids) for w in windows(Passage(text, "p"), tokens())) < 2 * pieces


def test_marks_show_what_question_and_window_share():
    asked = tokens().pieces("When was the Eiffel tower finished?").ids
    w = windows(Passage(LONG, "p", metadata={"title": "Eiffel"}), tokens())[0]
    r = row(asked, w, tokens())
    assert len(r.ids) == len(r.marks)
    assert r.ids[r.start : r.end] == w.ids
    tower = tokens().pieces("tower").ids[0]
    assert {r.marks[i] for i, piece in enumerate(r.ids) if piece == tower} == {ASKED_SHARED, BODY_SHARED}
    assert HEAD_SHARED in r.marks
    the = tokens().pieces("the").ids[0]
    assert {r.marks[i] for i, piece in enumerate(r.ids) if piece == the}.isdisjoint({ASKED_SHARED, BODY_SHARED})


def test_long_questions_are_cut_and_batches_hold_every_row():
    w = windows(Passage(LONG, "p"), tokens())
    rows = [row(tokens().pieces("why " * n).ids, x, tokens()) for n, x in zip((0, 1, 300), w, strict=False)]
    assert max(r.start for r in rows) == QUESTION + 2
    joined = batch(rows)
    assert joined.inside.sum(1).tolist() == [len(x.ids) for x in w[: len(rows)]]
    assert joined.real.sum(1).tolist() == [len(r) for r in rows]


def test_the_closest_window_shares_the_rare_words():
    texts = ["The city has a park.", "The tower was finished in 1889 by Eiffel.", "The city has a tower."]
    found = [windows(Passage(t, str(i)), tokens())[0] for i, t in enumerate(texts)]
    asked = tokens().pieces("When was the tower of Eiffel finished?").ids
    assert overlap(asked, found, tokens()).argmax() == 1
    assert overlap((), found, tokens()).tolist() == [0, 0, 0]
    assert len(overlap(asked, [], tokens())) == 0


def test_real_passages():
    for p in sample()[0].passages:
        found = windows(p, tokens())
        assert found
        assert p.text[found[-1].start : found[-1].end].strip()


def test_text_must_be_text():
    with pytest.raises(InputError):
        Passage(None, "p")


def test_other_threads_run_while_a_long_text_is_cut():
    """No thread is made to give up the interpreter here: another one runs only where it is given up."""
    long, begun, order = LONG * 50, threading.Event(), []
    tokens().pieces("loaded")

    def other():
        begun.wait()
        order.append("other")

    thread = threading.Thread(target=other)
    thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        begun.set()
        tokens().pieces(long)
        order.append("cut")
    finally:
        sys.setswitchinterval(interval)
    thread.join()
    assert order == ["other", "cut"]
