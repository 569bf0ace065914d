"""Prompts of the tasks that the LLM-Augmenter paper measures besides question answering (sections 3 and 4)."""

from __future__ import annotations

from denoise_core.augmenter.prompts import Task

DIALOGUE = Task(
    instruction="Continue the "
    "conversation with one reply to the user's last turn. Say only what the evidence supports, in "
    "a natural tone, and put the labels of the evidence you used in square brackets after each statement, like "
    "[1.2]. If the evidence does not hold what the user wants to know, say so in one sentence.",
)

CUSTOMER_SERVICE = Task(
    instruction="You answer a customer. "
    "Use the evidence (house information and other customers' reviews) and nothing else. "
    "Where reviews disagree, say so. Be friendly and keep to two or three sentences, with the labels of the "
    "evidence in square brackets after each statement, like [1.2]. If the evidence does not answer the customer, "
    "say so in one sentence.",
    abstention_text="I do not have that information.",
)
