"""System 2 Attention: a model selects the context a question needs, then answers from that alone.

In: a question and passages. Out: an `S2AResult` with the kept passages as exact spans,
the dropped spans with reasons, and one `PassageReport` for each input passage; `S2A`
adds the answer.

Read in this order: `prompts` (what the model is asked, and the reply schemas),
`question` (removes opinion from the question), `pieces` (numbered pieces of a passage),
`replies` (calls, parsing, retries), `alignment` (source sentences for rewritten text),
`denoiser` (the whole of step 1), `answer` (step 2). A new variant adds its prompt to
`prompts` and its name to `options.Variant`; a new reply format belongs in
`replies.parse_selection`.
"""

from denoise_core.protocols import StructuredLLM
from denoise_core.runtime.caches import Cache, MemoryStore, SqliteStore, Store
from denoise_core.s2a.alignment import WrittenSentence
from denoise_core.s2a.answer import S2A, S2AAnswer
from denoise_core.s2a.denoiser import PassageReport, S2ADenoiser, S2AResult
from denoise_core.s2a.message import MessageDenoiser, NeutralMessage
from denoise_core.s2a.options import Options
from denoise_core.s2a.prompts import PLAIN_PROMPTS, Prompt, Prompts
from denoise_core.s2a.question import same_question

__all__ = [
    "PLAIN_PROMPTS",
    "S2A",
    "Cache",
    "MemoryStore",
    "MessageDenoiser",
    "NeutralMessage",
    "Options",
    "PassageReport",
    "Prompt",
    "Prompts",
    "S2AAnswer",
    "S2ADenoiser",
    "S2AResult",
    "SqliteStore",
    "Store",
    "StructuredLLM",
    "WrittenSentence",
    "same_question",
]
