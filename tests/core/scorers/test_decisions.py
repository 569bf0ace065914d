"""Decision models: a probability for each passage, from transformers' pipeline or a server."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import numpy as np
import pytest

from denoise_core import InputError
from denoise_core.errors import BadReply
from denoise_core.running.engines import RemoteLimits
from denoise_core.scorers.decisions import DecisionScorer, LocalDecisions, ServedDecisions
from denoise_core.testing import check_scorer


def test_a_decision_scorer_takes_the_probability_of_true():
    seen = []

    def decide(request):
        seen.append(request)
        return {"holds": {"type": "noul", "noul": 0.9 if "sea" in request["state"]["passage"] else 0.1}}

    scores = check_scorer(DecisionScorer(decide), "What is salty?", ["the sea", "a tree"])
    assert np.allclose(scores, [0.9, 0.1])
    assert seen[0]["questions"]["holds"]["type"] == "noul"
    assert DecisionScorer(decide).score("q", []).shape == (0,)


@pytest.mark.parametrize("answers", [{}, None, {"holds": 1}, {"holds": {"noul": "yes"}}, {"holds": {"noul": 1.5}}])
def test_an_answer_that_is_none_is_refused(answers):
    with pytest.raises(BadReply, match="noul"):
        DecisionScorer(lambda request: answers).score("q", ["a"])


@pytest.fixture
def words_tokenizer():
    """Yes and No are single tokens here; everything else is split at spaces and unknown."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {w: i for i, w in enumerate(["<unk>", "<s>", "</s>", "Yes", "No", "sea", "tree", "the", "\n"])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    template = (
        "{% for m in messages %}<s> {{ m['content'] }}{% endfor %}{% if add_generation_prompt %}</s>{% endif %}"
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", bos_token="<s>", eos_token="</s>", chat_template=template
    )


@pytest.fixture
def tiny_llama():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=16,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
        )
        return LlamaForCausalLM(config).eval()


def test_transformers_own_decision_pipeline_serves(tiny_llama, words_tokenizer):
    scorer = DecisionScorer(LocalDecisions(tiny_llama, tokenizer=words_tokenizer))
    scores = check_scorer(scorer, "the sea", ["the sea", "the tree tree tree", ""])
    assert ((scores > 0) & (scores < 1)).all()
    assert len(set(scores.tolist())) > 1


def chance(passage):
    return 0.75 if "sea" in passage else 0.25


class DecisionModel(BaseHTTPRequestHandler):
    """Answers as ``transformers serve`` does at /v1/systemone and OpenAI at /v1/decisions, by a rule."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        paths = {"/v1/systemone": self.systemone, "/v1/decisions": self.decisions}
        if self.path not in paths or request["model"] != "m":
            return self.reply(422, {"detail": "unknown model"})
        passage, answers = paths[self.path](request)
        self.reply(200, {} if "broken" in passage else {"model": "m", "answers": answers, "usage": {}})

    def systemone(self, request):
        passage = request["state"]["passage"]
        return passage, {n: {"type": "noul", "noul": chance(passage)} for n in request["questions"]}

    def decisions(self, request):
        passage = json.loads(request["input"])["passage"]
        assert all(q["type"] == "predicate" and q["instructions"] for q in request["questions"])
        refused = {"type": "refusal", "refusal": "not this one"}
        found = refused if "refused" in passage else {"type": "predicate", "probability": chance(passage)}
        return passage, [{"name": q["name"], **found} for q in request["questions"]]

    def reply(self, status, body):
        blob = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(blob)))
        self.end_headers()
        self.wfile.write(blob)

    def log_message(self, *args):
        return


@pytest.fixture
def server():
    served = ThreadingHTTPServer(("127.0.0.1", 0), DecisionModel)
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()
    served.server_close()
    thread.join()


@pytest.mark.enable_socket
@pytest.mark.parametrize("shape", ["systemone", "decisions"])
def test_a_server_that_speaks_the_shape_serves(server, shape):
    def scorer(model="m", url=server):
        return DecisionScorer(ServedDecisions(url, model, shape=shape))

    assert scorer(url=server + "/").score("q", ["sea", "tree", '"sea" } 🗼']).tolist() == [0.75, 0.25, 0.75]
    with pytest.raises(BadReply, match="422"):
        scorer("other").score("q", ["sea"])
    with pytest.raises(BadReply, match="answers"):
        scorer().score("q", ["broken"])


@pytest.mark.enable_socket
def test_a_refusal_is_no_probability(server):
    with pytest.raises(BadReply, match="chance"):
        DecisionScorer(ServedDecisions(server, "m", shape="decisions")).score("q", ["refused"])


@pytest.mark.enable_socket
def test_the_stock_client_of_the_shape_reads_the_same_server(server):
    """So that what the scorer is tested against is the shape that others speak."""
    decisions = pytest.importorskip("langchain_openai.decisions")
    client = decisions.OpenAIDecisions(model="m", api_key="none", base_url=f"{server}/v1")
    asked = {"holds": decisions.Predicate(instructions="Does it hold the answer?")}
    reply = client.invoke({"input": json.dumps({"passage": "sea"}), "questions": asked})
    assert reply.predicates["holds"].probability == 0.75


def test_another_shape_is_refused():
    with pytest.raises(InputError, match="'systemone' or 'decisions'"):
        ServedDecisions("http://127.0.0.1:9", "m", shape="chat")


@pytest.mark.enable_socket
def test_a_server_that_is_not_there_is_the_clients_own_error():
    nobody = ServedDecisions("http://127.0.0.1:9", "m", limits=RemoteLimits(attempts=2, rest=0))
    with pytest.raises(httpx.ConnectError):
        DecisionScorer(nobody).score("q", ["a"])
    with pytest.raises(InputError, match="http://"):
        ServedDecisions("localhost:8000", "m")
