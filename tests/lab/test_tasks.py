"""What is taught is what the flows send, and replies are what their parsers take."""

import json
import random
import re
from itertools import pairwise

import pytest
from envelopes import enclosed

from denoise_core import Passage
from denoise_core.s2a import Options, S2ADenoiser
from denoise_core.testing import FunctionLLM
from denoise_lab.criticism import read_criticism
from denoise_lab.tasks import MAKERS, TASKS
from denoise_lab.tasks.denoising import select
from denoise_lab.tasks.drills import lines, repeat
from denoise_lab.tasks.verifying import criticise
from denoise_lab.worlds.scene import Difficulty
from denoise_lab.worlds.world import World

HARD = Difficulty(6, 3, 3, 120)


@pytest.fixture(params=range(25))
def world(request):
    return World(random.Random(request.param))


@pytest.mark.parametrize("task", list(MAKERS))
def test_a_conversation_ends_with_a_reply_and_every_reply_follows_a_question(task, world):
    talk = MAKERS[task](world, HARD)
    roles = [m.role for m in talk]
    assert roles[-1] == "assistant"
    assert all(before == "user" for before, role in pairwise(roles) if role == "assistant")
    assert all(m.content for m in talk if m.role == "assistant")


def once(talk):
    """A conversation up to its first reply: training asks further questions about the same text."""
    return talk[: [m.role for m in talk].index("assistant") + 1]


def document_of(talk):
    user = talk[-2].content
    question = user.rsplit("\n\nQuestion:\n", 1)[1].split("\n\n", 1)[0]
    inside = re.search(r"BEGIN [0-9a-f]{16}\n(.*)\nEND", user, re.DOTALL).group(1)
    texts = [t.strip() for t in re.split(r"\(document \d+\)\n", inside) if t.strip()]
    texts = [" ".join(re.sub(r"^\[\d+\] ", "", line) for line in t.splitlines()) for t in texts]
    return question, [Passage(t, str(n)) for n, t in enumerate(texts)]


def test_the_first_step_of_s2a_reads_the_selection_that_was_taught(world):
    """The wording is version 2's, which the core has moved on from (`tasks.wording`). Selections are read as ever;
    rewritten context came with the question then, which a document's reply no longer holds.
    """
    talk = once(select(world, Difficulty(5, 2, 3)))  # without prose: sentences are cut where they were joined
    question, passages = document_of(talk)
    options = Options(joint=True, window=10**8, clear=False)
    llm = FunctionLLM(lambda _: talk[-1].content)
    result = S2ADenoiser(llm, variant="select", on_error="raise", options=options).denoise(question, passages)
    assert result.fallback is None
    kept = " ".join(p.text for p in result.passages)
    assert len(kept) <= sum(len(p.text) for p in passages)


def test_numbered_lines_are_told_and_copied_as_they_stand(world):
    talk = lines(world, HARD)
    text = dict(re.findall(r"^\[(\d+)\] (.*)$", talk[0].content, re.MULTILINE))
    for asked, told in zip(talk[::2], talk[1::2], strict=True):
        question = asked.content.rsplit("\n\n", 1)[-1]
        if number := re.match(r"What does line (\d+) say", question):
            assert told.content == text[number[1]]
        else:
            part = question.split(": ", 1)[1]
            found = [n for n, line in text.items() if part in line]
            wanted = (n if question.startswith("Which") else text[n] for n in found)
            assert told.content in wanted
            assert len(found) == 1


def test_what_is_to_be_said_again_stands_right_before(world):
    talk = repeat(world, HARD)
    for asked, told in zip(talk[::2], talk[1::2], strict=True):
        assert asked.content.startswith(f"{told.content}\n\n")


def test_criticism_is_taught_in_the_form_that_is_read(world):
    talk = criticise(world, HARD)
    verdict = read_criticism(talk[-1].content, 0.5)
    said = json.loads(talk[-1].content)["verdict"]
    assert verdict.outcome == {"supported": "pass", "unsupported": "fail", "unclear": "unknown"}[said]
    draft = dict(enclosed(talk[-2].content)[0])["draft"]
    assert all(finding.text in draft for finding in verdict.findings)


def test_training_and_test_questions_have_no_wording_in_common():
    def wordings(test):
        talks = (TASKS["answer"][1](World(random.Random(n), test=test), Difficulty()) for n in range(80))
        return {re.sub(r"[A-Z][\w'-]+", "X", talk[-2].content) for talk in talks if len(talk) > 3}

    assert not wordings(False) & wordings(True)
