"""A local Hugging Face chat model as an `LLM`: nothing leaves the machine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from denoise_core._optional import require
from denoise_core.errors import InputError
from denoise_core.types import Message, Reply, Usage


class LocalLLM:
    """Generates with a causal model: a name, a folder, or a loaded model with its tokenizer.

    A name or folder is loaded at the first call. Greedy unless ``temperature`` is above 0; then ``seed``
    makes a run repeatable. Calls take turns on the model, also those of other threads; the async form
    waits its turn off the event loop. The tokenizer's chat template is used where there is one; otherwise
    the messages are joined as plain text. Needs the extra ``end``.
    """

    def __init__(
        self,
        model: Any,
        *,
        tokenizer: Any = None,
        max_new_tokens: int = 512,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> None:
        if not isinstance(model, str) and tokenizer is None:
            raise InputError("a loaded model needs its tokenizer: LocalLLM(model, tokenizer=tokenizer)")
        if max_new_tokens < 1:
            raise InputError(f"max_new_tokens={max_new_tokens}: expected 1 or more")
        if temperature < 0:
            raise InputError(f"temperature={temperature}: expected 0 (greedy) or more")
        self.model: Any = model
        self.tokenizer = tokenizer
        self.max_new_tokens = max_new_tokens
        self.temperature = temperature
        self.seed = seed
        self._lock = threading.Lock()

    def complete(self, messages: Sequence[Message]) -> Reply:
        """The model's answer with its exact token counts. Raises `InputError` for an unknown model."""
        torch = require("torch", extra="end")
        with self._lock:
            self._load()
            ids = self._encode(messages)
            sampling: dict[str, Any] = {"do_sample": False}
            if self.temperature:
                sampling = {"do_sample": True, "temperature": self.temperature}
            with torch.inference_mode(), torch.random.fork_rng(enabled=self.seed is not None):
                if self.seed is not None:
                    torch.manual_seed(self.seed)
                inputs = torch.tensor([ids], device=self.model.device)
                out = self.model.generate(
                    inputs,
                    attention_mask=torch.ones_like(inputs),
                    max_new_tokens=self.max_new_tokens,
                    pad_token_id=self._pad(),
                    **sampling,
                )
        new = out[0, len(ids) :].tolist()
        return Reply(self.tokenizer.decode(new, skip_special_tokens=True), Usage(len(ids), len(new)))

    async def acomplete(self, messages: Sequence[Message]) -> Reply:
        return await asyncio.to_thread(self.complete, messages)

    def _load(self) -> None:
        name = self.model
        if not isinstance(name, str):
            return
        transformers = require("transformers", extra="end")
        try:
            self.tokenizer = self.tokenizer or transformers.AutoTokenizer.from_pretrained(name)
            self.model = transformers.AutoModelForCausalLM.from_pretrained(name).eval()
        except (OSError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"cannot load {name!r} as a causal language model: {reason}") from error

    def _encode(self, messages: Sequence[Message]) -> list[int]:
        tokenizer = self.tokenizer
        if getattr(tokenizer, "chat_template", None):
            chat = [{"role": m.role, "content": m.content} for m in messages]
            text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
            return list(tokenizer(text, add_special_tokens=False)["input_ids"])
        return list(tokenizer("\n\n".join(m.content for m in messages) + "\n\n")["input_ids"])

    def _pad(self) -> int | None:
        pad: int | None = self.tokenizer.pad_token_id
        end: int | None = self.tokenizer.eos_token_id
        return end if pad is None else pad
