"""Does a trained policy pay? Reward and cost of fixed, random and trained policies in a simulator.

Dialogues and knowledge are real (DSTC11 Track 5); the model that answers is simulated by rules that stand in
`denoise_lab.policy.simulate`. Each dialogue gives two turns: the last one, which needs knowledge,
and an earlier one, which does not. Reward: unigram F1 with what is right, less the cost of searches and drafts.
The target is the best of all fixed policies by reward, shipped rules and lists of actions alike: at least its
reward at no more than its cost. The reward has the cost in it already, so a policy trained on it spends where
that pays. A second operating point is therefore trained with the cost counted ``WEIGHTS`` times; the weight is
chosen on the training dialogues alone: the smallest whose policies cost no more there than the fixed policy
that is best there. (Where that one drafts once and sends, nothing costs less, and to match it is to do the same.)
Whatever it was trained on, a policy is reported by the same reward.

Training sees 300 dialogues; everything reported is on the other 200. The learning curve is the greedy policy's
reward there after so many episodes, from a random start, mean over seeds.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from harness import Benchmark, arguments, read

from denoise_core.augmenter.trained import LinearPolicy
from denoise_lab.policy import (
    Simulator,
    imitate,
    learn_from_recorded,
    reinforce,
    simulators,
)
from denoise_lab.policy.dialogues import FIXED, SHIPPED, made_up, measure, turns
from denoise_lab.policy.simulate import DEFAULTS
from denoise_lab.policy.simulate import Rules as Costs

TRAINING = 300  # dialogues
SEEDS = 5
ROUNDS = (0, 6, 19, 38, 63, 125)  # of 16 episodes
WEIGHTS = (2, 4, 8, 16)


def main(argv: Sequence[str] | None = None) -> Benchmark:
    options = arguments(__doc__.splitlines()[0], argv)
    bench = Benchmark("policy", options)
    if options.quick:
        train, test = simulators(made_up(8), seed=1), simulators(made_up(4), seed=2)
        seeds, rounds = 1, (0, 2)
    else:
        rows = read(options.data, "dstc11_track5")
        train = simulators(turns(rows[:TRAINING]), seed=1)
        test = simulators(turns(rows[TRAINING:]), seed=2)
        seeds, rounds = SEEDS, ROUNDS
    bench.row("training turns", len(train), "count")
    bench.row("held-out turns", len(test), "count")
    fixed = {name: measure(policy, test) for name, policy in FIXED.items()}
    for name, found in fixed.items():
        _report(bench, name, *found)
    chance = measure(LinearPolicy(rng=random.Random(options.seed)), test)
    _report(bench, "random", *chance)
    points = {"REINFORCE": _learning(bench, train, test, rounds, seeds)}
    points["REINFORCE, cost weighted"] = _dear(bench, train, test, rounds[-1], seeds)
    best = max(FIXED, key=lambda n: fixed[n][0].mean())
    aim = None if options.quick else 0.0
    for name, (reward, cost) in points.items():
        _report(bench, f"{name}, mean over seeds", reward, cost)
        _compare(bench, f"{name} less random", reward - chance[0], aim)
        for rival in dict.fromkeys((best, max(SHIPPED, key=lambda n: fixed[n][0].mean()))):
            kind = "best fixed policy" if rival == best else "best shipped rules"
            _compare(bench, f"{name} less {kind} ({rival})", reward - fixed[rival][0], aim)
            spent = _tidy(cost.mean() - fixed[rival][1].mean())
            bench.row(f"{name} less {kind} ({rival}): cost", spent, "cost", at_most=aim)
    _stages(bench, train, test, quick=options.quick)
    return bench.finish()


def _learning(
    bench: Benchmark, train: Sequence[Simulator], test: Sequence[Simulator], rounds: Sequence[int], seeds: int
) -> tuple[np.ndarray, np.ndarray]:
    """The learning curve; reward and cost of each episode at its end, mean over seeds."""
    found = []
    for seed in range(seeds):
        policy = LinearPolicy()
        done = 0
        for n in rounds:
            if n > done:
                policy, _ = reinforce(policy, train, rounds=n - done, seed=seed * 1000 + n)
                done = n
            found.append(measure(policy, test))
    curve = np.array([r.mean() for r, _ in found]).reshape(seeds, len(rounds))
    for at, n in enumerate(rounds):
        ends = (float(curve[:, at].min()), float(curve[:, at].max()))
        bench.row(
            f"REINFORCE after {n * 16} episodes (range over seeds)", curve[:, at].mean(), "reward", interval=ends
        )
    last = found[len(rounds) - 1 :: len(rounds)]
    return np.mean([r for r, _ in last], axis=0), np.mean([c for _, c in last], axis=0)


def _dear(
    bench: Benchmark, train: Sequence[Simulator], test: Sequence[Simulator], rounds: int, seeds: int
) -> tuple[np.ndarray, np.ndarray]:
    """Reward and cost of each episode, mean over seeds, of policies trained with a heavier cost; see the head of
    this file for the weight. The lighter weights are reported on the way."""
    fixed = [measure(policy, train) for policy in FIXED.values()]
    most = max(fixed, key=lambda found: float(found[0].mean()))[1].mean()
    for weight in WEIGHTS:
        rules = Costs(search_cost=weight * DEFAULTS.search_cost, draft_cost=weight * DEFAULTS.draft_cost)
        dearer = [Simulator(e.turn, e.others, seed=e.seed, rules=rules) for e in train]
        policies = [reinforce(LinearPolicy(), dearer, rounds=rounds, seed=seed)[0] for seed in range(seeds)]
        found = np.mean([measure(policy, test) for policy in policies], axis=0)
        spent = float(np.mean([measure(policy, train)[1].mean() for policy in policies]))
        name = f"REINFORCE, cost counted {weight} times"
        bench.row(f"{name}: reward", found[0].mean(), "reward")
        bench.row(f"{name}: cost", found[1].mean(), "cost")
        bench.row(f"{name}: cost on the training dialogues", spent, "cost")
        if spent <= most + 1e-9:
            break
    return found[0], found[1]


def _stages(
    bench: Benchmark,
    train: Sequence[Simulator],
    test: Sequence[Simulator],
    *,
    quick: bool,
) -> None:
    """The paper's three stages, one after the other; one seed."""
    few = train[: 8 if quick else 60]
    # Few steps, so that the copy still tries other things: a sure policy learns nothing from its own runs.
    copied = imitate(LinearPolicy(), SHIPPED["always search (rules)"], few, steps=20)
    _report(bench, "stage 1, imitation of the rules", *measure(copied, test))
    trained, _ = reinforce(copied, train, rounds=2 if quick else 125, seed=7)
    _report(bench, "stage 2, then REINFORCE (2000 episodes)", *measure(trained, test))
    explorer = LinearPolicy(copied.weights, rng=random.Random(3))
    recorded = [episode(explorer) for episode in (few if quick else train)]
    offline, report = learn_from_recorded(copied, few[0].augmenter(copied), recorded, steps=20 if quick else 100)
    _report(bench, "stage 3 alone, from recorded runs of stage 1", *measure(offline, test))
    bench.row("stage 3: recorded runs", report.runs, "count")
    bench.row("stage 3: effective runs after clipping", report.effective_runs, "count")
    bench.row("stage 3: largest importance weight before clipping", report.largest_weight, "ratio")


def _report(bench: Benchmark, name: str, reward: np.ndarray, cost: np.ndarray) -> None:
    bench.mean(f"{name}: reward", reward, "reward")
    bench.row(f"{name}: cost", cost.mean(), "cost")


def _compare(bench: Benchmark, name: str, gain: np.ndarray, at_least: float | None) -> None:
    bench.mean(name, np.round(gain, 9) + 0.0, "reward", at_least=at_least)


def _tidy(value: float) -> float:
    """Without the last digits, in which equal sums differ when they were added in another order; never -0."""
    return round(float(value), 9) + 0.0


if __name__ == "__main__":
    main()
