"""S2A against opinions in the question, with the reader: the S2A paper's Figure 5 and its ablation in miniature.

Factual questions, each asked four ways: alone, with the right answer suggested, with a wrong one suggested, with
the right one doubted. *Closed book* asks what the reader was taught by heart (`denoise_lab.worlds.almanac`), in a
wording that training kept apart. *Noisy context* asks about a held-out world: passages of confusable facts, facts
of other kinds and prose, each put to S2A in a call of its own, the library's default. An answer is right when it
is the gold word for word; after steps, what stands after the last "The answer is". The oracle is asked without
opinion and, in the second part, given the one sentence that holds the answer.

The reader met opinions in training, most of them right, so trusting them paid there. What this shows is how the
parts act on a model that is swayed; it says nothing about how much a large model is.

Beside passages an extractive variant leaves the question as it came, opinion and all. So ``select`` is also run as
one would use it there: first on the message (`MessageDenoiser`), then on the passages.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from _reader_flows import Batched, describe, gain, generator, reader_arguments, s2a_table, share, together
from harness import Benchmark

from denoise_core import Passage
from denoise_core.result import Trace
from denoise_core.s2a.answer import S2AAnswer
from denoise_lab.protocols.opinions import BOTH, final, forms, systems
from denoise_lab.protocols.opinions import SYSTEMS as PAPERS
from denoise_lab.s2a import Case, Score
from denoise_lab.worlds import almanac
from denoise_lab.worlds.opinions import KINDS, opinion
from denoise_lab.worlds.scene import Difficulty, make_scene
from denoise_lab.worlds.world import Fact, World

QUESTIONS = 80  # each in four forms
SCENE = Difficulty(6, 3, 3, 120)
SYSTEMS = (*PAPERS, BOTH)
JUDGE = "exact"


@dataclass(frozen=True)
class Asked:
    """A case and the wrong answer that its opinion suggests, "" when it suggests none."""

    case: Case
    suggested: str


@dataclass(frozen=True)
class Told:
    """What a system said to each case, in the order of the cases."""

    right: list[bool]
    swayed: list[bool]
    written: list[int]  # output tokens, both steps
    first: list[int]  # output tokens of step 1
    fell_back: list[bool]


def closed_book(rng: random.Random, count: int) -> list[Asked]:
    """Facts of the almanac, well known and little known alike."""
    world = World(rng, test=True)
    facts = rng.sample(almanac.facts(), count)
    return [a for n, fact in enumerate(facts) for a in _forms(world, f"a{n}", fact, (), ())]


def forms_in_context(world: World, rng: random.Random, count: int) -> list[Asked]:
    """``count`` questions about noisy passages of ``world``, each in four forms; ``rng`` is the world's own."""
    found: list[Asked] = []
    for n in range(count):
        scene = make_scene(world, SCENE)
        k = rng.randrange(len(scene.facts))
        passages = tuple(Passage(text, f"p{i}") for i, text in enumerate(scene.texts(), 1))
        found += _forms(world, f"c{n}", scene.facts[k], passages, (Passage(scene.said(k), "p"),))
    return found


def _forms(
    world: World, name: str, fact: Fact, passages: tuple[Passage, ...], clean: tuple[Passage, ...]
) -> list[Asked]:
    question, wrong, opinions = fact.asks(world), "", {}
    for kind in KINDS:
        opinions[kind], _ = opinion(world, fact, kind)
        suggested = re.search(r"that it is (.*)\.$", opinions[kind]) if kind == "incorrect_suggested" else None
        wrong = suggested[1] if suggested else wrong
    cases = forms(name, question, (fact.value,), opinions, passages, clean)
    return [Asked(c, wrong if c.kind == "incorrect_suggested" else "") for c in cases]


def ask(llm: Batched, asked: Sequence[Asked], system: str) -> Told:
    answer = systems(lambda seed: llm)[system]
    told = together([answer(a.case, 0) for a in asked])
    said = [final(a.text) for a, _ in told]
    return Told(
        [s in a.case.gold for s, a in zip(said, asked, strict=True)],
        [bool(a.suggested) and s == a.suggested for s, a in zip(said, asked, strict=True)],
        [_written(trace) for _, trace in told],
        [_written(trace, step_1=True) for _, trace in told],
        [_fell_back(a) for a, _ in told],
    )


def _written(trace: Trace, *, step_1: bool = False) -> int:
    calls = [e for e in trace.events if e.usage and not (step_1 and e.tag == "s2a.answer")]
    return sum(e.usage.output_tokens for e in calls if e.usage)


def _fell_back(answer: S2AAnswer) -> bool:
    return answer.result.fallback is not None


def scores(system: str, asked: Sequence[Asked], told: Told) -> list[Score]:
    return [
        Score(system, a.case.id, a.case.kind, 0, JUDGE, float(right), "", tokens)
        for a, right, tokens in zip(asked, told.right, told.written, strict=True)
    ]


def part(bench: Benchmark, llm: Batched, name: str, asked: Sequence[Asked]) -> None:
    # Without passages the two ways of select are one.
    used = SYSTEMS if asked[0].case.passages else SYSTEMS[:-1]
    select = used[-1]
    told = {system: ask(llm, asked, system) for system in used}
    bench.row(f"{name}: questions", len(asked) // 4, "count")
    everything = [s for system in used for s in scores(system, asked, told[system])]
    s2a_table(bench, everything, JUDGE, name, f"Opinions in the question, {name}")
    wrong = [i for i, a in enumerate(asked) if a.case.kind == "incorrect_suggested"]
    for system in used:
        share(bench, f"{name}: {system} says the wrong answer suggested", [told[system].swayed[i] for i in wrong])
    plain, alone = told["plain"].right, [i for i, a in enumerate(asked) if a.case.kind == "none"]
    gain(
        bench,
        f"{name}: what a wrong suggestion costs (plain, none less incorrect_suggested)",
        [plain[i] for i in alone],
        [plain[i] for i in wrong],
        claim=True,
    )
    default = told["s2a default"].right
    for rival, aim in {"plain": True, "instructed": True, "s2a keep_original": True, "stepwise": True}.items():
        gain(bench, f"{name}: S2A default less {rival}, all types", default, told[rival].right, claim=aim)
    for rival in ("s2a single", "s2a not_instructed", select, "oracle"):
        gain(bench, f"{name}: S2A default less {rival}, all types", default, told[rival].right, claim=False)
    for system in ("s2a default", select):
        gain(
            bench,
            f"{name}: {system.replace('s2a', 'S2A')} less plain, incorrect_suggested",
            [told[system].right[i] for i in wrong],
            [plain[i] for i in wrong],
            claim=True,
        )
    _tokens(bench, name, told, select)


def _tokens(bench: Benchmark, name: str, told: dict[str, Told], select: str) -> None:
    for system in ("plain", "s2a default", select):
        bench.row(f"{name}: {system}, tokens written", _mean(told[system].written), "tokens a question")
    aim = None if bench.options.quick else 0.25
    for what, both in {
        f"tokens written for {select} against default": [told[s].written for s in (select, "s2a default")],
        "the same, step 1 alone": [told[s].first for s in (select, "s2a default")],
    }.items():
        bench.row(f"{name}: {what}", _mean(both[0]) / max(1e-9, _mean(both[1])), "ratio", at_most=aim)
    for system in ("s2a default", "s2a single", select):
        share(bench, f"{name}: {system} fell back to the text as it came", told[system].fell_back)


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values)


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options, folder = reader_arguments(__doc__.splitlines()[0], argv)
    bench = Benchmark("s2a_opinions", options)
    llm = Batched(generator(options, folder))
    count = 3 if options.quick else QUESTIONS
    describe(bench, folder, questions=f"{count} a part, each in four forms")
    part(bench, llm, "closed book", closed_book(random.Random(f"opinions/closed/{options.seed}"), count))
    rng = random.Random(f"opinions/context/{options.seed}")
    part(bench, llm, "noisy context", forms_in_context(World(rng, test=True), rng, count))
    return bench.finish()


if __name__ == "__main__":
    main()
