"""How likely a passage makes the question: query likelihood, which needs no label and no fit.

A model reads the passage and then the question; the score is the mean log probability of the
question's tokens. It takes a pass through the whole model, unlike a probe.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from denoise_core._optional import require
from denoise_core.errors import BadReply, InputError
from denoise_core.local.batching import (
    batch_by_length,
    build_prompts,
    max_over_windows,
    position_limit,
)
from denoise_core.local.layout import (
    PASSAGE,
    QUERY,
    BoundLayout,
    Layout,
    TokenPrompt,
)
from denoise_core.scorers.reranker import RemoteTextScorer

if TYPE_CHECKING:
    from denoise_core.local.loading import LoadOptions

Floats = NDArray[np.float32]

LIKELIHOOD_LAYOUT = Layout(
    "likelihood", ("Passage: ", PASSAGE, "\n\nQuestion: ", QUERY), chat=False
)


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
        if not texts:
            return np.zeros(0, dtype=np.float32)
        with self._lock:
            prompts, text_index = self._build_prompts(query, texts)
            prompt_scores = np.empty(len(prompts), dtype=np.float32)
            lengths = [len(prompt.ids) for prompt in prompts]
            for batch_rows in batch_by_length(lengths, self.max_tokens):
                batch_prompts = [prompts[row] for row in batch_rows]
                prompt_scores[batch_rows] = self._score_batch(batch_prompts)
        return max_over_windows(prompt_scores, text_index, len(texts))

    def _build_prompts(
        self, query: str, texts: Sequence[str]
    ) -> tuple[list[TokenPrompt], NDArray[np.intp]]:
        layout = self._open()
        if not any(layout.encode([query])):
            raise InputError("the question has no tokens: there is nothing to score")
        model: Any = self.model  # loaded by `_open`
        window = position_limit(model, model.config.get_text_config())
        return build_prompts(layout, [(query, text) for text in texts], window)

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


class RemoteQueryLikelihood(RemoteTextScorer):
    """`QueryLikelihood` by a server that gives the log probabilities of a prompt.

    It asks ``/completions`` with ``echo``, which vLLM serves, and llama.cpp's server in
    part. The arguments are those of `RemoteTextScorer`.
    """

    path = "/completions"

    def _request_body(self, query: str, texts: Sequence[str]) -> dict[str, Any]:
        return {
            "prompt": _prompt_texts(query, texts),
            "max_tokens": 1,
            "temperature": 0,
            "echo": True,
            "logprobs": 1,
        }

    def _parse_reply(
        self, server_reply: Any, query: str, texts: Sequence[str]
    ) -> list[float]:
        return _parse_likelihoods(server_reply, _prompt_texts(query, texts), len(query))


def _prompt_texts(query: str, texts: Sequence[str]) -> list[str]:
    """The prompts of `LIKELIHOOD_LAYOUT` as texts."""
    prompts = []
    for text in texts:
        values = {PASSAGE: text, QUERY: query}
        prompt = ""
        for part in LIKELIHOOD_LAYOUT.parts:
            prompt += part if isinstance(part, str) else values[part]
        prompts.append(prompt)
    return prompts


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
