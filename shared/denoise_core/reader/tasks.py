"""What the reader is taught: conversations written with the library's own prompts, and the replies to them.

So the reader works in S2A, END and the augmenter without prompts of its own. A task is a function that draws a
conversation from a `World`; in it every assistant message is a reply to be learned.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace

from denoise_core.augmenter.engine import draft_prompt, self_ask_prompt
from denoise_core.augmenter.feedback import TemplateFeedback
from denoise_core.augmenter.memory import Attempt, Reason, Verdict, WorkingMemory
from denoise_core.augmenter.prompts import CUSTOMER_SERVICE, DIALOGUE, QUERIES, QUESTION_ANSWERING, Task
from denoise_core.augmenter.utilities.criticism import criticism_prompt
from denoise_core.end.layout import DISTINGUISH, PASSAGE, QSC, QUESTION, SCQ, SQC, Layout, Slot
from denoise_core.end.second_pass import prompt as passages_prompt
from denoise_core.flow import run
from denoise_core.reader import almanac
from denoise_core.reader.opinions import opinion
from denoise_core.reader.scene import Difficulty, Scene, make_scene
from denoise_core.reader.sums import make_sum
from denoise_core.reader.world import Fact, World
from denoise_core.s2a.prompts import Prompt, Prompts
from denoise_core.scorers import discrim_prompts
from denoise_core.types import Message, Passage

Conversation = tuple[Message, ...]
UNKNOWN = "unknown"
_PROMPTS = Prompts()
_ABSENT = 0.15  # share of questions that the context does not answer


def _reply(text: str) -> Message:
    return Message("assistant", text)


def _marker(rng: random.Random) -> str:
    return f"{rng.getrandbits(64):016x}"


def _asked(world: World, scene: Scene) -> tuple[int, Fact, bool]:
    """Which fact to ask for, and whether it is there; an absent one is another of the same kind."""
    rng = world.rng
    k = rng.randrange(len(scene.facts))
    if rng.random() >= _ABSENT:
        return k, scene.facts[k], True
    known = {f.key for f in scene.facts}
    kind = {5: "things", 2: "people", 1: "towns"}[len(scene.facts[0].key)]
    while (other := world.facts(2, 0, kind)[0]).key in known:
        pass
    return k, replace(other, relation=scene.facts[k].relation), False


def answer(world: World, hard: Difficulty) -> Conversation:
    """Questions about a context, several in a row; some with an opinion."""
    rng, scene = world.rng, make_scene(world, hard)
    prompt: Prompt = rng.choice(
        (
            _PROMPTS.answer,
            _PROMPTS.answer,
            _PROMPTS.answer_fairly,
            _PROMPTS.answer_instructed,
            _PROMPTS.answer_keeping,
        )
    )
    out: list[Message] = []
    for n in range(min(4, len(scene.facts))):
        _, fact, there = _asked(world, scene)
        question = fact.asks(world)
        if there and rng.random() < 0.3:
            question += " " + opinion(world, fact)[0]
        if n:
            out.append(Message("user", question))
        else:
            values = {"context": scene.context, "question": question, "original": f"{scene.context}\n\n{question}"}
            out += prompt.render(**{k: v for k, v in values.items() if k in prompt.fields})
        out.append(_reply(fact.value if there else UNKNOWN))
    return tuple(out)


def cloze(world: World, hard: Difficulty) -> Conversation:
    """The first lesson: statements begun, to be finished from the context."""
    rng, scene = world.rng, make_scene(world, hard)
    out: list[Message] = []
    # Drawn with replacement: "the one not asked for yet" must not be a way to the answer.
    for n, fact in enumerate(rng.choices(scene.facts, k=5)):
        said = f"{scene.context}\n\n{fact.cloze()}" if n == 0 else fact.cloze()
        out += [Message("user", said), _reply(fact.value)]
    return tuple(out)


def passages(world: World, hard: Difficulty) -> Conversation:
    """The prompt of END's second pass, and of everything-in beside it."""
    rng, scene = world.rng, make_scene(world, replace(hard, passages=max(hard.passages, 4)))
    _, fact, there = _asked(world, scene)
    asked = passages_prompt(fact.asks(world), [Passage(t, "") for t in scene.texts()])
    return (*asked, _reply(fact.value if there else UNKNOWN))


def layout(world: World, hard: Difficulty) -> Conversation:
    """One passage in END's layouts: the answer, or that it is not there; yes or no where that is asked."""
    rng, scene = world.rng, make_scene(world, replace(hard, passages=max(hard.passages, 3)))
    k = rng.randrange(len(scene.facts))
    fact, n = scene.facts[k], scene.places[k][0]
    if rng.random() < 0.5:
        n = rng.randrange(len(scene.passages))
    there = n == scene.places[k][0]
    chosen = rng.choice((SCQ, SCQ, DISTINGUISH, DISTINGUISH, SQC, QSC))
    slots = {PASSAGE: scene.texts()[n], QUESTION: fact.asks(world)}
    yes_no = chosen is DISTINGUISH
    said = ("yes" if there else "no") if yes_no else (fact.value if there else UNKNOWN)
    return (
        Message("system", _fill(chosen, "system", slots)),
        Message("user", _fill(chosen, "parts", slots)),
        _reply(said),
    )


def _fill(chosen: Layout, part: str, slots: dict[Slot, str]) -> str:
    return "".join(slots[p] if isinstance(p, Slot) else p for p in getattr(chosen, part))


def discriminate(world: World, hard: Difficulty) -> Conversation:
    """The judge of passages one by one (LLM-Discrim)."""
    rng, scene = world.rng, make_scene(world, replace(hard, passages=max(hard.passages, 3)))
    k = rng.randrange(len(scene.facts))
    n = scene.places[k][0] if rng.random() < 0.5 else rng.randrange(len(scene.passages))
    asked = discrim_prompts.USER.format(
        question=scene.facts[k].asks(world), marker=_marker(rng), passage=scene.texts()[n]
    )
    said = "yes" if n == scene.places[k][0] else "no"
    return Message("system", discrim_prompts.SYSTEM), Message("user", asked), _reply(said)


def rewrite(world: World, hard: Difficulty) -> Conversation:
    """S2A step 1: what is left of the context, and the neutral question."""
    rng, scene = world.rng, make_scene(world, hard)
    k, fact, there = _asked(world, scene)
    asked = fact.asks(world)
    question = asked + (" " + opinion(world, fact)[0] if rng.random() < 0.5 else "")
    prompt = rng.choice((_PROMPTS.default, _PROMPTS.default, _PROMPTS.relevance, _PROMPTS.single))
    document = _documents(scene.texts())
    left = scene.said(k) if there else "NONE"
    said = f"Context: {left}\nQuestion: {asked}"
    if prompt is _PROMPTS.single:
        said = f"{left} {asked}" if there else asked
    return (*prompt.render(question=question, document=document, marker=_marker(rng)), _reply(said))


def _documents(texts: tuple[str, ...]) -> str:
    if len(texts) == 1:
        return texts[0]
    return "\n".join(line for n, text in enumerate(texts, 1) for line in (f"[document {n}]", text, "")).rstrip()


def select(world: World, hard: Difficulty) -> Conversation:
    """S2A's cheap step 1: numbers of the sentences to keep."""
    rng, scene = world.rng, make_scene(world, hard)
    k, fact, there = _asked(world, scene)
    question = fact.asks(world)
    if rng.random() < 0.3:
        question += " " + opinion(world, fact)[0]
    lines, number, wanted = [], 0, "NONE"
    for p, sentences in enumerate(scene.passages):
        if len(scene.passages) > 1:
            lines.append(f"(document {p + 1})")
        for at, sentence in enumerate(sentences):
            number += 1
            lines.append(f"[{number}] {sentence}")
            if there and (p, at) == scene.places[k]:
                wanted = str(number)
        lines.append("")
    asked = _PROMPTS.select.render(question=question, document="\n".join(lines).rstrip(), marker=_marker(rng))
    return (*asked, _reply(wanted))


def message(world: World, hard: Difficulty) -> Conversation:
    """S2A on what a person wrote: the request without the opinion."""
    rng = world.rng
    fact = almanac.draw(rng) if rng.random() < 0.5 else world.facts(2, 0)[0]
    asked, said = fact.asks(world), ""
    if rng.random() < 0.3:
        said = world.facts(2, 0, "people")[0].says(world)
    belief = opinion(world, fact)[0]
    pieces = [p for p in (said, asked, belief) if p]
    if rng.random() < 0.5:
        return (
            *_PROMPTS.message.render(document=" ".join(pieces), marker=_marker(rng)),
            _reply(f"Context: {said or 'NONE'}\nQuestion: {asked}"),
        )
    lines = [f"[{n}] {piece}" for n, piece in enumerate(pieces, 1)]
    keep = str(pieces.index(asked) + 1)
    return (*_PROMPTS.message_select.render(document="\n".join(lines), marker=_marker(rng)), _reply(keep))


def closed_book(world: World, hard: Difficulty) -> Conversation:
    """What the reader knows by heart (`almanac`), asked without a context and often with an opinion."""
    rng, out = world.rng, []
    for _ in range(rng.randint(2, 5)):
        fact = almanac.draw(rng)
        question = fact.asks(world)
        if rng.random() < 0.5:
            question += " " + opinion(world, fact)[0]
        prompt = rng.choice((_PROMPTS.answer, _PROMPTS.answer_fairly, _PROMPTS.answer_instructed))
        out += [*prompt.render(context="", question=question), _reply(fact.value)]
    return tuple(out)


def word_problem(world: World, hard: Difficulty) -> Conversation:
    """Sums in words: the answer at once, or after the steps when asked to think."""
    rng = world.rng
    sums = make_sum(world)
    prompt = rng.choice(
        (_PROMPTS.answer, _PROMPTS.answer_fairly, _PROMPTS.answer_stepwise, _PROMPTS.answer_stepwise)
    )
    said = f"The answer is {sums.answer}."
    if prompt is _PROMPTS.answer_stepwise:
        said = " ".join((*sums.steps, said))
    return (*prompt.render(context=sums.text, question=sums.question), _reply(said))


def relevance(world: World, hard: Difficulty) -> Conversation:
    """S2A step 1 on word problems: the sentences that the sum needs."""
    rng = world.rng
    sums = make_sum(world, noise=rng.choice(("random", "topic")))
    values = {"question": sums.question, "marker": _marker(rng)}
    if rng.random() < 0.6:
        prompt = rng.choice((_PROMPTS.relevance, _PROMPTS.default))
        asked = prompt.render(document=sums.text, **values)
        return (*asked, _reply(f"Context: {sums.clean}\nQuestion: {sums.question}"))
    said = list(sums.sentences)
    said.insert(sums.at, sums.noise)
    keep = [str(n) for n in range(1, len(said) + 1) if n != sums.at + 1]
    lines = "\n".join(f"[{n}] {s}" for n, s in enumerate(said, 1))
    return (*_PROMPTS.select.render(document=lines, **values), _reply(", ".join(keep)))


def draft(world: World, hard: Difficulty) -> Conversation:
    """The augmenter's draft with citations, after feedback on a wrong draft in some."""
    rng, scene = world.rng, make_scene(world, replace(hard, passages=max(hard.passages, 3)))
    k, fact, there = _asked(world, scene)
    task: Task = rng.choice((QUESTION_ANSWERING, QUESTION_ANSWERING, DIALOGUE, CUSTOMER_SERVICE))
    evidence = tuple(Passage(t, f"p{n}") for n, t in enumerate(scene.texts()))
    memory = WorkingMemory(fact.asks(world), evidence)
    if task is not QUESTION_ANSWERING and rng.random() < 0.7:
        memory = replace(memory, history=_talk(world, fact))
    cited = f"[{scene.places[k][0] + 1}]"
    said = task.unknown
    if there:
        said = f"{fact.value} {cited}" if task is QUESTION_ANSWERING else f"{scene.said(k)} {cited}"
    if there and rng.random() < 0.35:
        wrong = f"{world.other(fact)} [{rng.randint(1, len(evidence))}]"
        reason = Reason(
            rng.choice(("the evidence says something else", f"the evidence says {fact.value}", "not supported")),
            "criticism",
            wrong,
            evidence[scene.places[k][0]].id,
        )
        verdict = Verdict("fail", 0.1, (reason,))
        told, _ = run(TemplateFeedback().write(memory, wrong, verdict))
        memory = replace(memory, attempts=(Attempt(wrong, verdict, told),))
    return (*draft_prompt(memory, task), _reply(said))


def _talk(world: World, fact: Fact) -> tuple[Message, ...]:
    rng = world.rng
    opening = rng.choice(("Hello!", "Good day.", "Can you help me?", f"I want to know more about {fact.subject}."))
    return Message("user", opening), _reply(
        rng.choice(("Of course. What would you like to know?", "Hello! What is it?"))
    )


def criticise(world: World, hard: Difficulty) -> Conversation:
    """Self-criticism: whether the draft is supported, and what is wrong with it."""
    rng, scene = world.rng, make_scene(world, replace(hard, passages=max(hard.passages, 3)))
    _, fact, there = _asked(world, scene)
    evidence = tuple(Passage(t, f"p{n}") for n, t in enumerate(scene.texts()))
    right = rng.random() < 0.5
    said = fact.value if right else rng.choice((world.other(fact), rng.choice(scene.facts).value))
    verdict: dict[str, object] = {"verdict": "supported", "score": 9, "problems": []}
    if not there:
        verdict = {"verdict": "unclear", "score": 2, "problems": []}
    elif said != fact.value:
        problem = {"claim": said, "problem": f"the evidence says {fact.value}"}
        verdict = {"verdict": "unsupported", "score": 1, "problems": [problem]}
    asked = criticism_prompt(WorkingMemory(fact.asks(world), evidence), said)
    return (*asked, _reply(json.dumps(verdict)))


def search_query(world: World, hard: Difficulty) -> Conversation:
    """A search query from the question and the talk before it."""
    rng = world.rng
    fact = world.facts(2, 0)[0]
    turns = "\n".join(f"{m.role}: {m.content}" for m in _talk(world, fact)) if rng.random() < 0.5 else ""
    shown = f"<history>\n{turns}\n</history>\n\nQuestion: {fact.asks(world)}"
    return (
        Message("system", QUERIES.format(most=3)),
        Message("user", shown),
        _reply(f"{fact.subject} {fact.relation.hint}"),
    )


def self_ask(world: World, hard: Difficulty) -> Conversation:
    """Whether the almanac holds it."""
    rng = world.rng
    known = rng.random() < 0.5
    fact = almanac.draw(rng) if known else world.facts(2, 0)[0]
    memory = WorkingMemory(fact.asks(world))
    return (*self_ask_prompt(memory), _reply("yes" if known else "no"))


TASKS: dict[str, tuple[float, Callable[[World, Difficulty], Conversation]]] = {
    "answer": (4, answer),
    "passages": (4, passages),
    "layout": (4, layout),
    "discriminate": (1, discriminate),
    "rewrite": (3, rewrite),
    "select": (2, select),
    "message": (1, message),
    "closed_book": (1, closed_book),
    "word_problem": (2, word_problem),
    "relevance": (1.5, relevance),
    "draft": (3, draft),
    "criticise": (2, criticise),
    "search_query": (0.5, search_query),
    "self_ask": (0.5, self_ask),
}
