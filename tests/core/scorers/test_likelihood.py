"""Query likelihood: the model's own log probabilities, local or served, whatever the batch."""

import numpy as np
import pytest
import torch
from local_server import answering, json_reply
from tiny_models import QUESTION, TEXTS, tiny_pair

from denoise_core.errors import BadReply, InputError
from denoise_core.scorers import QueryLikelihood, RemoteQueryLikelihood
from denoise_core.testing import check_scorer


@pytest.fixture(scope="module")
def model_pair():
    return tiny_pair()


def plain_likelihood(model, tokenizer, query, text):
    """From one whole pass of one prompt."""
    prompt = f"Passage: {text}\n\nQuestion: {query}"
    ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    count = len(tokenizer(query, add_special_tokens=False)["input_ids"])
    with torch.inference_mode():
        logits = model(torch.tensor([ids])).logits[0].log_softmax(-1)
    scores = [logits[i - 1, ids[i]] for i in range(len(ids) - count, len(ids))]
    return float(torch.stack(scores).mean())


def test_the_score_is_the_mean_log_probability_of_the_question(model_pair):
    model, tokenizer = model_pair
    scorer = QueryLikelihood(model, tokenizer)
    wanted = [plain_likelihood(model, tokenizer, QUESTION, text) for text in TEXTS]
    assert np.abs(scorer.score(QUESTION, TEXTS) - np.array(wanted)).max() < 1e-5
    small = QueryLikelihood(model, tokenizer, max_tokens=1)
    assert np.abs(small.score(QUESTION, TEXTS) - np.array(wanted)).max() < 1e-5
    check_scorer(scorer, QUESTION, [*TEXTS, "", "a" * 3000])


def test_what_cannot_be_scored_is_said(model_pair):
    model, tokenizer = model_pair
    with pytest.raises(InputError, match="tokenizer"):
        QueryLikelihood(model)
    with pytest.raises(InputError, match="no tokens"):
        QueryLikelihood(model, tokenizer).score("", TEXTS)
    with pytest.raises(InputError, match="window"):
        QueryLikelihood(model, tokenizer).score("q" * 2000, TEXTS)


def completions(model, tokenizer, breaks=lambda reply: reply):
    """A server of ``/completions`` with ``echo``, one token a byte."""

    def reply(body):
        assert body["echo"]
        choices = []
        for index, prompt in enumerate(body["prompt"]):
            ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
            with torch.inference_mode():
                logits = model(torch.tensor([ids])).logits[0].log_softmax(-1)
            scores = [float(logits[i - 1, ids[i]]) for i in range(1, len(ids))]
            logprobs = {
                "text_offset": [*range(len(ids)), len(ids)],
                "token_logprobs": [None, *scores, -0.5],
            }
            choices.append({"index": index, "logprobs": logprobs})
        return json_reply(breaks({"choices": choices[::-1]}))

    return answering(reply)


@pytest.mark.enable_socket
def test_a_server_gives_the_same_order_and_bad_replies_fail(model_pair):
    model, tokenizer = model_pair
    texts = [text for text in TEXTS if text.isascii()]
    with completions(model, tokenizer) as url:
        served = RemoteQueryLikelihood(url, "m", batch=2).score(QUESTION, texts)
    local = QueryLikelihood(model, tokenizer).score(QUESTION, texts)
    # One more token counts there: the space before the question.
    assert np.abs(served - local).max() < 0.1
    assert served.argsort().tolist() == local.argsort().tolist()
    for broken in ({}, {"choices": [{"index": 0, "logprobs": None}]}):
        with (
            completions(model, tokenizer, lambda reply, broken=broken: broken) as url,
            pytest.raises(BadReply, match="echo"),
        ):
            RemoteQueryLikelihood(url, "m").score(QUESTION, texts)
