"""Reading: questions about a context, about one passage, about what is known by heart, and sums in words."""

from __future__ import annotations

from dataclasses import replace

from denoise_core.end.answering import prompt as passages_prompt
from denoise_core.local.layout import PASSAGE, QUERY, SCQ, Layout, Slot
from denoise_core.scorers import decisions
from denoise_core.text.delimit import new_marker
from denoise_core.types import Message, Passage
from denoise_lab.layouts import DISTINGUISH, QSC, SQC
from denoise_lab.tasks.parts import PROMPTS, UNKNOWN, Conversation, again, asked_of, reply
from denoise_lab.worlds import almanac
from denoise_lab.worlds.opinions import opinion
from denoise_lab.worlds.scene import Difficulty, Scene, make_scene
from denoise_lab.worlds.sums import make_sum
from denoise_lab.worlds.world import World

_ANSWERING = (
    PROMPTS.answer,
    PROMPTS.answer,
    PROMPTS.answer_fairly,
    PROMPTS.answer_instructed,
    PROMPTS.answer_keeping,
    PROMPTS.answer_stepwise,
)
_TURNS = 6  # questions about one context, at most


def answer(world: World, hard: Difficulty) -> Conversation:
    """Questions about a context, several in a row; some with an opinion."""
    rng, scene = world.rng, make_scene(world, hard)
    prompt = rng.choice(_ANSWERING)
    out: list[Message] = []
    for n in range(min(_TURNS, len(scene.facts))):
        k, fact, there = asked_of(world, scene)
        neutral = fact.asks(world)
        swayed = f"{neutral} {opinion(world, fact)[0]}" if there and rng.random() < 0.3 else neutral
        if n:
            out.append(Message("user", swayed))
        elif prompt is PROMPTS.answer_keeping:
            context = scene.said(k) if there and rng.random() < 0.5 else scene.context
            out += prompt.render(context=context, question=neutral, original=f"{scene.context}\n\n{swayed}")
        else:
            out += prompt.render(context=scene.context, question=swayed)
        if prompt is PROMPTS.answer_stepwise and there and not n:
            out.append(reply(f"{scene.said(k)} The answer is {fact.value}."))
        else:
            out.append(reply(fact.value if there else UNKNOWN))
    return tuple(out)


def passages(world: World, hard: Difficulty) -> Conversation:
    """The prompt of END's second pass, and of everything-in beside it; several questions in a row."""
    scene = make_scene(world, replace(hard, passages=max(hard.passages, 4)))
    out: list[Message] = []
    for n in range(min(_TURNS, len(scene.facts))):
        _, fact, there = asked_of(world, scene)
        question = fact.asks(world)
        out += (
            [Message("user", question)]
            if n
            else passages_prompt(question, [Passage(t, "") for t in scene.texts()])
        )
        out.append(reply(fact.value if there else UNKNOWN))
    return tuple(out)


def layout(world: World, hard: Difficulty) -> Conversation:
    """One passage in END's layouts: the answer, or that it is not there; yes or no where that is asked."""
    rng, scene = world.rng, make_scene(world, replace(hard, passages=max(hard.passages, 3)))
    k, n = _one_passage(world, scene)
    chosen = rng.choice((SCQ, SCQ, DISTINGUISH, DISTINGUISH, SQC, QSC))
    judged = chosen is DISTINGUISH
    slots = {PASSAGE: scene.texts()[n], QUERY: scene.facts[k].asks(world)}
    system, user = _fill(chosen, "system", slots), _fill(chosen, "parts", slots)
    out = [Message("system", system), Message("user", user), reply(_found(scene, k, n, judged=judged))]
    for _ in again(world):
        k = _another(world, scene, n)
        out += [Message("user", scene.facts[k].asks(world)), reply(_found(scene, k, n, judged=judged))]
    return tuple(out)


def _one_passage(world: World, scene: Scene) -> tuple[int, int]:
    """A fact to ask for and a passage to show: in half of all the one that states it."""
    k = world.rng.randrange(len(scene.facts))
    return k, scene.places[k][0] if world.rng.random() < 0.5 else world.rng.randrange(len(scene.passages))


def _another(world: World, scene: Scene, n: int) -> int:
    """A fact to ask for after passage ``n`` was shown: in about half of all one that it states."""
    stated = [k for k, (passage, _) in enumerate(scene.places) if passage == n]
    return world.rng.choice(stated) if world.rng.random() < 0.4 else world.rng.randrange(len(scene.facts))


def _found(scene: Scene, k: int, n: int, *, judged: bool) -> str:
    there = scene.places[k][0] == n
    if judged:
        return "yes" if there else "no"
    return scene.facts[k].value if there else UNKNOWN


def _fill(chosen: Layout, part: str, slots: dict[Slot, str]) -> str:
    return "".join(slots[p] if isinstance(p, Slot) else p for p in getattr(chosen, part))


def discriminate(world: World, hard: Difficulty) -> Conversation:
    """The judge of passages one by one (LLM-Discrim)."""
    scene = make_scene(world, replace(hard, passages=max(hard.passages, 3)))
    k, n = _one_passage(world, scene)
    question, text = scene.facts[k].asks(world), scene.texts()[n]
    asked = decisions.USER.format(question=question, marker=new_marker([question, text]), passage=text)
    out = [
        Message("system", decisions.SYSTEM),
        Message("user", asked),
        reply(_found(scene, k, n, judged=True)),
    ]
    for _ in again(world):
        k = _another(world, scene, n)
        out += [Message("user", scene.facts[k].asks(world)), reply(_found(scene, k, n, judged=True))]
    return tuple(out)


def closed_book(world: World, hard: Difficulty) -> Conversation:
    """What the reader knows by heart (`almanac`), asked without a context and often with an opinion."""
    rng = world.rng
    out: list[Message] = []
    for _ in range(rng.randint(2, 5)):
        fact = almanac.draw(rng)
        neutral = fact.asks(world)
        swayed = f"{neutral} {opinion(world, fact)[0]}" if rng.random() < 0.5 else neutral
        prompt = rng.choice(_ANSWERING)
        if prompt is PROMPTS.answer_keeping:
            out += prompt.render(context="", question=neutral, original=swayed)
        else:
            out += prompt.render(context="", question=swayed)
        out.append(reply(f"The answer is {fact.value}." if prompt is PROMPTS.answer_stepwise else fact.value))
    return tuple(out)


def word_problem(world: World, hard: Difficulty) -> Conversation:
    """Sums in words: the answer at once, or after the steps when asked to think."""
    out: list[Message] = []
    for _ in range(2):
        sums = make_sum(world)
        prompt = world.rng.choice(
            (PROMPTS.answer, PROMPTS.answer_fairly, PROMPTS.answer_stepwise, PROMPTS.answer_stepwise)
        )
        said = f"The answer is {sums.answer}."
        if prompt is PROMPTS.answer_stepwise:
            said = " ".join((*sums.steps, said))
        out += [*prompt.render(context=sums.text, question=sums.question), reply(said)]
    return tuple(out)
