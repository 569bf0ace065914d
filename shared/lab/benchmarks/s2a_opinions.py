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
from collections.abc import Sequence

from harness import Benchmark, reader_arguments

from denoise_lab.experiments.flows import Batched, describe, generator, s2a_table
from denoise_lab.experiments.opinions import JUDGE, Asked, Told, ask, closed_book, forms_in_context, scores
from denoise_lab.protocols.opinions import BOTH
from denoise_lab.protocols.opinions import SYSTEMS as PAPERS
from denoise_lab.worlds.world import World

QUESTIONS = 80  # each in four forms
SYSTEMS = (*PAPERS, BOTH)


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
        bench.right(f"{name}: {system} says the wrong answer suggested", [told[system].swayed[i] for i in wrong])
    plain, alone = told["plain"].right, [i for i, a in enumerate(asked) if a.case.kind == "none"]
    bench.gain(
        f"{name}: what a wrong suggestion costs (plain, none less incorrect_suggested)",
        [plain[i] for i in alone],
        [plain[i] for i in wrong],
        claim=True,
    )
    default = told["s2a default"].right
    for rival, aim in {"plain": True, "instructed": True, "s2a keep_original": True, "stepwise": True}.items():
        bench.gain(f"{name}: S2A default less {rival}, all types", default, told[rival].right, claim=aim)
    for rival in ("s2a single", "s2a not_instructed", select, "oracle"):
        bench.gain(f"{name}: S2A default less {rival}, all types", default, told[rival].right, claim=False)
    for system in ("s2a default", select):
        bench.gain(
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
        bench.right(f"{name}: {system} fell back to the text as it came", told[system].fell_back)


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
