"""NoisyRetrieval is what it says: look-alikes at the asked level, prose around, the same for everyone."""

import re

import pytest

from denoise_core import InputError
from denoise_lab.noisy_retrieval import LEVELS, NoisyRetrieval, write_noisy_retrieval

STORY = " ".join(
    f"On day {i} the old clerk walked to the harbour and counted {i * 7} boats."
    for i in range(60)
)
FACT = re.compile(
    r"The password of (\w+)'s ([\w-]+) ([\w-]+) ([\w-]+) ([\w-]+) is (\d{8})\."
)
ASKED = re.compile(
    r"What is the password of (\w+)'s ([\w-]+) ([\w-]+) ([\w-]+) ([\w-]+)\?"
)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("extended", [False, True])
def test_distractors_share_exactly_the_levels_attributes_and_the_answer_stands_once(
    level, extended
):
    for q in NoisyRetrieval(level, extended).make_questions(STORY, 20):
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
        q = NoisyRetrieval(2, extended).make_questions(STORY, 1)[0]
        assert 0.95 * tokens < sum(len(p.text) for p in q.passages) / 4 < 1.15 * tokens


def test_the_seed_decides_and_a_longer_set_begins_like_a_shorter():
    kind = NoisyRetrieval(3)
    assert (
        kind.make_questions(STORY, 3, seed=5)
        == kind.make_questions(STORY, 5, seed=5)[:3]
    )
    assert kind.make_questions(STORY, 3, seed=5) != kind.make_questions(
        STORY, 3, seed=6
    )


def test_bad_settings_and_haystacks_are_named(tmp_path):
    with pytest.raises(InputError, match="level"):
        NoisyRetrieval(5)
    with pytest.raises(InputError, match="characters"):
        NoisyRetrieval(1, characters=-1)
    for text in ("", "   ", "Too short."):
        with pytest.raises(InputError, match="haystack"):
            NoisyRetrieval(1).make_questions(text, 1)
    with pytest.raises(InputError, match="nowhere"):
        write_noisy_retrieval(
            tmp_path / "x.jsonl", tmp_path / "nowhere.txt", NoisyRetrieval(1), 1
        )
