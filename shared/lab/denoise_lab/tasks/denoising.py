"""S2A's first step: what is left of a context, of a person's message, of a word problem."""

from __future__ import annotations

from dataclasses import replace

from denoise_core.text.delimit import new_marker
from denoise_core.types import Message
from denoise_lab.tasks.parts import PROMPTS, Conversation, again, asked_of, reply
from denoise_lab.worlds import almanac
from denoise_lab.worlds.opinions import opinion
from denoise_lab.worlds.scene import Difficulty, Scene, make_scene
from denoise_lab.worlds.sums import make_sum
from denoise_lab.worlds.world import World


def rewrite(world: World, hard: Difficulty) -> Conversation:
    """What is left of the context, and the neutral question; of one passage, or of several in one call."""
    rng, scene = world.rng, make_scene(world, hard)
    k, fact, there = asked_of(world, scene)
    prompt = rng.choice((PROMPTS.default, PROMPTS.default, PROMPTS.relevance, PROMPTS.single))
    shown = _shown(world, scene, k, one=prompt is PROMPTS.single)
    texts = scene.texts()
    document = texts[shown[0]]
    if len(shown) > 1:
        lines = (line for n, p in enumerate(shown, 1) for line in (f"[document {n}]", texts[p], ""))
        document = "\n".join(lines).rstrip()

    def left(k: int, asked: str, *, there: bool) -> str:
        place = scene.places[k][0]
        there = there and place in shown
        kept = scene.said(k) if len(shown) == 1 else f"[document {place + 1}]\n{scene.said(k)}"
        if prompt is PROMPTS.single:
            return f"{kept} {asked}" if there else asked
        return f"Context: {kept if there else 'NONE'}\nQuestion: {asked}"

    asked = fact.asks(world)
    question = asked + (" " + opinion(world, fact)[0] if rng.random() < 0.5 else "")
    mark = new_marker((document, question))
    out = [*prompt.render(question=question, document=document, marker=mark)]
    out.append(reply(left(k, asked, there=there)))
    for _ in again(world):
        k, fact, there = asked_of(world, scene)
        asked = fact.asks(world)
        out += [Message("user", asked), reply(left(k, asked, there=there))]
    return tuple(out)


def _shown(world: World, scene: Scene, k: int, *, one: bool) -> list[int]:
    """Which passages a call is about: all, or one, which mostly is the one that states fact ``k``."""
    rng, every = world.rng, list(range(len(scene.passages)))
    if one or rng.random() < 0.5:
        return [scene.places[k][0] if rng.random() < 0.6 else rng.choice(every)]
    return every


def select(world: World, hard: Difficulty) -> Conversation:
    """The numbers of the sentences to keep; of one passage, or of several in one call."""
    rng, scene = world.rng, make_scene(world, hard)
    k, fact, there = asked_of(world, scene)
    question = fact.asks(world)
    if rng.random() < 0.3:
        question += " " + opinion(world, fact)[0]
    shown = _shown(world, scene, k, one=False)
    lines: list[str] = []
    numbers: dict[tuple[int, int], str] = {}
    for n, p in enumerate(shown, 1):
        if len(shown) > 1:
            lines.append(f"(document {n})")
        for at, sentence in enumerate(scene.passages[p]):
            numbers[p, at] = str(len(numbers) + 1)
            lines.append(f"[{numbers[p, at]}] {sentence}")
        lines.append("")
    document = "\n".join(lines).rstrip()

    def keep(k: int, *, there: bool) -> Message:
        return reply(numbers.get(scene.places[k], "NONE") if there else "NONE")

    mark = new_marker((document, question))
    out = [*PROMPTS.select.render(question=question, document=document, marker=mark), keep(k, there=there)]
    for _ in again(world):
        k, fact, there = asked_of(world, scene)
        out += [Message("user", fact.asks(world)), keep(k, there=there)]
    return tuple(out)


def message(world: World, hard: Difficulty) -> Conversation:
    """What a person wrote: the request without the opinion, and a fact that came with it."""
    rng = world.rng
    fact = replace(almanac.draw(rng) if rng.random() < 0.5 else world.facts(2, 0)[0], named=True)
    asked, said = fact.asks(world), ""
    if rng.random() < 0.3:
        said = world.facts(2, 0, "people")[0].says(world)
    belief = opinion(world, fact)[0] if rng.random() < 0.8 else ""
    pieces = [p for p in (said, asked, belief) if p]
    if rng.random() < 0.5:
        left = f"Context: {said or 'NONE'}\nQuestion: {asked}"
        document = " ".join(pieces)
        return (*PROMPTS.message.render(document=document, marker=new_marker((document, ""))), reply(left))
    lines = "\n".join(f"[{n}] {piece}" for n, piece in enumerate(pieces, 1))
    keep = ", ".join(str(n) for n, piece in enumerate(pieces, 1) if piece != belief)
    return (*PROMPTS.message_select.render(document=lines, marker=new_marker((lines, ""))), reply(keep))


def relevance(world: World, hard: Difficulty) -> Conversation:
    """The sentences that a word problem needs."""
    rng = world.rng
    sums = make_sum(world, noise=rng.choice(("none", "random", "topic", "random", "topic")))
    question = sums.question
    if rng.random() < 0.6:
        prompt, mark = rng.choice((PROMPTS.relevance, PROMPTS.default)), new_marker((sums.text, question))
        asked = prompt.render(document=sums.text, question=question, marker=mark)
        return (*asked, reply(f"Context: {sums.clean}\nQuestion: {question}"))
    said = list(sums.sentences)
    if sums.noise:
        said.insert(sums.at, sums.noise)
    keep = ", ".join(str(n) for n, s in enumerate(said, 1) if s != sums.noise)
    lines = "\n".join(f"[{n}] {s}" for n, s in enumerate(said, 1))
    mark = new_marker((lines, question))
    return (*PROMPTS.select.render(document=lines, question=question, marker=mark), reply(keep))
