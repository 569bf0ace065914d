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
from denoise_lab.policy.trained import (
    LinearPolicy,
    allowed_actions,
    memory_features,
    softmax,
)
from denoise_lab.replay import replay

Floats = NDArray[np.float64]
Episode = Callable[[Policy], tuple[Answer, float]]
"""Runs one dialogue turn under a policy and returns its answer and reward."""

IMITATION_STEPS = 200
IMITATION_RATE = 1.0
WEIGHT_DECAY = 1e-3  # of imitation
LEARNING_RATE = 0.5  # of REINFORCE and of recorded runs
ENTROPY_BONUS = 0.01  # weight of the policy's entropy in what is maximised
BASELINE_DECAY = 0.9  # share of the old mean reward that is kept after each batch
BATCH_SIZE = 16  # episodes per step
RECORDED_STEPS = 100
LARGEST_IMPORTANCE = 5.0  # of a recorded run
LEAST_PROBABILITY = 1e-6  # of a recorded action, so that its importance is finite


@dataclass(frozen=True, slots=True)
class Decision:
    """One choice of a policy.

    Attributes:
        features: What the policy saw, shape ``(features,)``.
        is_allowed: Which of `ACTIONS` made sense, shape ``(actions,)``.
        action_index: The action that was taken, as an index into `ACTIONS`.
        probability: How probable it was.
    """

    features: Floats
    is_allowed: NDArray[np.bool_]
    action_index: int
    probability: float


@dataclass(frozen=True, slots=True)
class Run:
    """The decisions of one episode and its reward."""

    decisions: list[Decision]
    reward: float


@dataclass(slots=True)
class PolicyRecorder:
    """A policy that chooses as another does, and keeps the decisions that a trained policy could take.

    Attributes:
        choose_action: Chooses the action for a memory.
        attempts: Number of drafts after which a trained policy chooses no further one.
        decisions: The decisions so far.
    """

    choose_action: Callable[[WorkingMemory], Action]
    attempts: int
    decisions: list[Decision] = field(default_factory=list)

    def choose(self, memory: WorkingMemory) -> Action:
        action = self.choose_action(memory)
        action_index = index_action(action)
        is_allowed = allowed_actions(memory, attempts=self.attempts)
        if action_index is not None and is_allowed[action_index]:
            features = memory_features(memory)
            self.decisions.append(
                Decision(features, is_allowed, action_index, action.probability)
            )
        return action


def index_action(action: Action) -> int | None:
    """Return the index of an action in `ACTIONS`, None for one that a trained policy never takes."""
    if isinstance(action, Search):
        return int(action.wide)
    for index, action_class in ((2, Readmit), (3, Draft), (4, Send)):
        if isinstance(action, action_class):
            return index
    return None


@dataclass(frozen=True, slots=True)
class OffPolicyReport:
    """How much the recorded runs tell about the new policy.

    Attributes:
        runs: Number of runs that could be used.
        largest_weight: The largest importance weight before clipping.
        effective_runs: The effective number of runs after clipping (Kish).
    """

    runs: int
    largest_weight: float
    effective_runs: float


def imitate(
    start: LinearPolicy,
    teacher: Policy,
    episodes: Sequence[Episode],
) -> LinearPolicy:
    """Return a policy that does what ``teacher`` does on these episodes (the paper's first stage).

    It is fitted by softmax regression on the teacher's choices. Actions that a trained policy
    cannot take are left out.

    Raises:
        InputError: The teacher took no other action.
    """
    recorder = PolicyRecorder(teacher.choose, start.attempts)
    for episode in episodes:
        episode(recorder)
    decisions = recorder.decisions
    if not decisions:
        raise InputError(
            "imitate: the teacher took no action that a trained policy can take"
        )
    weights = start.weights.copy()
    features = np.stack([decision.features for decision in decisions])
    is_allowed = np.stack([decision.is_allowed for decision in decisions])
    action_indices = [decision.action_index for decision in decisions]
    targets = np.eye(len(weights))[action_indices]
    for _ in range(IMITATION_STEPS):
        probabilities = softmax(features @ weights.T, is_allowed)
        gradient = (targets - probabilities).T @ features / len(features)
        weights += IMITATION_RATE * (gradient - WEIGHT_DECAY * weights)
    return _with_weights(start, weights)


def reinforce(
    start: LinearPolicy,
    episodes: Sequence[Episode],
    *,
    rounds: int,
    seed: int,
) -> tuple[LinearPolicy, list[float]]:
    """Train by REINFORCE on ``rounds`` batches of randomly drawn episodes (the paper's second stage).

    Returns:
        The trained policy, and each batch's mean reward.

    Raises:
        InputError: No episodes, or ``rounds`` below 1.
    """
    if not episodes or rounds < 1:
        raise InputError("reinforce: expected episodes, and rounds of 1 or more")
    rng = random.Random(seed)
    weights = start.weights.copy()
    baseline: float | None = None
    reward_curve: list[float] = []
    for _ in range(rounds):
        policy = _with_weights(start, weights, rng)
        runs = _play_batch(policy, rng.choices(episodes, k=BATCH_SIZE))
        mean_reward = float(np.mean([run.reward for run in runs]))
        if baseline is None:
            baseline = mean_reward
        gradient = np.zeros_like(weights)
        for run in runs:
            advantage = run.reward - baseline
            for decision in run.decisions:
                gradient += _decision_gradient(weights, decision, advantage)
        weights += LEARNING_RATE * gradient / BATCH_SIZE
        baseline = BASELINE_DECAY * baseline + (1 - BASELINE_DECAY) * mean_reward
        reward_curve.append(mean_reward)
    return _with_weights(start, weights), reward_curve


def _play_batch(policy: LinearPolicy, episodes: Sequence[Episode]) -> list[Run]:
    runs = []
    for episode in episodes:
        recorder = PolicyRecorder(policy.choose, policy.attempts)
        _, reward = episode(recorder)
        runs.append(Run(recorder.decisions, reward))
    return runs


def learn_from_recorded(
    start: LinearPolicy,
    augmenter: Augmenter,
    recorded_runs: Sequence[tuple[Answer, float]],
) -> tuple[LinearPolicy, OffPolicyReport]:
    """Improve on recorded runs and their rewards, without running anything (the paper's third stage).

    Each run counts with the product of new over recorded action probabilities, clipped at
    `LARGEST_IMPORTANCE` and scaled to a mean of 1. Runs whose policy was not stochastic (probability 1
    throughout) count too, but tell nothing about other actions.

    Args:
        start: The policy to improve.
        augmenter: A loop like that of the recording; its model and retriever are not called.
        recorded_runs: The runs, each with its reward.

    Raises:
        InputError: No run has an action that a trained policy can take.
    """
    runs = []
    for answer, reward in recorded_runs:
        decisions = replay_decisions(start, augmenter, answer)
        if decisions:
            runs.append(Run(decisions, reward))
    if not runs:
        raise InputError(
            "recorded: expected at least one run with actions that a trained policy can take"
        )
    baseline = float(np.mean([run.reward for run in runs]))
    weights = start.weights.copy()
    for _ in range(RECORDED_STEPS):
        run_weights = _scale_importance(_run_importance(weights, runs))
        gradient = np.zeros_like(weights)
        for run, run_weight in zip(runs, run_weights, strict=True):
            advantage = run.reward - baseline
            for decision in run.decisions:
                decision_gradient = _decision_gradient(weights, decision, advantage)
                gradient += run_weight * decision_gradient
        weights += LEARNING_RATE * gradient / len(runs)
    report = _report_importance(_run_importance(weights, runs))
    return _with_weights(start, weights), report


def _report_importance(importance: Floats) -> OffPolicyReport:
    run_weights = _scale_importance(importance)
    squared_sum = max(float((run_weights**2).sum()), 1e-12)
    effective_runs = float(run_weights.sum() ** 2 / squared_sum)
    return OffPolicyReport(len(importance), float(importance.max()), effective_runs)


def replay_decisions(
    policy: LinearPolicy, augmenter: Augmenter, recorded_run: Answer
) -> list[Decision]:
    """Replay a recorded run and return those of its decisions that ``policy`` could have taken.

    ``augmenter`` is a loop like that of the recording; its model and retriever are not called.
    """
    actions_left = list(recorded_run.memory.actions)
    recorder = PolicyRecorder(lambda memory: actions_left.pop(0), policy.attempts)
    loop = copy.copy(augmenter)
    loop.policy = recorder
    loop.utility = _RecordedVerdicts(recorded_run)
    replay(loop, recorded_run)
    return recorder.decisions


class _RecordedVerdicts:
    """Gives each candidate the verdict of the recorded run; a candidate that was not kept then fails."""

    def __init__(self, recorded_run: Answer) -> None:
        self.attempts_left = list(recorded_run.memory.attempts)

    def assess(self, memory: WorkingMemory, candidate: str) -> Flow[AnswerVerdict]:
        for index, attempt in enumerate(self.attempts_left):
            if attempt.candidate == candidate:
                del self.attempts_left[index]
                return without_effects(attempt.verdict)
        return without_effects(AnswerVerdict(False))


def _run_importance(weights: Floats, runs: Sequence[Run]) -> Floats:
    """Product of new over recorded action probabilities of each run; shape ``(runs,)``."""
    importance = np.ones(len(runs))
    for number, run in enumerate(runs):
        for decision in run.decisions:
            probabilities = _action_probabilities(weights, decision)
            recorded_probability = max(decision.probability, LEAST_PROBABILITY)
            ratio = probabilities[decision.action_index] / recorded_probability
            importance[number] *= ratio
    return importance


def _scale_importance(importance: Floats) -> Floats:
    """Importance clipped at `LARGEST_IMPORTANCE` and scaled to a mean of 1."""
    clipped_importance = np.minimum(importance, LARGEST_IMPORTANCE)
    scaled: Floats = clipped_importance / max(float(clipped_importance.mean()), 1e-12)
    return scaled


def _decision_gradient(weights: Floats, decision: Decision, advantage: float) -> Floats:
    """Gradient of ``advantage * log p(action) + bonus * entropy``; shape ``(actions, features)``."""
    probabilities = _action_probabilities(weights, decision)
    score_gradient = -probabilities * advantage
    score_gradient[decision.action_index] += advantage
    log_probabilities = np.log(np.where(probabilities > 0, probabilities, 1.0))
    negative_entropy = float((probabilities * log_probabilities).sum())
    score_gradient += (
        ENTROPY_BONUS * -probabilities * (log_probabilities - negative_entropy)
    )
    gradient: Floats = np.outer(score_gradient, decision.features)
    return gradient


def _action_probabilities(weights: Floats, decision: Decision) -> Floats:
    return softmax(weights @ decision.features, decision.is_allowed)


def _with_weights(
    policy: LinearPolicy, weights: Floats, rng: random.Random | None = None
) -> LinearPolicy:
    return LinearPolicy(weights.copy(), rng=rng, attempts=policy.attempts)
