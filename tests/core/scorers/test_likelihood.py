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


def token_scores(model, tokenizer, prompt):
    """Log probabilities of all tokens but the first, from one whole pass."""
    ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        logits = model(torch.tensor([ids])).logits[0].log_softmax(-1)
    return [float(logits[i - 1, ids[i]]) for i in range(1, len(ids))]


def test_the_score_is_the_mean_log_probability_of_the_question(model_pair):
    model, tokenizer = model_pair
    wanted = []
    for text in TEXTS:
        prompt = f"Passage: {text}\n\nQuestion: {QUESTION}"
        scores = token_scores(model, tokenizer, prompt)
        wanted.append(np.mean(scores[-len(QUESTION) :]))  # a byte is a token here
    for settings in ({}, {"max_tokens": 1}):
        scores = QueryLikelihood(model, tokenizer, **settings).score(QUESTION, TEXTS)
        np.testing.assert_allclose(scores, wanted, atol=1e-5)
    texts = [*TEXTS, "", "a" * 3000]
    check_scorer(QueryLikelihood(model, tokenizer), QUESTION, texts)


def test_what_cannot_be_scored_is_said(model_pair):
    model, tokenizer = model_pair
    with pytest.raises(InputError, match="tokenizer"):
        QueryLikelihood(model)
    with pytest.raises(InputError, match="no tokens"):
        QueryLikelihood(model, tokenizer).score("", TEXTS)
    with pytest.raises(InputError, match="window"):
        QueryLikelihood(model, tokenizer).score("q" * 2000, TEXTS)


def completions(model, tokenizer):
    """A server of ``/completions`` with ``echo``, one token a byte."""

    def reply(body):
        assert body["echo"]
        choices = []
        for index, prompt in enumerate(body["prompt"]):
            scores = [None, *token_scores(model, tokenizer, prompt), -0.5]
            logprobs = {
                "text_offset": list(range(len(scores))),
                "token_logprobs": scores,
            }
            choices.append({"index": index, "logprobs": logprobs})
        return json_reply({"choices": choices[::-1]})

    return answering(reply)


@pytest.mark.enable_socket
def test_a_server_gives_the_same_order_and_bad_replies_fail(model_pair):
    texts = [text for text in TEXTS if text.isascii()]
    with completions(*model_pair) as url:
        served = RemoteQueryLikelihood(url, "m", batch=2).score(QUESTION, texts)
    local = QueryLikelihood(*model_pair).score(QUESTION, texts)
    # One more token counts there: the space before the question.
    np.testing.assert_allclose(served, local, atol=0.1)
    assert served.argsort().tolist() == local.argsort().tolist()
    for broken in ({}, {"choices": [{"index": 0, "logprobs": None}]}):
        with (
            answering(lambda body, broken=broken: json_reply(broken)) as url,
            pytest.raises(BadReply, match="echo"),
        ):
            RemoteQueryLikelihood(url, "m").score(QUESTION, texts)
