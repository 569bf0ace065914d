"""S2A on word problems with an irrelevant sentence, with the reader: the S2A paper's Figure 7 in miniature.

Sums of one and two steps in held-out wordings. The sentence that has no part in them is beside the topic
(``random``), about the same goods of somebody else (``topic``), or not there (``none``: what S2A costs where
nothing is to be removed). The problem's text is the passage, its question the question. An answer is right when
its last number is. The oracle is asked without the sentence. Every system is there twice: answering at once, and
in steps (zero-shot chain of thought; S2A in its second step), each to be compared with its own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from harness import Benchmark, reader_arguments

from denoise_core.running.flow import run
from denoise_lab.experiments.flows import Batched, describe, generator, s2a_table, together
from denoise_lab.protocols.problems import AT_ONCE, KINDS, STEPS, problem, systems
from denoise_lab.s2a import Case, NumberJudge, Score
from denoise_lab.worlds.sums import make_sum
from denoise_lab.worlds.world import World

PROBLEMS = 60  # of each kind
SYSTEMS = (*AT_ONCE, *(f"{system}{STEPS}" for system in AT_ONCE))


def cases(rng: random.Random, count: int) -> list[Case]:
    world = World(rng, test=True)
    found = []
    for steps in (1, 2):
        for kind in KINDS:
            for n in range(count):
                sums = make_sum(world, steps=steps, noise=kind)
                name = f"{steps}-step {kind}"
                said = problem(f"{name} {n}", name, sums.text, sums.clean, sums.question, sums.answer)
                found.append(said)
    return found


def ask(llm: Batched, asked: Sequence[Case], system: str) -> tuple[list[Score], list[bool]]:
    """The scores, and whether what was answered from is the problem without the sentence, word for word."""
    answer = systems(lambda seed: llm)[system]
    judge = NumberJudge()
    found, cleared = [], []
    for case, (said, trace) in zip(asked, together([answer(c, 0) for c in asked]), strict=True):
        value, _ = run(judge.judge(case, said.text))
        tokens = sum(e.usage.output_tokens for e in trace.events if e.usage)
        found.append(Score(system, case.id, case.kind, 0, judge.name, value, said.text, tokens))
        left = " ".join(" ".join(p.text.split()) for p in said.result.passages)
        cleared.append(left == case.clean_passages[0].text)
    return found, cleared


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options, folder = reader_arguments(__doc__.splitlines()[0], argv)
    bench = Benchmark("s2a_math", options)
    llm = Batched(generator(options, folder))
    count = 3 if options.quick else PROBLEMS
    describe(bench, folder, questions=f"{count} of each type")
    asked = cases(random.Random(f"math/{options.seed}"), count)
    bench.row("problems", len(asked), "count")
    both = {system: ask(llm, asked, system) for system in SYSTEMS}
    told = {system: scores for system, (scores, _) in both.items()}
    everything = [score for system in SYSTEMS for score in told[system]]
    s2a_table(bench, everything, NumberJudge.name, "problems", "Word problems with an irrelevant sentence")
    for kind in KINDS:
        at = [i for i, case in enumerate(asked) if case.kind.endswith(kind)]
        right = {system: [told[system][i].value or 0.0 for i in at] for system in SYSTEMS}
        noisy = kind != "none"
        for system in ("s2a relevance", "s2a select"):
            bench.right(f"{system}: just the needed sentences left, {kind}", [both[system][1][i] for i in at])
        for steps in ("", STEPS):
            if noisy:
                name = f"what the sentence costs{steps}, {kind} (oracle less plain)"
                bench.gain(name, right[f"oracle{steps}"], right[f"plain{steps}"], claim=True)
            for system in (f"s2a relevance{steps}", f"s2a select{steps}"):
                bench.gain(
                    f"{system} less plain{steps}, {kind}",
                    right[system],
                    right[f"plain{steps}"],
                    claim=noisy,
                )
        bench.gain(f"steps less at once, {kind}", right[f"plain{STEPS}"], right["plain"], claim=False)
    return bench.finish()


if __name__ == "__main__":
    main()
