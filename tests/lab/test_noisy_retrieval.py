"""NoisyRetrieval is what it says: look-alikes at the asked level, prose around, the same for everyone."""

import re
from operator import eq

import pytest

from denoise_core import InputError
from denoise_lab.noisy_retrieval import LEVELS, NoisyRetrieval

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
        passwords, shared_counts = [], []
        for passage in q.passages:
            ((*attributes, password),) = FACT.findall(passage.text)
            passwords.append(password)
            shared_counts.append(sum(map(eq, attributes, asked)))
        # The right chunk stands in the middle, once.
        assert shared_counts == [level] * 6 + [5] + [level] * 6
        assert q.gold == {"chunk-6"}
        assert q.answers == (passwords[6],)
        assert len(set(passwords)) == 13


def test_the_seed_decides_and_a_longer_set_begins_like_a_shorter():
    kind = NoisyRetrieval(3)
    three = kind.make_questions(STORY, 3, seed=5)
    assert three == kind.make_questions(STORY, 5, seed=5)[:3]
    assert three != kind.make_questions(STORY, 3, seed=6)


def test_bad_settings_and_haystacks_are_named():
    with pytest.raises(InputError, match="level"):
        NoisyRetrieval(5)
    with pytest.raises(InputError, match="characters"):
        NoisyRetrieval(1, characters=-1)
    for text in ("", "   ", "Too short."):
        with pytest.raises(InputError, match="haystack"):
            NoisyRetrieval(1).make_questions(text, 1)
