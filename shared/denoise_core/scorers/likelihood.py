"""How likely a passage makes the question: query likelihood, which needs no label and no fit.

A model reads the passage and then the question; the score is the mean log probability of the
question's tokens. It takes a pass through the whole model, unlike a probe.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.errors import BadReply, InputError
from denoise_core.local.batching import batch_by_length, position_limit, split_windows
from denoise_core.local.layout import (
    PASSAGE,
    QUERY,
    BoundLayout,
    Layout,
    TokenPrompt,
)
from denoise_core.runtime.budget import Meter
from denoise_core.runtime.engines import (
    Engine,
    RemoteLimits,
    document_key,
    fill_missing_scores,
)

if TYPE_CHECKING:
    from denoise_core.local.loading import LoadOptions

Floats = NDArray[np.float32]

LIKELIHOOD_LAYOUT = Layout(
    "likelihood", ("Passage: ", PASSAGE, "\n\nQuestion: ", QUERY), chat=False
)
PROMPT_TEXT = "Passage: {passage}\n\nQuestion: {question}"


class QueryLikelihood:
    """Mean log probability of the question's tokens, by a causal language model.

    Args:
        model: A name or folder, or a loaded model with its language head.
        tokenizer: Needed with a loaded model.
        load: How to load a model given by name.
        max_tokens: Tokens of a batch at most, padding included.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        load: LoadOptions | None = None,
        max_tokens: int = 4096,
    ) -> None:
        if tokenizer is None and not isinstance(model, str | Path):
            raise InputError(
                "a loaded model needs its tokenizer: QueryLikelihood(model, tokenizer)"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.load_options = load
        self.max_tokens = max_tokens
        self._lock = threading.Lock()
        self._layout: BoundLayout | None = None

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        """Mean log probabilities, float32 ``(len(texts),)``; of a text in parts that of the best.

        Raises:
            InputError: The question has no tokens, or leaves no room for a text.
        """
        best_scores = np.full(len(texts), -np.inf, dtype=np.float32)
        if not texts:
            return best_scores
        with self._lock:
            prompts, text_index = self._build_prompts(query, texts)
            lengths = [len(prompt.ids) for prompt in prompts]
            for batch_rows in batch_by_length(lengths, self.max_tokens):
                batch_scores = self._score_batch([prompts[row] for row in batch_rows])
                np.maximum.at(
                    best_scores, [text_index[row] for row in batch_rows], batch_scores
                )
        return best_scores

    def _build_prompts(
        self, query: str, texts: Sequence[str]
    ) -> tuple[list[TokenPrompt], list[int]]:
        layout = self._open()
        (query_ids,) = layout.encode([query])
        if not query_ids:
            raise InputError("the question has no tokens: there is nothing to score")
        model: Any = self.model  # loaded by `_open`
        window = position_limit(model, model.config.get_text_config())
        prompts = []
        text_index = []
        for position, text_ids in enumerate(layout.encode(texts)):
            room = len(text_ids) or 1
            if window:
                room = window - layout.overhead_tokens - len(query_ids)
            for part_ids in split_windows(text_ids, room):
                prompts.append(layout.assemble(part_ids, query_ids))
                text_index.append(position)
        return prompts, text_index

    def _open(self) -> BoundLayout:
        if self._layout is None:
            require("torch", extra="end")
            require("transformers", extra="end")
            from denoise_core.local.loading import load_tokenizer, shared_model

            if isinstance(self.model, str | Path):
                name = self.model
                self.model = shared_model(
                    name, load=self.load_options, has_lm_head=True
                )
                self.tokenizer = self.tokenizer or load_tokenizer(name)
            self._layout = LIKELIHOOD_LAYOUT.bind(self.tokenizer)
        return self._layout

    def _score_batch(self, prompts: Sequence[TokenPrompt]) -> Floats:
        torch = require("torch", extra="end")
        width = max(len(prompt.ids) for prompt in prompts)
        token_ids = torch.zeros((len(prompts), width), dtype=torch.long)
        mask = torch.zeros_like(token_ids)
        for row, prompt in enumerate(prompts):
            token_ids[row, width - len(prompt.ids) :] = torch.tensor(prompt.ids)
            mask[row, width - len(prompt.ids) :] = 1
        start, end = prompts[0].query_span
        query_length = end - start
        model: Any = self.model  # loaded by `_open`
        device = next(model.parameters()).device
        with torch.inference_mode():
            # The question is last in every row, and each token is predicted by the one before.
            logits = model(
                input_ids=token_ids.to(device),
                attention_mask=mask.to(device),
                position_ids=(mask.cumsum(-1) - 1).clamp(min=0).to(device),
                use_cache=False,
                logits_to_keep=query_length + 1,
            ).logits
            log_probabilities = (
                logits[:, -query_length - 1 : -1].float().log_softmax(-1)
            )
            query_tokens = token_ids[:, -query_length:, None].to(device)
            token_scores = log_probabilities.gather(-1, query_tokens)[..., 0]
            return np.asarray(token_scores.mean(-1).cpu().numpy(), dtype=np.float32)


class RemoteQueryLikelihood:
    """`QueryLikelihood` by a server that gives the log probabilities of a prompt: ``/completions`` with ``echo``.

    vLLM serves it, and llama.cpp's server in part. Keys and replicas are as in
    `denoise_core.runtime.engines.Engine`.

    Args:
        url: An address before ``/completions``, or several of one model; it usually ends in ``/v1``.
        model: The served name.
        key_env: Environment variable with the key.
        limits: How often and how long requests are retried.
        batch: Texts of a request at most.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        model: str,
        *,
        key_env: str | None = None,
        limits: RemoteLimits | None = None,
        batch: int = 32,
    ) -> None:
        if batch < 1:
            raise InputError(f"batch={batch}: expected 1 or more")
        self.engine = Engine(url, key_env=key_env, limits=limits)
        self.model = model
        self.batch = batch

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        """Mean log probabilities, float32 ``(len(texts),)``.

        A text that the server refuses alone has the lowest score of the others.

        Raises:
            BadReply: A reply lacks a log probability.
        """
        return self.engine.run(partial(self._request_scores, query, list(texts)))

    async def ascore(self, query: str, texts: Sequence[str]) -> Floats:
        """`score` without holding a thread while the server works."""
        return await self.engine.arun(partial(self._request_scores, query, list(texts)))

    async def _request_scores(
        self, query: str, texts: list[str], call_meter: Meter | None
    ) -> Floats:
        async def request_batch(url: str, positions: list[int]) -> list[float]:
            prompts = [
                PROMPT_TEXT.format(passage=texts[i], question=query) for i in positions
            ]
            request_body = {
                "model": self.model,
                "prompt": prompts,
                "max_tokens": 1,
                "temperature": 0,
                "echo": True,
                "logprobs": 1,
            }
            server_reply = await self.engine.request(
                "POST", url, "/completions", request_body, call_meter
            )
            return _parse_likelihoods(server_reply, prompts, len(query))

        document_keys = [document_key(text) for text in texts]
        text_scores = await self.engine.request_batches(
            document_keys, self.batch, request_batch
        )
        return fill_missing_scores(text_scores)


def _parse_likelihoods(
    server_reply: Any, prompts: Sequence[str], query_length: int
) -> list[float]:
    """The mean log probability of each prompt's last ``query_length`` characters."""
    likelihoods: dict[int, float] = {}
    try:
        for choice in server_reply["choices"]:
            prompt_end = len(prompts[choice["index"]])
            query_start = prompt_end - query_length
            tokens = zip(
                choice["logprobs"]["text_offset"],
                choice["logprobs"]["token_logprobs"],
                strict=True,
            )
            # A token may begin with the space before the question.
            token_scores = [
                float(score)
                for offset, score in tokens
                if query_start - 1 <= offset < prompt_end
            ]
            likelihoods[choice["index"]] = sum(token_scores) / len(token_scores)
        ordered = [likelihoods[index] for index in range(len(prompts))]
    except (KeyError, TypeError, ValueError, IndexError, ZeroDivisionError) as error:
        raise BadReply(
            "expected a /completions reply with the log probabilities of "
            f"{len(prompts)} prompts (echo, logprobs); does this server give them?"
        ) from error
    if not np.isfinite(ordered).all():
        raise BadReply("the server gave log probabilities that are not finite")
    return ordered
