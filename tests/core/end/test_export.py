"""Exported checkpoints: plain transformers gives the probe's scores, and a served one the same over HTTP."""

import copy
from functools import partial
from string import ascii_lowercase

import numpy as np
import pytest
import torch
from growing_texts import passages_of
from local_server import answering, json_reply
from readings import SHORT_SETTINGS, states_of
from safetensors import safe_open
from tiny_models import build_random_probe
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from denoise_core import InputError, ProbeMismatch
from denoise_core.end import (
    ENDDenoiser,
    HiddenReader,
    Layout,
    Probe,
    ProbeScorer,
    ReadingSettings,
)
from denoise_core.end.remote import MANIFEST, RemoteScorer
from denoise_core.errors import BadReply
from denoise_core.local.layout import PASSAGE, QUERY
from denoise_lab.export import export_probe

TEXTS = ["alpha " * 9, "", "gamma", "שלום 😀", "e" * 61]
NO_CLASS = (
    "cohere cohere2 granite ernie4_5 lfm2 llama4_text gemma4_text gemma4_text-plain"
)
HAS_BIAS = """
    gpt2 gptj gpt_neo gpt_neox falcon falcon-alibi opt bloom phi starcoder2 stablelm nemotron persimmon
"""


def fitted(model, tokenizer, settings=SHORT_SETTINGS, layer=3):
    reader = HiddenReader(model, tokenizer=tokenizer, settings=settings)
    return reader, build_random_probe(reader, layer)


def check_served(probe_folder, reader, probe, missing_bias):
    """Logits of the exported folder as anyone would get them are the probe's scores; returns the model."""
    model = AutoModelForSequenceClassification.from_pretrained(probe_folder).eval()
    prompts, _ = reader.prompts([("who?", text) for text in TEXTS])
    prompt_ids = {"input_ids": [list(prompt.ids) for prompt in prompts]}
    tokenizer = AutoTokenizer.from_pretrained(probe_folder)
    batch = tokenizer.pad(prompt_ids, return_tensors="pt")
    batch.pop("token_type_ids", None)
    with torch.inference_mode():
        logits = model(**batch).logits[:, 0]
    expected = probe.score(states_of(reader, "who?", TEXTS, [3])[3])
    np.testing.assert_allclose(logits.numpy() + missing_bias, expected, atol=1e-5)
    return model


def test_every_family_with_a_class_is_served_with_equal_scores(
    decoder, tiny, tokenizer, tmp_path
):
    reader, line_probe = fitted(tiny(decoder), tokenizer)
    if decoder in NO_CLASS.split():
        with pytest.raises(InputError, match="no sequence-classification class"):
            export_probe(reader, line_probe, tmp_path)
        return
    if decoder == "opt-350m":  # no final norm, so its states are not normed
        with pytest.raises(InputError, match="normed as the model norms"):
            export_probe(reader, line_probe, tmp_path)
        return
    missing_bias = export_probe(reader, line_probe, tmp_path).missing_bias
    assert missing_bias == (0.0 if decoder in HAS_BIAS.split() else pytest.approx(0.7))
    model = check_served(tmp_path, reader, line_probe, missing_bias)
    assert model.config.get_text_config().num_hidden_layers == 3


def test_a_bfloat16_export_keeps_its_head_in_float32_and_the_readers_model_as_it_is(
    tiny, tokenizer, tmp_path
):
    model = tiny("llama").to(torch.bfloat16)
    before = copy.deepcopy(model)
    reader, line_probe = fitted(model, tokenizer)
    export_probe(reader, line_probe, tmp_path)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        weight = file.get_tensor("score.weight")
        assert weight.dtype == torch.float32
        assert np.array_equal(weight[0], line_probe.weight)
        # what an RMS norm cannot hold
        assert float(file.get_tensor("score.bias")) == pytest.approx(0.7)
        block = file.get_tensor("model.layers.0.mlp.up_proj.weight")
        assert block.dtype == torch.bfloat16
    assert model.config.num_hidden_layers == 6
    torch.testing.assert_close(model.state_dict(), before.state_dict(), rtol=0, atol=0)


def test_a_prompt_that_ends_in_the_padding_token_is_still_read_at_its_end(
    tiny, byte_tokenizer, tmp_path
):
    tokenizer = byte_tokenizer(pad=False)
    tokenizer.pad_token = tokenizer.eos_token  # as so many have it
    layout = Layout("closing", (PASSAGE, "\nQ: ", QUERY, "</s>"))
    settings = ReadingSettings(layout=layout)
    reader, line_probe = fitted(tiny("llama"), tokenizer, settings)
    exported = export_probe(reader, line_probe, tmp_path)
    assert exported.pad_token_id != tokenizer.eos_token_id
    check_served(tmp_path, reader, line_probe, exported.missing_bias)
    assert tokenizer.pad_token == tokenizer.eos_token, "the caller's was changed"


def test_what_a_checkpoint_cannot_express_is_refused(tiny, tokenizer, tmp_path):
    model = tiny("llama")
    with pytest.raises(InputError, match="no block to export"):
        export_probe(*fitted(model, tokenizer, layer=0), tmp_path)
    _, line_probe = fitted(model, tokenizer)
    other, _ = fitted(tiny("llama", seed=3), tokenizer)
    with pytest.raises(ProbeMismatch):
        export_probe(other, line_probe, tmp_path)
    pooled = HiddenReader(model, tokenizer=tokenizer).with_pooling("mean_question")
    pooled_probe = Probe(np.ones(32, np.float32), 0.0, pooled.reading(3))
    with pytest.raises(InputError, match="'mean_question' states"):
        export_probe(pooled, pooled_probe, tmp_path)
    assert list(tmp_path.iterdir()) == []


class Classifier:
    """vLLM's /classify as far as it is used, on a transformers model. ``add`` is the bias vLLM would read."""

    add = 0.0
    activation = False
    reply = None
    models = ({"id": "served"},)

    def __init__(self, folder):
        self.model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        self.seen = []

    def __call__(self, asked):
        self.seen.append(asked)
        if self.reply:
            return self.reply
        if isinstance(asked, str):
            return json_reply({"data": self.models})
        data = []
        for index, ids in enumerate(asked["input"]):
            with torch.inference_mode():
                logit = self.model(torch.tensor([ids])).logits[0, 0] + self.add
            value = torch.sigmoid(logit) if self.activation else logit
            data.append({"index": index, "probs": [float(value)], "num_classes": 1})
        return json_reply({"object": "list", "data": data[::-1]})


@pytest.fixture(scope="module")
def exported(tiny, tokenizer, tmp_path_factory):
    probe_folder = tmp_path_factory.mktemp("exported")
    reader, line_probe = fitted(tiny("llama"), tokenizer)
    export_probe(reader, line_probe, probe_folder)
    return probe_folder, ProbeScorer(reader, line_probe)


@pytest.fixture
def classifier(exported):
    return Classifier(exported[0])


@pytest.fixture
def remote(classifier, exported, socket_enabled):
    """``remote(model="m")``: a scorer of the served checkpoint."""
    with answering(classifier) as url:
        yield partial(RemoteScorer, url, exported[0])


@pytest.mark.parametrize(
    "add", [0.0, 0.7], ids=["transformers leaves the bias out", "vllm reads it"]
)
def test_a_served_checkpoint_gives_the_local_scores(classifier, remote, exported, add):
    texts = [*TEXTS, ascii_lowercase * 46]  # cut there too
    classifier.add = add
    scorer = remote(model="mine", batch=2)
    expected = exported[1].score("who?", texts)
    np.testing.assert_allclose(scorer.score("who?", texts), expected, atol=1e-5)
    requests = [asked for asked in classifier.seen if asked != "/v1/models"]
    assert requests[-1]["model"] == "mine"
    assert requests[-1]["use_activation"] is False
    assert all(isinstance(i, int) for ids in requests[-1]["input"] for i in ids)
    # after what it says of itself
    assert max(len(request["input"]) for request in requests[1:]) == 2
    assert scorer.score("who?", []).shape == (0,)


def test_the_only_model_that_a_server_lists_is_taken(classifier, remote):
    classifier.models = [{"id": "served-name"}]
    scorer = remote()
    for _ in range(2):
        scorer.score("who?", ["a"])
    assert classifier.seen.count("/v1/models") == 1
    classifier.seen.remove("/v1/models")
    assert {request["model"] for request in classifier.seen} == {"served-name"}
    classifier.models = [{"id": "one"}, {"id": "two"}]
    with pytest.raises(InputError, match="serves 2 models: pass model="):
        remote().score("who?", ["a"])


async def test_an_async_denoiser_awaits_the_server(remote, exported):
    passages = passages_of(TEXTS)
    denoiser = ENDDenoiser(remote(), keep=1)
    (kept,) = (await denoiser.adenoise("who?", passages)).passages
    (expected,) = ENDDenoiser(exported[1], keep=1).denoise("who?", passages).passages
    assert kept.id == expected.id


def test_a_server_of_something_else_is_refused(classifier, remote):
    for activation in (True, False):
        classifier.activation = activation
        with pytest.raises(ProbeMismatch, match="does not serve the checkpoint"):
            remote().score("who?", TEXTS)
        with torch.no_grad():
            classifier.model.score.weight.mul_(-1)


@pytest.mark.parametrize(
    "reply",
    [
        {"data": []},
        {"error": "x"},
        [1],
        {"data": [{"index": 0, "probs": [1, 2]}]},
        None,
    ],
)
def test_a_reply_that_is_none_is_a_failure(classifier, remote, reply):
    classifier.reply = json_reply(reply)
    with pytest.raises(BadReply, match="one number for each of 3 prompts"):
        remote(model="served").score("who?", TEXTS)


def test_folders_and_addresses_that_cannot_be_right_are_refused(tmp_path, exported):
    with pytest.raises(InputError, match="http:// or https://"):
        RemoteScorer("file:///etc", exported[0])
    with pytest.raises(InputError, match="batch=0"):
        RemoteScorer("http://localhost", exported[0], batch=0)
    with pytest.raises(InputError, match="export\\(\\) wrote"):
        RemoteScorer("http://localhost", tmp_path).score("q", ["t"])
    (tmp_path / MANIFEST).write_text("{}")
    with pytest.raises(InputError, match="not an exported probe"):
        RemoteScorer("http://localhost", tmp_path).score("q", ["t"])
