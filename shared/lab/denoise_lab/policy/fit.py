"""Train a policy: imitate the rules, then REINFORCE in a simulator, then learn from recorded runs.

REINFORCE (Williams 1992) with a moving-average baseline and an entropy bonus, as the paper's equation 1 asks;
the paper gives no learning rate, baseline or batch size, so all of these are ours.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from denoise_core.augmenter.actions import Action, Draft, Readmit, Search, Send
from denoise_core.augmenter.answer import Answer
from denoise_core.augmenter.loop import Augmenter
from denoise_core.augmenter.memory import WorkingMemory
from denoise_core.augmenter.policy import Policy
from denoise_core.augmenter.utility import without_effects
from denoise_core.errors import InputError
from denoise_core.runtime.effects import Flow
from denoise_core.support.judging import AnswerVerdict
from denoise_lab.policy.trained import LinearPolicy, allowed, memory_features, softmax
from denoise_lab.replay import replay

Episode = Callable[[Policy], tuple[Answer, float]]
"""Runs one dialogue turn under a policy and gives its answer and reward."""


@dataclass(frozen=True, slots=True)
class ReinforceSettings:
    """``rate`` of learning, ``entropy`` bonus, ``baseline`` the share of the old mean that is kept after each
    batch, ``batch`` episodes for one step."""

    rate: float = 0.5
    entropy: float = 0.01
    baseline: float = 0.9
    batch: int = 16


DEFAULTS = ReinforceSettings()


@dataclass(frozen=True, slots=True)
class Decision:
    """One choice: what was seen, what was allowed, what was taken and how probable that was."""

    features: NDArray[np.float64]
    may: NDArray[np.bool_]
    taken: int
    probability: float


@dataclass(slots=True)
class Watched:
    """A policy that keeps every decision it makes, for learning."""

    policy: LinearPolicy
    decisions: list[Decision] = field(default_factory=list)

    def choose(self, memory: WorkingMemory) -> Action:
        action = self.policy.choose(memory)
        found = _decision(self.policy, memory, action)
        if found:
            self.decisions.append(found)
        return action


def index_of(action: Action) -> int | None:
    """The place of an action in `ACTIONS`; None for one that a trained policy never takes."""
    if isinstance(action, Search):
        return 1 if action.wide else 0
    return next(
        (
            n
            for kind, n in ((Readmit, 2), (Draft, 3), (Send, 4))
            if isinstance(action, kind)
        ),
        None,
    )


@dataclass(frozen=True, slots=True)
class OffPolicyReport:
    """How much the recorded runs can say about the new policy: runs used, the largest importance weight before
    clipping, and the effective number of runs after it (Kish)."""

    runs: int
    largest_weight: float
    effective_runs: float


def imitate(
    start: LinearPolicy,
    teacher: Policy,
    episodes: Sequence[Episode],
    *,
    steps: int = 200,
    rate: float = 1.0,
) -> LinearPolicy:
    """A policy that does what ``teacher`` does on these episodes (the paper's first stage): softmax regression
    on the teacher's choices. Actions that a trained policy cannot take are left out; `InputError` where there
    are no others."""
    seen: list[Decision] = []

    class Shown:
        def choose(self, memory: WorkingMemory) -> Action:
            action = teacher.choose(memory)
            found = _decision(start, memory, action)
            if found:
                seen.append(found)
            return action

    for episode in episodes:
        episode(Shown())
    if not seen:
        raise InputError(
            "imitate: the teacher took no action that a trained policy can take"
        )
    weights = start.weights.copy()
    x = np.stack([d.features for d in seen])
    may = np.stack([d.may for d in seen])
    taken = np.eye(len(weights))[[d.taken for d in seen]]
    for _ in range(steps):
        masked = np.where(may, x @ weights.T, -np.inf)
        powers = np.exp(masked - masked.max(1, keepdims=True))
        chances = powers / powers.sum(1, keepdims=True)
        weights += rate * ((taken - chances).T @ x / len(x) - 1e-3 * weights)
    return _with(start, weights)


def reinforce(
    start: LinearPolicy,
    episodes: Sequence[Episode],
    *,
    rounds: int,
    seed: int,
    settings: ReinforceSettings = DEFAULTS,
) -> tuple[LinearPolicy, list[float]]:
    """``rounds`` batches of randomly drawn episodes; the trained policy and each batch's mean reward.

    Raises `InputError` without episodes or for ``rounds`` below 1.
    """
    if not episodes or rounds < 1:
        raise InputError("reinforce: expected episodes, and rounds of 1 or more")
    rng = random.Random(seed)
    weights = start.weights.copy()
    mean: float | None = None
    curve: list[float] = []
    for _ in range(rounds):
        current = _with(start, weights, rng)
        runs: list[tuple[list[Decision], float]] = []
        for episode in rng.choices(episodes, k=settings.batch):
            watched = Watched(current)
            _, reward = episode(watched)
            runs.append((watched.decisions, reward))
        rewards = [reward for _, reward in runs]
        here = float(np.mean(rewards))
        mean = here if mean is None else mean
        step = np.zeros_like(weights)
        for decisions, reward in runs:
            for d in decisions:
                step += _push(weights, d, reward - mean, settings.entropy)
        weights += settings.rate * step / settings.batch
        mean = settings.baseline * mean + (1 - settings.baseline) * here
        curve.append(here)
    return _with(start, weights), curve


def learn_from_recorded(
    start: LinearPolicy,
    augmenter: Augmenter,
    recorded: Sequence[tuple[Answer, float]],
    *,
    steps: int = 100,
    clip: float = 5.0,
    settings: ReinforceSettings = DEFAULTS,
) -> tuple[LinearPolicy, OffPolicyReport]:
    """Improve on recorded runs and their rewards (the paper's third stage), without running anything.

    Each run counts with the product of new over logged action probabilities, clipped at ``clip`` and
    scaled to a mean of 1. Runs whose policy was not stochastic (probability 1 throughout) count too, but
    say nothing about what else could have been done. Raises `InputError` when no run can be read.
    """
    runs = [
        (found, reward)
        for answer, reward in recorded
        if (found := decisions_of(start, augmenter, answer))
    ]
    if not runs:
        raise InputError(
            "recorded: expected at least one run with actions that a trained policy can take"
        )
    mean = float(np.mean([reward for _, reward in runs]))
    weights = start.weights.copy()
    for _ in range(steps):
        scale = _importance(weights, runs, clip)[1]
        step = np.zeros_like(weights)
        for (decisions, reward), factor in zip(runs, scale, strict=True):
            for d in decisions:
                step += factor * _push(weights, d, reward - mean, settings.entropy)
        weights += settings.rate * step / len(runs)
    raw, scale = _importance(weights, runs, clip)
    effective = float(scale.sum() ** 2 / max(float((scale**2).sum()), 1e-12))
    return _with(start, weights), OffPolicyReport(
        len(runs), float(raw.max()), effective
    )


def decisions_of(
    policy: LinearPolicy, augmenter: Augmenter, recorded: Answer
) -> list[Decision]:
    """The decisions of a recorded run that ``policy`` could have taken; found by replaying it.

    ``augmenter`` is one like that of the recording; nothing of it is called.
    """
    found: list[Decision] = []
    left = list(recorded.memory.actions)

    class Retraced:
        def choose(self, memory: WorkingMemory) -> Action:
            action = left.pop(0)
            decision = _decision(policy, memory, action)
            if decision:
                found.append(decision)
            return action

    loop = copy.copy(augmenter)
    loop.policy, loop.utility = Retraced(), _Recorded(recorded)
    replay(loop, recorded)
    return found


class _Recorded:
    """The verdicts of the recorded run, each for its own candidate; what was not kept then failed then."""

    def __init__(self, recorded: Answer) -> None:
        self.left = [(a.candidate, a.verdict) for a in recorded.memory.attempts]

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[AnswerVerdict]:
        at = next(
            (n for n, (said, _) in enumerate(self.left) if said == candidate), None
        )
        return without_effects(
            AnswerVerdict(False) if at is None else self.left.pop(at)[1]
        )


def _decision(
    policy: LinearPolicy, memory: WorkingMemory, action: Action
) -> Decision | None:
    taken = index_of(action)
    may = allowed(memory, attempts=policy.attempts)
    if taken is None or not may[taken]:
        return None
    return Decision(memory_features(memory), may, taken, action.probability)


def _importance(
    weights: NDArray[np.float64],
    runs: Sequence[tuple[list[Decision], float]],
    clip: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights of the runs before clipping, and after clipping and scaling to a mean of 1."""
    raw = np.array(
        [
            np.prod(
                [
                    softmax(weights @ d.features, d.may)[d.taken]
                    / max(d.probability, 1e-6)
                    for d in decisions
                ]
            )
            for decisions, _ in runs
        ],
        dtype=np.float64,
    )
    clipped = np.minimum(raw, clip)
    return raw, clipped / max(float(clipped.mean()), 1e-12)


def _with(
    policy: LinearPolicy, weights: NDArray[np.float64], rng: random.Random | None = None
) -> LinearPolicy:
    return LinearPolicy(weights.copy(), rng=rng, attempts=policy.attempts)


def _push(
    weights: NDArray[np.float64], d: Decision, advantage: float, entropy: float
) -> NDArray[np.float64]:
    """Gradient of ``advantage * log p(taken) + entropy * H`` with respect to the weights."""
    chances = softmax(weights @ d.features, d.may)
    direction = -chances * advantage
    direction[d.taken] += advantage
    logs = np.log(np.where(chances > 0, chances, 1.0))
    direction += entropy * -chances * (logs - float((chances * logs).sum()))
    found: NDArray[np.float64] = np.outer(direction, d.features)
    return found
