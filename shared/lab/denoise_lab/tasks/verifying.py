"""The augmenter's calls: draft, draft again after feedback, criticise, search, and whether to search at all."""

from __future__ import annotations

import json
from dataclasses import replace

from denoise_core.augmenter.feedback import TemplateFeedback
from denoise_core.augmenter.knowledge.queries import QUERIES
from denoise_core.augmenter.memory import Attempt, WorkingMemory
from denoise_core.augmenter.prompts import (
    QUESTION_ANSWERING,
    Task,
    draft_prompt,
    history_block,
    question_block,
    self_ask_prompt,
)
from denoise_core.augmenter.utility import Groundedness
from denoise_core.running.flow import run
from denoise_core.support.judging import AnswerVerdict, ClaimVerdict
from denoise_core.types import Message, Passage
from denoise_lab.conversations import CUSTOMER_SERVICE, DIALOGUE
from denoise_lab.criticism import criticism_prompt
from denoise_lab.tasks.parts import Conversation, again, asked_of, reply
from denoise_lab.worlds import almanac
from denoise_lab.worlds.scene import Difficulty, Scene, make_scene
from denoise_lab.worlds.world import Fact, World


def draft(world: World, hard: Difficulty) -> Conversation:
    """A draft with its citation; in some, after a draft that did not pass; in some, without any evidence."""
    rng = world.rng
    task: Task = rng.choice((QUESTION_ANSWERING, QUESTION_ANSWERING, DIALOGUE, CUSTOMER_SERVICE))
    brief = task is QUESTION_ANSWERING
    if rng.random() < 0.15:
        known = almanac.draw(rng)
        said = known.value if brief else f"{known.cloze()} {known.value}."
        return (*draft_prompt(WorkingMemory(known.asks(world)), task), reply(said))
    scene = make_scene(world, replace(hard, passages=max(hard.passages, 3)))
    k, fact, there = asked_of(world, scene)
    memory = WorkingMemory(fact.asks(world), _evidence(scene))
    if not brief and rng.random() < 0.7:
        memory = replace(memory, history=_talk(world, fact))
    said = task.unknown
    if there:
        said = _cited(fact.value if brief else scene.said(k), scene.places[k][0] + 1)
        if rng.random() < 0.35:
            memory = _rejected(world, memory, fact, brief=brief)
    out = [*draft_prompt(memory, task), reply(said)]
    for _ in again(world) if brief else ():
        k, fact, there = asked_of(world, scene)
        out.append(Message("user", fact.asks(world)))
        out.append(reply(_cited(fact.value, scene.places[k][0] + 1) if there else task.unknown))
    return tuple(out)


def _cited(text: str, number: int) -> str:
    return f"{text} [{number}]"


def _evidence(scene: Scene) -> tuple[Passage, ...]:
    return tuple(Passage(text, f"p{n}") for n, text in enumerate(scene.texts()))


def _talk(world: World, fact: Fact) -> tuple[Message, ...]:
    rng = world.rng
    opening = rng.choice(("Hello!", "Good day.", "Can you help me?", f"I want to know more about {fact.subject}."))
    greeting = rng.choice(("Of course. What would you like to know?", "Hello! What is it?"))
    return Message("user", opening), reply(greeting)


def _rejected(world: World, memory: WorkingMemory, fact: Fact, *, brief: bool) -> WorkingMemory:
    """The memory after a draft that did not pass, with the feedback that the library writes for it."""
    rng = world.rng
    other = replace(fact, value=world.other(fact))
    wrong = _cited(other.value if brief else other.says(world), rng.randint(1, 3))
    kind = rng.choice(("critic", "rule", "rule", "abstained"))
    if kind == "critic":
        reason = f"the evidence says {fact.value}"
        claims: tuple[ClaimVerdict, ...] = (
            ClaimVerdict(other.value, 0, 0, False, kind="criticism", reason=reason),
        )
        if rng.random() < 0.2:
            claims = ()
        verdict = AnswerVerdict(False, 0.1, claims, None, "criticism", "the judge gives it 2 of 10")
    elif kind == "rule":
        verdict, _ = run(Groundedness().assess(memory, wrong))
    else:
        wrong = "unknown"
        verdict = AnswerVerdict(kind="abstention", reason="the answer says that it does not know")
    if verdict.outcome == "pass" or not verdict.reasons:
        return memory
    told, _ = run(TemplateFeedback().write(memory, wrong, verdict))
    return replace(memory, attempts=(Attempt(wrong, verdict, told),))


def criticise(world: World, hard: Difficulty) -> Conversation:
    """Self-criticism: whether the draft is supported, and what is wrong with it."""
    rng, scene = world.rng, make_scene(world, replace(hard, passages=max(hard.passages, 3)))
    k, fact, there = asked_of(world, scene)
    given = fact
    if rng.random() < 0.5:
        given = replace(fact, value=rng.choice((world.other(fact), rng.choice(scene.facts).value)))
    number = scene.places[k][0] + 1 if rng.random() < 0.7 else rng.randint(1, len(scene.passages))
    form = rng.choice(("bare", "brief", "brief", "sentence"))
    said = given.value
    if form != "bare":
        said = _cited(given.value if form == "brief" else given.says(world), number)
    verdict: dict[str, object] = {"verdict": "supported", "score": 9, "problems": []}
    if not there:
        verdict = {"verdict": "unclear", "score": 2, "problems": []}
    elif given.value != fact.value:
        problem = {"claim": given.value, "problem": f"the evidence says {fact.value}"}
        verdict = {"verdict": "unsupported", "score": 1, "problems": [problem]}
    asked = criticism_prompt(WorkingMemory(fact.asks(world), _evidence(scene)), said)
    return (*asked, reply(json.dumps(verdict)))


def search_query(world: World, hard: Difficulty) -> Conversation:
    """A search query from the question and the talk before it."""
    fact = world.facts(2, 0)[0]
    parts = [history_block(_talk(world, fact))] if world.rng.random() < 0.5 else []
    shown = "\n\n".join([*parts, question_block(fact.asks(world))])
    said = f"{fact.subject} {fact.relation.hint}"
    return Message("system", QUERIES.format(most=3)), Message("user", shown), reply(said)


def self_ask(world: World, hard: Difficulty) -> Conversation:
    """Whether the question can be answered without a search: yes for what the almanac holds."""
    known = world.rng.random() < 0.5
    fact = almanac.draw(world.rng) if known else world.facts(2, 0)[0]
    return (*self_ask_prompt(WorkingMemory(fact.asks(world))), reply("yes" if known else "no"))
