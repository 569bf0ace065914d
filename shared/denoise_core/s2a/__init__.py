"""System 2 Attention: a model decides what of the context deserves attention, then answers from that alone.

Read in this order: `prompts` and `wording` (what is asked, in which form), `question` (the question), `units`
(what is numbered), `asks` (which calls are made), `calling` (asked once, once more, part by part), `replies` (what
they mean), `cover` (which source stands for what was written), `companions` (what a piece cannot be read without),
`assemble` (what is kept), `denoiser` (the way through), `answer` (the whole step with step 2)."""

from denoise_core.protocols import StructuredLLM
from denoise_core.running.caches import Cache, MemoryStore, SqliteStore, Store
from denoise_core.s2a.answer import S2A, S2AAnswer
from denoise_core.s2a.denoiser import S2ADenoiser
from denoise_core.s2a.message import MessageDenoiser, Neutral
from denoise_core.s2a.options import Options
from denoise_core.s2a.prompts import Prompt, Prompts
from denoise_core.s2a.question import same_question
from denoise_core.s2a.result import Report, S2AResult, Sentence

__all__ = [
    "S2A",
    "Cache",
    "MemoryStore",
    "MessageDenoiser",
    "Neutral",
    "Options",
    "Prompt",
    "Prompts",
    "Report",
    "S2AAnswer",
    "S2ADenoiser",
    "S2AResult",
    "Sentence",
    "SqliteStore",
    "Store",
    "StructuredLLM",
    "same_question",
]
