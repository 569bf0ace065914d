"""NoisyRetrieval is what it says: look-alikes at the asked level, prose around, the same for everyone."""

import re

import pytest

from denoise_core import InputError
from denoise_core.evaluate.datasets import read_questions
from denoise_core.evaluate.metrics import recall_at
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.testing import FunctionScorer
from denoise_lab.noisy_retrieval import LEVELS, NoisyRetrieval, write_noisy_retrieval

STORY = " ".join(f"On day {i} the old clerk walked to the harbour and counted {i * 7} boats." for i in range(60))
FACT = re.compile(r"The password of (\w+)'s ([\w-]+) ([\w-]+) ([\w-]+) ([\w-]+) is (\d{8})\.")
ASKED = re.compile(r"What is the password of (\w+)'s ([\w-]+) ([\w-]+) ([\w-]+) ([\w-]+)\?")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("extended", [False, True])
def test_distractors_share_exactly_the_levels_attributes_and_the_answer_stands_once(level, extended):
    for q in NoisyRetrieval(level, extended).questions(STORY, 20):
        asked = ASKED.fullmatch(q.text).groups()
        facts = [FACT.findall(p.text) for p in q.passages]
        assert len(facts) == 13
        assert all(len(f) == 1 for f in facts)
        right = [i for i, (f,) in enumerate(facts) if f[:5] == asked]
        assert right == [6], "the right chunk stands in the middle, once"
        assert q.gold == {"chunk-6"}
        assert q.answers == (facts[6][0][5],)
        assert len({f[0][5] for f in facts}) == 13, "passwords differ"
        for i, (fact,) in enumerate(facts):
            if i != 6:
                assert sum(a == b for a, b in zip(fact, asked)) == level


def test_lengths_are_about_four_and_eight_thousand_tokens():
    for extended, tokens in ((False, 4000), (True, 8000)):
        q = NoisyRetrieval(2, extended).questions(STORY, 1)[0]
        assert 0.95 * tokens < sum(len(p.text) for p in q.passages) / 4 < 1.15 * tokens


def test_the_seed_decides_and_a_longer_set_begins_like_a_shorter():
    kind = NoisyRetrieval(3)
    assert kind.questions(STORY, 3, seed=5) == kind.questions(STORY, 5, seed=5)[:3]
    assert kind.questions(STORY, 3, seed=5) != kind.questions(STORY, 3, seed=6)


def test_a_written_set_reads_back_equal(tmp_path):
    (tmp_path / "story.txt").write_text(STORY, encoding="utf-8")
    path = write_noisy_retrieval(tmp_path / "set.jsonl", tmp_path / "story.txt", NoisyRetrieval(1), 4, seed=2)
    assert read_questions(path).questions == NoisyRetrieval(1).questions(STORY, 4, seed=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["set.jsonl", "story.txt"]


def test_bad_settings_and_haystacks_are_named(tmp_path):
    with pytest.raises(InputError, match="level"):
        NoisyRetrieval(5)
    with pytest.raises(InputError, match="distractor"):
        NoisyRetrieval(1, distractors=0)
    for text in ("", "   ", "Too short."):
        with pytest.raises(InputError, match="haystack"):
            NoisyRetrieval(1).questions(text, 1)
    with pytest.raises(InputError, match="nowhere"):
        write_noisy_retrieval(tmp_path / "x.jsonl", tmp_path / "nowhere.txt", NoisyRetrieval(1), 1)


def test_words_alone_find_the_right_chunk_at_low_levels_and_attributes_always():
    questions = NoisyRetrieval(0).questions(STORY, 10)

    def attributes(query, text):
        return sum(a == b for a, b in zip(FACT.search(text).groups(), ASKED.fullmatch(query).groups()))

    def kept(scorer, asked, share):
        labels = [gold for q in asked for gold in q.labels]
        scores = [s for q in asked for s in scorer.score(q.text, [p.text for p in q.passages])]
        return recall_at(scores, labels, [q.text for q in asked for _ in q.passages], share).mean()

    assert kept(BM25Scorer(), questions, 0.05) == kept(FunctionScorer(attributes), questions, 0.05) == 1.0
    hard = NoisyRetrieval(4).questions(STORY, 10)
    assert kept(FunctionScorer(attributes), hard, 0.05) == 1.0
    blind = kept(FunctionScorer(lambda q, t: 0.0), hard, 0.3)
    assert blind == pytest.approx(4 / 13), "ties count by chance"
