"""The Augmenter's parts switched on and off with the reader: the paper's Tables 1 and 4, Figures 3 to 5, in small.

Knowledge none, BM25 and gold; feedback by rules and by the reader's own criticism; utility and feedback each
without the other; never, self-ask, always and a trained policy. The world, the questions and what counts as right
are described in `denoise_lab.experiments.town`. Right turned wrong is harm; cost is what comes on top of the first
search and the first draft. KF1 is measured in the dialogue task, where answers are sentences, against the sentence
that holds the answer. Policies are trained, and the utility they run with is chosen, on other questions over
another corpus.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from harness import Benchmark, reader_arguments

from denoise_core.augmenter import Answer, LoopLimits, Rules
from denoise_core.augmenter.policy import Policy
from denoise_core.augmenter.trained import LinearPolicy
from denoise_core.augmenter.utility import Groundedness, Utility
from denoise_core.evaluate.metrics import wilson
from denoise_lab.conversations import DIALOGUE
from denoise_lab.criticism import SelfCriticism
from denoise_lab.experiments.flows import Batched, batches_of, describe, generator, local, stand_in
from denoise_lab.experiments.town import AlwaysAgain, NoFeedback, Reader, Town, cost, make_town, reward
from denoise_lab.overlap import knowledge_f1
from denoise_lab.policy import reinforce
from denoise_lab.protocols.loops import NEVER, Setting
from denoise_lab.protocols.loops import SETTINGS as PAPERS
from denoise_lab.responses import LoopCost, loop_cost

QUESTIONS, TRAINING = 150, 60
TEMPERATURE = 0.7
ROUNDS, SEEDS = (0, 10, 30, 60), 3  # of 16 episodes
TWO = LoopLimits(attempts=2, patience=2)
ALWAYS = Rules(without_evidence="draft", widen=False)
SELF_ASK = Rules(consult="self_ask", without_evidence="draft", widen=False)
WIDEN = Rules(without_evidence="draft")
SETTINGS = {
    "no evidence": PAPERS["closed book"],
    "BM25": PAPERS["BM25"],
    "BM25, rule feedback": PAPERS["BM25, feedback"],
    "BM25, self-criticism": PAPERS["BM25, self-criticism"],
    "gold": PAPERS["gold"],
    "gold, rule feedback": PAPERS["gold, feedback"],
    "gold, self-criticism": PAPERS["gold, self-criticism"],
    "utility without feedback": Setting(utility=SelfCriticism(), feedback=NoFeedback(), limits=TWO, redraw=True),
    "feedback without utility": Setting(utility=AlwaysAgain(), limits=TWO),
}
CLAIMS = (
    ("BM25", "no evidence"),
    ("gold", "BM25"),
    ("BM25, rule feedback", "BM25"),
    ("BM25, self-criticism", "BM25"),
    ("gold, rule feedback", "gold"),
    ("gold, self-criticism", "gold"),
    ("utility without feedback", "BM25"),
    ("BM25, self-criticism", "utility without feedback"),
)
DIALOGUES = {
    name: replace(SETTINGS[name], task=DIALOGUE) for name in ("no evidence", "BM25", "BM25, rule feedback", "gold")
}
UTILITIES: dict[str, Utility] = {"groundedness": Groundedness(), "self-criticism": SelfCriticism()}


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options, folder = reader_arguments(__doc__.splitlines()[0], argv)
    bench = Benchmark("augmenter_ablation", options)
    sampling = stand_in if options.quick else batches_of(local(folder, temperature=TEMPERATURE, seed=options.seed))
    reader = Reader(Batched(generator(options, folder)), Batched(sampling))
    sizes = (6, 6) if options.quick else (QUESTIONS, TRAINING)
    redrawn = f"temperature {TEMPERATURE}, seed {options.seed}"
    describe(bench, folder, questions=f"{sizes[0]}, a third of them about the almanac", redrawn=redrawn)
    test = make_town(random.Random(f"augmenter/test/{options.seed}"), sizes[0], 0)
    training = make_town(random.Random(f"augmenter/training/{options.seed}"), sizes[1], 1)
    bench.row("reader: questions", len(test.questions), "count")
    bench.row("reader: of them about the almanac", sum(q.known for q in test.questions), "count")
    table = parts(bench, reader, test)
    dialogues(bench, reader, test)
    policies(bench, reader, training, test, table)
    page = bench.page("The Augmenter with the reader", "\n".join([*HEAD, *table.values()]) + "\n")
    bench.file("md").write_text(page, encoding="utf-8")
    plot(bench)
    return bench.finish()


HEAD = (
    "| | right | held-out world | almanac | harm rate | corrected | extra calls an answer "
    "| extra tokens for a correction |",
    "|---|---|---|---|---|---|---|---|",
)


def parts(bench: Benchmark, reader: Reader, town: Town) -> dict[str, str]:
    """The rows of every setting, and the lines of the table."""
    right: dict[str, list[float]] = {}
    table = {}
    for name, setting in SETTINGS.items():
        answers = reader.answers(town, setting)
        right[name] = [float(q.right(a.text)) for q, a in zip(town.questions, answers, strict=True)]
        table[name] = report(bench, name, town, answers)
    for better, worse in CLAIMS:
        bench.gain(f"reader: {better}, less {worse}", right[better], right[worse], claim=True)
    return table


def report(bench: Benchmark, name: str, town: Town, answers: Sequence[Answer]) -> str:
    right = [q.right(a.text) for q, a in zip(town.questions, answers, strict=True)]
    known = [q.known for q in town.questions]
    own = {kind: [r for r, k in zip(right, known, strict=True) if k is kind] for kind in (False, True)}
    bench.right(f"reader: {name}: right", right)
    bench.right(f"reader: {name}: right, held-out world", own[False])
    bench.right(f"reader: {name}: right, almanac", own[True])
    found = loop_cost(answers, [q.right for q in town.questions])
    if found.right_first:
        bench.share(f"reader: {name}: harm rate", found.harmed, found.right_first, "share of right first drafts")
    bench.share(f"reader: {name}: corrected", found.corrected, found.answers)
    bench.row(f"reader: {name}: extra calls", found.extra_calls / found.answers, "calls an answer")
    if found.calls_per_correction is not None:
        bench.row(f"reader: {name}: extra calls for each correction", found.calls_per_correction, "calls")
        bench.row(
            f"reader: {name}: extra tokens for each correction", found.extra_tokens / found.corrected, "tokens"
        )
    cells = [shown(values) for values in (right, own[False], own[True])]
    return f"| {name} | {' | '.join(cells)} | {_costs(found)} |"


def shown(right: Sequence[bool]) -> str:
    low, high = wilson(sum(right), len(right))
    return f"{sum(right) / len(right):.2f} [{low:.2f}, {high:.2f}]"


def _costs(found: LoopCost) -> str:
    each = f"{found.extra_tokens / found.corrected:.0f}" if found.corrected else "-"
    calls = found.extra_calls / found.answers
    return f"{found.harm_rate:.2f} | {found.corrected / found.answers:.2f} | {calls:.1f} | {each}"


def dialogues(bench: Benchmark, reader: Reader, town: Town) -> None:
    """The dialogue task: KF1 against the sentence that holds the answer, and whether the reply holds it."""
    for name, setting in DIALOGUES.items():
        answers = reader.answers(town, setting)
        both = list(zip(town.questions, answers, strict=True))
        kf1 = [100 * knowledge_f1(a.text, [q.said]) for q, a in both]
        bench.mean(f"reader, dialogue: {name}: KF1", kf1, "percent")
        bench.right(f"reader, dialogue: {name}: holds the answer", [q.mentioned(a.text) for q, a in both])


def policies(bench: Benchmark, reader: Reader, training: Town, test: Town, table: dict[str, str]) -> None:
    """Never, self-ask, always and trained policies with one utility, the better one on the training questions."""
    scores = {name: np.mean(_rights(reader, training, ALWAYS, u)) for name, u in UTILITIES.items()}
    name = max(scores, key=lambda n: float(scores[n]))  # the cheaper one when they are equal
    utility = UTILITIES[name]
    bench.about["utility of the policies, chosen on training questions"] = name
    fixed: dict[str, Policy] = {
        "never": NEVER,
        "self-ask": SELF_ASK,
        "always": ALWAYS,
        "always, wide search after a failure": WIDEN,
        "random": LinearPolicy(rng=random.Random(bench.options.seed)),
    }
    rewards: dict[str, list[float]] = {}
    rights: dict[str, list[float]] = {}
    for label, policy in fixed.items():
        answers = reader.answers(test, Setting(policy=policy, utility=utility, limits=LoopLimits(patience=3)))
        rewards[label], rights[label] = _measured(bench, f"policy {label}", test, answers)
        table[label] = report(bench, f"policy {label}", test, answers)
        if label == "self-ask":
            asked = [any(e.tag == "search" for e in a.trace.events) for a in answers]
            bench.right("reader: policy self-ask: searched", asked)
    learnt = [_train(bench, reader, training, test, utility, seed) for seed in range(SEEDS)]
    curve = np.array([[float(np.mean(r)) for r in seed[0]] for seed in learnt])
    for at, rounds in enumerate(_rounds(bench)):
        ends = (float(curve[:, at].min()), float(curve[:, at].max()))
        bench.row(
            f"reader: REINFORCE after {16 * rounds} episodes (range over seeds)",
            curve[:, at].mean(),
            "reward",
            interval=ends,
        )
    rewards["trained"] = [float(v) for v in np.mean([seed[0][-1] for seed in learnt], axis=0)]
    rights["trained"] = [float(v) for v in np.mean([seed[1] for seed in learnt], axis=0)]
    bench.mean("reader: policy trained: right", rights["trained"])
    bench.mean("reader: policy trained: reward", rewards["trained"], "reward")
    for better, worse in (("self-ask", "never"), ("always", "self-ask")):
        bench.gain(f"reader: policy {better}, less {worse}: right", rights[better], rights[worse], claim=True)
    rules = max(
        ("never", "self-ask", "always", "always, wide search after a failure"), key=lambda n: np.mean(rewards[n])
    )
    for worse in ("random", rules):
        name = f"reader: policy trained, less {worse}{' (best fixed)' if worse == rules else ''}: reward"
        bench.gain(name, rewards["trained"], rewards[worse], claim=True)


def _rights(reader: Reader, town: Town, policy: Policy, utility: Utility) -> list[bool]:
    answers = reader.answers(town, Setting(policy=policy, utility=utility))
    return [q.right(a.text) for q, a in zip(town.questions, answers, strict=True)]


def _measured(
    bench: Benchmark, name: str, town: Town, answers: Sequence[Answer]
) -> tuple[list[float], list[float]]:
    rewards = [reward(q, a) for q, a in zip(town.questions, answers, strict=True)]
    bench.mean(f"reader: {name}: reward", rewards, "reward")
    bench.row(f"reader: {name}: cost", float(np.mean([cost(a) for a in answers])), "cost")
    return rewards, [float(q.right(a.text)) for q, a in zip(town.questions, answers, strict=True)]


def _rounds(bench: Benchmark) -> tuple[int, ...]:
    return (0, 1) if bench.options.quick else ROUNDS


def _train(
    bench: Benchmark, reader: Reader, training: Town, test: Town, utility: Utility, seed: int
) -> tuple[list[list[float]], list[float]]:
    """Rewards on the test questions after each of `ROUNDS`, and at the end what is right."""
    limits = LoopLimits(attempts=3, patience=3)
    if not seed:  # answers the calls that training will make in batches, not one by one
        for n in range(2 if bench.options.quick else 4):
            reader.answers(
                training, Setting(policy=LinearPolicy(rng=random.Random(n)), utility=utility, limits=limits)
            )
    episodes = reader.episodes(training, utility)
    policy, done, curve, right = LinearPolicy(), 0, [], []
    for n in _rounds(bench):
        if n > done:
            policy, _ = reinforce(policy, episodes, rounds=n - done, seed=seed * 1000 + n)
            done = n
        answers = reader.answers(test, Setting(policy=policy, utility=utility, limits=limits))
        both = list(zip(test.questions, answers, strict=True))
        curve.append([reward(q, a) for q, a in both])
        right = [float(q.right(a.text)) for q, a in both]
    return curve, right


def plot(bench: Benchmark) -> None:
    """Bars of what is right as sent, with intervals."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    bars = [
        r for r in bench.rows if r.measure.startswith("reader: ") and r.measure.endswith(": right") and r.interval
    ]
    bars = [r for r in bars if "less" not in r.measure]
    figure, axes = pyplot.subplots(figsize=(7, 1 + 0.3 * len(bars)), layout="constrained")
    ends = [r.interval or (r.value, r.value) for r in bars]
    error = [
        [r.value - e[0] for r, e in zip(bars, ends, strict=True)],
        [e[1] - r.value for r, e in zip(bars, ends, strict=True)],
    ]
    axes.barh(
        range(len(bars)), [r.value for r in bars], 0.7, xerr=error, color="#4c78a8", error_kw={"elinewidth": 0.9}
    )
    axes.set_yticks(range(len(bars)), [r.measure.removeprefix("reader: ").removesuffix(": right") for r in bars])
    axes.invert_yaxis()
    axes.set_xlabel("right as sent")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("The Augmenter with the reader")
    figure.savefig(bench.file("png"), dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
