"""Feedback written by a model: an LLM, or a seq2seq model by name (paper, section 2.4, equation 2)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from denoise_core._optional import require
from denoise_core.augmenter.engine import draft_block, evidence_block, question_block
from denoise_core.augmenter.feedback import TemplateFeedback
from denoise_core.augmenter.memory import Verdict, WorkingMemory
from denoise_core.augmenter.prompts import ADVISE
from denoise_core.errors import InputError
from denoise_core.protocols import LLM
from denoise_core.running.effects import Flow, complete
from denoise_core.running.offload import offload
from denoise_core.running.recipes import Travels
from denoise_core.text.delimit import envelope
from denoise_core.types import Message, Reply, Usage

_LONGEST = 1500  # characters of advice; a model that runs on must not fill the next prompt


class ModelFeedback:
    """Asks ``llm`` (None: the model that drafts) what to change, given the findings of the utility.

    What the utility found stands first in any case, so that advice that misses the point does no harm.
    """

    def __init__(self, llm: LLM | None = None) -> None:
        self.llm = llm
        self._findings = TemplateFeedback()

    def write(self, memory: WorkingMemory, candidate: str, verdict: Verdict) -> Flow[str]:
        findings = yield from self._findings.write(memory, candidate, verdict)
        parts = (
            evidence_block(memory.evidence),
            question_block(memory.question),
            draft_block(candidate),
            f"Findings of the check:\n{envelope(findings, 'findings')}",
        )
        messages = (Message("system", ADVISE), Message("user", "\n\n".join(parts)))
        reply = yield from complete(messages, tag="feedback", llm=self.llm)
        advice = reply.text.strip()[:_LONGEST]
        return f"{findings}\n{advice}" if advice else findings


class Seq2SeqLLM(Travels):
    """A sequence-to-sequence model of transformers as an `LLM`: the messages joined in, the generated text out.

    ``ModelFeedback(Seq2SeqLLM("google/flan-t5-base"))`` is the paper's trained feedback model with your weights.
    Loaded at the first call; one call at a time. Raises `InputError` for ``max_new_tokens < 1``.
    """

    named = ("model",)

    def __init__(self, model: str, *, max_new_tokens: int = 128, device: str = "cpu") -> None:
        if max_new_tokens < 1:
            raise InputError(f"max_new_tokens={max_new_tokens}: expected 1 or more")
        self.model = model
        self.max_new_tokens = max_new_tokens
        self.device = device
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    def complete(self, messages: Sequence[Message]) -> Reply:
        with self._lock:
            tokenizer, network = self._ready()
            text = "\n\n".join(m.content for m in messages)
            inputs = tokenizer(text, truncation=True, return_tensors="pt").to(self.device)
            out = network.generate(
                input_ids=inputs.input_ids,
                attention_mask=inputs.attention_mask,
                max_new_tokens=self.max_new_tokens,
                do_sample=False,
            )[0]
            usage = Usage(int(inputs.input_ids.shape[1]), len(out))
            return Reply(tokenizer.decode(out, skip_special_tokens=True), usage)

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return await offload(self.complete, messages)

    def _ready(self) -> tuple[Any, Any]:
        if self._loaded is None:
            transformers = require("transformers", extra="end")
            tokenizer = transformers.AutoTokenizer.from_pretrained(self.model)
            network = transformers.AutoModelForSeq2SeqLM.from_pretrained(self.model).to(self.device).eval()
            self._loaded = tokenizer, network
        return self._loaded
