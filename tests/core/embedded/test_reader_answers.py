"""Laws of the reader: answers stand in their passages, a score is of the candidate's own span."""

import math
import threading

import pytest

from denoise_core import InputError, Passage
from denoise_core.embedded import answer, sample, span_reader
from denoise_core.embedded.reader import judge as shipped
from denoise_core.embedded.reader.span_reader import READ, core, parts, places
from denoise_core.embedded.reader.windows import tokens, windows
from denoise_core.running.caches import Once

TOWER = Passage("The Eiffel Tower in Paris was finished in 1889. It was built by Gustave Eiffel.", "tower")
BRIDGE = Passage("The Golden Gate Bridge was opened in 1937. It stands in San Francisco.", "bridge")
FRUIT = Passage("Bananas are rich in potassium and grow in clusters.", "fruit")
QUESTION = "When was the Eiffel Tower finished?"
ODD = [
    [],
    [Passage("", "a")],
    [Passage("  \n ", "a"), Passage("😀", "b")],
    [Passage("اكتمل برج إيفل في عام ١٨٨٩ في باريس.", "a")],
    [Passage("הושלם בשנת 1889 👩‍👩‍👧‍👧 بيت", "a"), TOWER],
    [Passage("half an emoji \ud83d here 1889", "a")],
    [Passage("x" * 5000, "a")],
]


def test_it_answers():
    found = answer(QUESTION, [FRUIT, BRIDGE, TOWER])
    assert found is not None
    assert (found.passage_id, "1889" in found.text) == ("tower", True)
    assert found.score <= 0
    assert span_reader().floor <= found.holds <= 1


@pytest.mark.parametrize("passages", ODD)
@pytest.mark.parametrize("query", [QUESTION, "", "😀?", "متى اكتمل برج إيفل؟", "why " * 400])
def test_answers_stand_in_their_passages(query, passages):
    texts = {p.id: p.text for p in passages}
    found = span_reader().answers(query, passages, 5)
    assert len(found) <= 5
    for f in found:
        assert texts[f.passage_id][f.start : f.end] == f.text
        assert f.text.strip() == f.text != ""
        assert f.score <= 0
    assert [f.score for f in found] == sorted((f.score for f in found), reverse=True)
    each = span_reader().per_passage(query, passages)
    assert len(each) == len(passages)
    for p, f in zip(passages, each, strict=True):
        assert f is None or (f.passage_id == p.id and p.text[f.start : f.end] == f.text)


def test_real_passages():
    q = sample()[0]
    texts = {p.id: p.text for p in q.passages}
    found = span_reader().answers(q.text, q.passages[:6], 3)
    assert found
    assert all(texts[f.passage_id][f.start : f.end] == f.text for f in found)
    assert span_reader().answers(q.text, q.passages[:6], 3) == found  # the same again


def test_no_two_answers_share_characters():
    found = span_reader().answers(QUESTION, [TOWER, BRIDGE], 8)
    for i, a in enumerate(found):
        for b in found[i + 1 :]:
            assert a.passage_id != b.passage_id or a.end <= b.start or b.end <= a.start
    assert span_reader().answers(QUESTION, [TOWER], 0) == []


def test_passages_do_not_change_what_another_one_says():
    alone = span_reader().per_passage(QUESTION, [TOWER])[0]
    among = span_reader().per_passage(QUESTION, [BRIDGE, TOWER, FRUIT])[1]
    assert alone is not None
    assert among is not None
    assert (alone.start, alone.end) == (among.start, among.end)
    assert among.score == pytest.approx(alone.score, abs=1e-3)


def test_a_long_passage_is_read_in_part():
    text = ("Bananas grow in clusters in many countries. " * 5000) + TOWER.text
    assert len(text) > 200_000
    seen = []
    network = span_reader().network

    class Counting:
        def logits(self, rows):
            seen.append(len(rows))
            return network.logits(rows)

    counted = type(span_reader())(Counting(), tokens())
    found = counted.answers(QUESTION, [Passage(text, "long")], 1)
    assert "1889" in found[0].text
    assert max(seen) <= READ
    assert counted.fits(QUESTION, ["1889"], [Passage(text, "long")])[0].own > -math.inf


@pytest.mark.parametrize(
    "candidate", ["1889", "in 1889", "1889.", "the 1889", " 1889 !", "It was finished in 1889."]
)
def test_a_candidate_is_found_however_it_is_written(candidate):
    assert -20 < span_reader().fits(QUESTION, [candidate], [FRUIT, TOWER])[0].own <= 0


def test_a_right_answer_scores_above_wrong_ones():
    right, wrong, name, nowhere = span_reader().fits(
        QUESTION, ["1889", "1937", "Gustave Eiffel", "1901"], [TOWER, BRIDGE]
    )
    assert right.own > max(wrong.own, name.own)
    assert right.features["ahead"] > 0 > wrong.features["ahead"]
    assert nowhere.own == -math.inf


def test_a_fit_does_not_depend_on_other_candidates():
    alone = span_reader().fits(QUESTION, ["1889"], [TOWER, BRIDGE, FRUIT])[0]
    among = span_reader().fits(QUESTION, ["1937", "1889", "potassium"], [TOWER, BRIDGE, FRUIT])[1]
    assert among.own == pytest.approx(alone.own, abs=1e-3)


@pytest.mark.parametrize("candidate", ["", "...", "the", "🎉", "When was the Eiffel Tower finished?"])
@pytest.mark.parametrize("passages", ODD)
def test_odd_candidates_end_well(candidate, passages):
    score = span_reader().fits(QUESTION, [candidate], passages)[0].own
    assert score <= 0
    assert not math.isnan(score)


def test_whole_words_only():
    window = windows(Passage("The artist O'Brien met Jean-Luc at the café.", "p"), tokens())[0]

    def stands(text):
        return bool(places(window, core(text, tokens()), tokens()))

    assert stands("O'Brien")
    assert stands("o brien")
    assert stands("Jean Luc")
    assert stands("The Cafe")
    assert not stands("art")
    assert not stands("Bri")
    assert not stands("")


def test_parts_of_a_sentence_are_what_the_question_does_not_say():
    question = "When was the bridge finished?"
    assert parts("The bridge was finished in 1889 by Otto Brenner.", question) == ["1889", "Otto Brenner"]
    assert parts("The bridge was finished.", question) == []
    assert parts("", question) == []


def test_two_passages_with_one_id():
    for ask in (lambda ps: answer(QUESTION, ps), lambda ps: span_reader().per_passage(QUESTION, ps)):
        with pytest.raises(InputError):
            ask([TOWER, TOWER])


def test_eight_threads_load_once(monkeypatch):
    loads = []
    real = shipped._Parts
    monkeypatch.setattr(shipped, "_loaded", Once(keep=None))
    monkeypatch.setattr(shipped, "_Parts", lambda: loads.append(1) or real())
    got = []
    threads = [threading.Thread(target=lambda: got.append(shipped.span_reader())) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(loads) == 1
    assert len(got) == 8
    assert len(set(map(id, got))) == 1
