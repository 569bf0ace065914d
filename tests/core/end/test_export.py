"""Exported checkpoints: plain transformers gives the probe's scores, and a served one the same over HTTP."""

from __future__ import annotations

import http.server
import json
import threading

import httpx
import numpy as np
import pytest
import torch
from pytest_socket import enable_socket, socket_allow_hosts
from readings import states_of

from denoise_core import InputError, Passage, ProbeMismatch
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
from denoise_core.runtime.engines import RemoteLimits
from denoise_lab.export import export

SHORT = ReadingSettings(
    layout=Layout("short", ("\nQ: ", QUERY), system=("Read:", PASSAGE))
)
TEXTS = ["alpha " * 9, "", "gamma", "שלום 😀", "e" * 61]
NO_CLASS = {
    "cohere",
    "cohere2",
    "granite",
    "ernie4_5",
    "lfm2",
    "llama4_text",
    "gemma4_text",
    "gemma4_text-plain",
}
HAS_BIAS = {
    "gpt2",
    "gptj",
    "gpt_neo",
    "gpt_neox",
    "falcon",
    "falcon-alibi",
    "opt",
    "bloom",
    "phi",
    "starcoder2",
}
HAS_BIAS |= {"stablelm", "nemotron", "persimmon"}


@pytest.fixture(scope="module")
def tokenizer(byte_tokenizer):
    return byte_tokenizer()


def fitted(model, tokenizer, settings=SHORT, layer=3):
    reader = HiddenReader(model, tokenizer=tokenizer, settings=settings)
    probe_weight = np.random.default_rng(0).normal(size=32).astype(np.float32)
    return reader, Probe(probe_weight, 0.7, reader.reading(layer), threshold=0.1)


def served_by_transformers(probe_folder, reader):
    """Logits of the exported folder as anyone would get them."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(str(probe_folder)).eval()
    prompts, _ = reader.prompts([("who?", text) for text in TEXTS])
    batch = AutoTokenizer.from_pretrained(str(probe_folder)).pad(
        {"input_ids": [list(passage.ids) for passage in prompts]}, return_tensors="pt"
    )
    with torch.inference_mode():
        return model, model(
            **{
                key_name: batch[key_name]
                for key_name in ("input_ids", "attention_mask")
            }
        ).logits[:, 0].numpy()


def test_every_family_with_a_class_is_served_with_equal_scores(
    decoder, tiny, tokenizer, tmp_path
):
    reader, line_probe = fitted(tiny(decoder), tokenizer)
    if decoder in NO_CLASS:
        with pytest.raises(InputError, match="no sequence-classification class"):
            export(reader, line_probe, tmp_path)
        return
    if decoder == "opt-350m":  # no final norm, so its states are not normed
        with pytest.raises(InputError, match="normed as the model norms"):
            export(reader, line_probe, tmp_path)
        return
    exported = export(reader, line_probe, tmp_path)
    model, logits = served_by_transformers(tmp_path, reader)
    reference = line_probe.score(states_of(reader, "who?", TEXTS, [3])[3])
    assert np.abs(logits + exported.missing_bias - reference).max() < 1e-5
    assert exported.missing_bias == (0.0 if decoder in HAS_BIAS else pytest.approx(0.7))
    assert model.config.get_text_config().num_hidden_layers == 3


def test_the_bias_an_rms_norm_cannot_hold_is_in_the_file(tiny, tokenizer, tmp_path):
    from safetensors import safe_open

    export(*fitted(tiny("llama"), tokenizer), tmp_path)
    with safe_open(str(tmp_path / "model.safetensors"), "pt") as file:
        assert float(file.get_tensor("score.bias")) == pytest.approx(0.7)
        assert file.get_tensor("score.weight").dtype == torch.float32


def test_a_bfloat16_export_keeps_its_head_in_float32(tiny, tokenizer, tmp_path):
    from safetensors import safe_open

    reader, line_probe = fitted(tiny("llama").to(torch.bfloat16), tokenizer)
    export(reader, line_probe, tmp_path)
    with safe_open(str(tmp_path / "model.safetensors"), "pt") as file:
        assert np.array_equal(
            file.get_tensor("score.weight")[0].numpy(), line_probe.weight
        )
        assert (
            file.get_tensor("model.layers.0.mlp.up_proj.weight").dtype == torch.bfloat16
        )


def test_a_prompt_that_ends_in_the_padding_token_is_still_read_at_its_end(
    tiny, byte_tokenizer, tmp_path
):
    tokenizer = byte_tokenizer(pad=False)
    tokenizer.pad_token = tokenizer.eos_token  # as so many have it
    closing = ReadingSettings(
        layout=Layout("closing", (PASSAGE, "\nQ: ", QUERY, "</s>"))
    )
    reader, line_probe = fitted(tiny("llama"), tokenizer, closing)
    exported = export(reader, line_probe, tmp_path)
    assert exported.pad_token_id != tokenizer.eos_token_id
    _, logits = served_by_transformers(tmp_path, reader)
    reference = line_probe.score(states_of(reader, "who?", TEXTS, [3])[3])
    assert np.abs(logits + exported.missing_bias - reference).max() < 1e-5
    assert tokenizer.pad_token == tokenizer.eos_token, (
        "the caller's tokenizer was changed"
    )


def test_the_readers_model_stays_as_it_is(tiny, tokenizer, tmp_path):
    model = tiny("gemma2")
    values_before = {
        key_name: item_value.clone()
        for key_name, item_value in model.state_dict().items()
    }
    export(*fitted(model, tokenizer), tmp_path)
    assert model.config.num_hidden_layers == 6
    assert all(
        torch.equal(item_value, values_before[key_name])
        for key_name, item_value in model.state_dict().items()
    )


def test_what_a_checkpoint_cannot_express_is_refused(
    tiny, tokenizer, byte_tokenizer, tmp_path
):
    model = tiny("llama")
    raw = ReadingSettings(layout=SHORT.layout, normalisation="none")
    with pytest.raises(InputError, match="normed as the model norms"):
        export(*fitted(model, tokenizer, raw), tmp_path)
    with pytest.raises(InputError, match="no block to export"):
        export(*fitted(model, tokenizer, layer=0), tmp_path)
    _, line_probe = fitted(model, tokenizer)
    with pytest.raises(ProbeMismatch):
        export(
            HiddenReader(tiny("llama", seed=3), tokenizer=tokenizer, settings=SHORT),
            line_probe,
            tmp_path,
        )
    bert = HiddenReader(tiny("bert"), tokenizer=byte_tokenizer(pair=True))
    with pytest.raises(InputError, match="cls_mean_question"):
        export(bert, Probe(np.ones(96, np.float32), 0.0, bert.reading(3)), tmp_path)
    assert list(tmp_path.iterdir()) == []


class Classify(http.server.BaseHTTPRequestHandler):
    """vLLM's /classify as far as it is used, on a transformers model. ``add`` is the bias vLLM would read."""

    model = None
    add = 0.0
    activation = False
    status = 200
    reply: bytes | None = None
    seen: list

    def do_GET(self):
        self.server.seen.append((self.path, dict(self.headers), None))
        reply = json.dumps({"data": self.server.models}).encode()
        self.send_response(200 if self.server.models else 404)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def do_POST(self):
        request_body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, dict(self.headers), request_body))
        reply_data = []
        for n, ids in enumerate(request_body["input"]):
            with torch.inference_mode():
                logit = (
                    float(self.server.model(input_ids=torch.tensor([ids])).logits[0, 0])
                    + self.server.add
                )
            number = 1 / (1 + np.exp(-logit)) if self.server.activation else logit
            reply_data.append(
                {
                    "index": n,
                    "label": "LABEL_0",
                    "probs": [float(number)],
                    "num_classes": 1,
                }
            )
        full_run = {
            "id": "classify-1",
            "object": "list",
            "model": request_body["model"],
            "data": reply_data[::-1],
        }
        reply = self.server.reply or json.dumps(full_run).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def exported(tiny, tokenizer, tmp_path_factory):
    probe_folder = tmp_path_factory.mktemp("exported")
    model = tiny("llama")
    reader, line_probe = fitted(model, tokenizer)
    export(reader, line_probe, probe_folder)
    return probe_folder, ProbeScorer(
        model, line_probe, tokenizer=tokenizer, settings=SHORT
    )


@pytest.fixture
def server(exported):
    from transformers import AutoModelForSequenceClassification

    enable_socket()
    socket_allow_hosts(["127.0.0.1"])
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Classify)
    served.model = AutoModelForSequenceClassification.from_pretrained(
        str(exported[0])
    ).eval()
    served.models = []
    served.seen, served.add, served.activation, served.status, served.reply = (
        [],
        0.0,
        False,
        200,
        None,
    )
    server_thread = threading.Thread(
        target=served.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    server_thread.start()
    served.url = f"http://127.0.0.1:{served.server_address[1]}"
    yield served
    served.shutdown()
    served.server_close()
    server_thread.join()


@pytest.mark.parametrize(
    "add", [0.0, 0.7], ids=["transformers leaves the bias out", "vllm reads it"]
)
def test_a_served_checkpoint_gives_the_local_scores(server, exported, add, monkeypatch):
    monkeypatch.setenv("MY_ENGINE_KEY", "secret")
    probe_folder, local = exported
    server.add = add
    remote_scorer = RemoteScorer(
        server.url, probe_folder, model="mine", key_env="MY_ENGINE_KEY", batch=2
    )
    assert (
        np.abs(remote_scorer.score("who?", TEXTS) - local.score("who?", TEXTS)).max()
        < 1e-5
    )
    file_path, headers, request_body = server.seen[-1]
    assert (file_path, request_body["model"], request_body["use_activation"]) == (
        "/classify",
        "mine",
        False,
    )
    assert headers["Authorization"] == "Bearer secret"
    seen = len(server.seen)
    assert "secret" not in repr(vars(remote_scorer)) + repr(vars(remote_scorer.engine))
    assert all(isinstance(i, int) for ids in request_body["input"] for i in ids)
    assert (
        max(len(body_item["input"]) for passage, _, body_item in server.seen[2:seen])
        == 2
    )  # after what it says of itself
    assert remote_scorer.score("who?", []).shape == (0,)


def test_a_long_text_is_cut_for_the_server_too(server, exported):
    probe_folder, local = exported
    long_text = "".join(chr(97 + i % 26) for i in range(1200))
    remote_scorer = RemoteScorer(server.url, probe_folder)
    assert (
        np.abs(
            remote_scorer.score("who?", [long_text, "b"])
            - local.score("who?", [long_text, "b"])
        ).max()
        < 1e-5
    )


def test_what_a_server_says_of_itself_is_asked_once_and_kept_to(server, exported):
    probe_folder, _ = exported
    server.models = [{"id": "served-name"}]
    remote_scorer = RemoteScorer(server.url, probe_folder)
    for _ in range(2):
        remote_scorer.score("who?", ["a"])
    assert {
        body_item["model"]
        for passage, _, body_item in server.seen
        if passage == "/classify"
    } == {"served-name"}
    assert [passage for passage, _, _ in server.seen].count("/v1/models") == 1
    assert remote_scorer._checked_replicas[server.url][0] == "served-name"
    with pytest.raises(
        InputError, match=r"serves served-name and not 'other': pass model="
    ):
        RemoteScorer(server.url, probe_folder, model="other").score("who?", ["a"])


async def test_an_async_denoiser_awaits_the_server(server, exported):
    probe_folder, local = exported
    input_passages = [Passage(text, str(i)) for i, text in enumerate(TEXTS)]
    remote_scorer = ENDDenoiser(RemoteScorer(server.url, probe_folder), keep=1)
    actual = await remote_scorer.adenoise("who?", input_passages)
    assert (
        actual.passages[0].id
        == ENDDenoiser(local, keep=1).denoise("who?", input_passages).passages[0].id
    )
    assert (await remote_scorer.adenoise("who?", [])).passages == ()


def test_a_server_of_something_else_is_refused(server, exported):
    probe_folder, _ = exported
    server.activation = True
    with pytest.raises(ProbeMismatch, match="does not serve the checkpoint"):
        RemoteScorer(server.url, probe_folder).score("who?", TEXTS)
    server.activation = False
    with torch.no_grad():
        server.model.score.weight.mul_(-1)
    with pytest.raises(ProbeMismatch, match="does not serve the checkpoint"):
        RemoteScorer(server.url, probe_folder).score("who?", TEXTS)


@pytest.mark.parametrize(
    "reply",
    [
        b'{"data": []}',
        b'{"error": "x"}',
        b"[1]",
        b'{"data": [{"index": 0, "probs": [1, 2]}]}',
        b"null",
    ],
)
def test_a_reply_that_is_none_is_a_failure(server, exported, reply):
    server.reply = reply
    with pytest.raises(BadReply, match="one number for each of 3 prompts"):
        RemoteScorer(server.url, exported[0]).score("who?", TEXTS)


def test_errors_of_the_connection_come_through_and_a_later_call_works(server, exported):
    remote_scorer = RemoteScorer(
        server.url, exported[0], limits=RemoteLimits(attempts=2, cooldown=0)
    )
    server.status = 503
    with pytest.raises(httpx.HTTPStatusError, match="503"):
        remote_scorer.score("who?", TEXTS)
    server.status = 200
    assert remote_scorer.score("who?", TEXTS).shape == (len(TEXTS),)


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
