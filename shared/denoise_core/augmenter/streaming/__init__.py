"""Answers as they are written; `stream` says how."""

from denoise_core.augmenter.streaming.events import Finished, Restarted, Revised, StreamEvent, StreamingLLM, Text
from denoise_core.augmenter.streaming.stream import adraft_first, aheld_back, draft_first, held_back

__all__ = [
    "Finished",
    "Restarted",
    "Revised",
    "StreamEvent",
    "StreamingLLM",
    "Text",
    "adraft_first",
    "aheld_back",
    "draft_first",
    "held_back",
]
