"""Answers as they are written; `stream` says how."""

from denoise_core.augmenter.streaming.events import Finished, Restarted, Revised, StreamEvent, StreamingLLM, Text
from denoise_core.augmenter.streaming.stream import Stream, draft_first, held_back

__all__ = [
    "Finished",
    "Restarted",
    "Revised",
    "Stream",
    "StreamEvent",
    "StreamingLLM",
    "Text",
    "draft_first",
    "held_back",
]
