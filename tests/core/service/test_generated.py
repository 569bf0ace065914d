"""Types that a stock generator makes of the OpenAPI page: a client written with them holds under mypy, strict."""

import importlib
import json

import pytest
from command_line import python_output, run_python
from service_server import QUERY, TEXTS, serving

from denoise_core.embedded import default_denoiser
from denoise_core.service import Service
from denoise_core.service.app import make_app

pytestmark = pytest.mark.enable_socket

CLIENT = """
import httpx
from served import CheckRequest, CheckResponse, DenoiseRequest, DenoiseResponse, RerankRequest, RerankResponse

def denoise(client: httpx.Client, query: str, texts: list[str]) -> str:
    body: DenoiseRequest = {"query": query, "passages": [*texts, {"text": "Rain fell.", "id": "rain"}]}
    found: DenoiseResponse = client.post("/v1/denoise", json=body).raise_for_status().json()
    spans = [(s["start"], s["end"]) for p in found["passages"] for s in p["spans"]]
    assert sum(end - start for start, end in spans) > 0
    return found["passages"][0]["text"]

def rerank(client: httpx.Client, query: str, texts: list[str]) -> float:
    body: RerankRequest = {"query": query, "documents": [*texts], "top_n": 1}
    found: RerankResponse = client.post("/v1/rerank", json=body).raise_for_status().json()
    return found["results"][0]["relevance_score"]

def check(client: httpx.Client, question: str, texts: list[str]) -> bool | None:
    body: CheckRequest = {"question": question, "answer": texts[0], "passages": [*texts]}
    found: CheckResponse = client.post("/v1/check", json=body).raise_for_status().json()
    return found["claims"][0]["supported"]
"""


OPTIONS = """
--input openapi.json --input-file-type openapi --output served.py
--output-model-type typing.TypedDict --target-python-version 3.11 --formatters builtin
"""


def held(folder, text):
    """What mypy says of a client that is this text."""
    (folder / "client.py").write_text(text)
    (folder / "mypy.ini").write_text("[mypy]\nstrict = true\n")
    return run_python("-m", "mypy", "client.py", "served.py", cwd=folder).stdout


def test_a_client_of_generated_types_holds_and_works(tmp_path, monkeypatch):
    import httpx

    service = Service(default_denoiser())
    (tmp_path / "openapi.json").write_text(json.dumps(make_app(service).openapi()))
    python_output("-m", "datamodel_code_generator", *OPTIONS.split(), cwd=tmp_path)
    assert "Success" in held(tmp_path, CLIENT)
    for right, wrong in (
        ("[*texts, {", "[3, {"),
        ('"query": query', '"question": query'),
        ("-> str", "-> int"),
        ('["relevance_score"]', '["score"]'),
        ("-> bool | None", "-> bool"),
    ):
        assert "error:" in held(tmp_path, CLIENT.replace(right, wrong)), (right, wrong)
    held(tmp_path, CLIENT)
    monkeypatch.syspath_prepend(tmp_path)
    client = importlib.import_module("client")
    with serving(service) as url, httpx.Client(base_url=url, timeout=60) as asked:
        assert client.denoise(asked, QUERY, TEXTS) in TEXTS
        assert 0 <= client.rerank(asked, QUERY, TEXTS) <= 1
        assert client.check(asked, QUERY, TEXTS) in (True, False, None)
