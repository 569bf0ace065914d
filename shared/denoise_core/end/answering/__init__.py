"""Answers from what was kept: a second pass over it, or one pass that goes on from scoring."""

from denoise_core.end.answering.one_pass import Apart, OnePassAnswers, Read
from denoise_core.end.answering.second_pass import Answered, SecondPass

__all__ = ["Answered", "Apart", "OnePassAnswers", "Read", "SecondPass"]
