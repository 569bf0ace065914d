"""System 2 Attention: a model decides what of the context deserves attention, then answers from that alone.

Read in this order: `prompts` (what is asked, in which form), `question` (the question), `pieces` (what is
numbered), `replies` (asked, read, asked again), `cover` (which source stands for what was written),
`denoiser` (the way through, and what is kept), `answer` (the whole step with step 2)."""

from denoise_core.protocols import StructuredLLM
from denoise_core.runtime.caches import Cache, MemoryStore, SqliteStore, Store
from denoise_core.s2a.alignment import WrittenSentence
from denoise_core.s2a.answer import S2A, S2AAnswer
from denoise_core.s2a.denoiser import PassageReport, S2ADenoiser, S2AResult
from denoise_core.s2a.message import MessageDenoiser, NeutralMessage
from denoise_core.s2a.options import Options
from denoise_core.s2a.prompts import Prompt, Prompts
from denoise_core.s2a.question import same_question

__all__ = [
    "S2A",
    "Cache",
    "MemoryStore",
    "MessageDenoiser",
    "NeutralMessage",
    "Options",
    "Prompt",
    "Prompts",
    "PassageReport",
    "S2AAnswer",
    "S2ADenoiser",
    "S2AResult",
    "WrittenSentence",
    "SqliteStore",
    "Store",
    "StructuredLLM",
    "same_question",
]
