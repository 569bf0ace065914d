"""A model's selection labels questions, and END is calibrated on them."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from headless import chromium, told_by

from denoise_core import InputError, Message, Passage, calibrate
from denoise_core.embedded import sample_questions
from denoise_core.evaluate.datasets import read_questions
from denoise_core.question import Question
from denoise_core.s2a.llm_labels import label_questions, write_labels
from denoise_core.testing import FunctionLLM

ASKED = sample_questions()[:22]


def few(q):
    others = [p for p in q.passages if p.id not in q.gold][:4]
    return tuple(p for p in q.passages if p.id in q.gold or p in others)


class Found:
    def retrieve(self, query):
        return few(next(q for q in ASKED if q.text == query))

    async def aretrieve(self, query):
        return self.retrieve(query)


def selecting(messages):
    """Names the pieces that hold an answer, as a good model does."""
    text = messages[-1].content
    if "out of order" in text:
        raise ConnectionError("away")
    own = next((q for q in ASKED if q.text in text), None)
    numbered = re.findall(r"^(\d+) (.+)$", text, re.M)
    named = [n for n, said in numbered if own and any(a in said for a in own.answers)]
    return f"KEEP: {', '.join(named) or 'NONE'}"


def test_one_call_labels_and_calibrates(tmp_path):
    llm = FunctionLLM(selecting)
    found = calibrate(
        Found(), [q.text for q in ASKED], llm, labels=tmp_path / "labels.jsonl"
    )
    assert 20 <= found.evaluation.questions <= 22
    assert found.evaluation.relevant_text_share < 0.5
    labels = read_questions(tmp_path / "labels.jsonl").questions
    assert len(labels) == found.evaluation.questions
    gold = {q.text: {p.text for p in q.passages if p.id in q.gold} for q in ASKED}
    assert (
        sum(
            bool(gold[q.text] & {p.text for p in q.passages if p.id in q.gold})
            for q in labels
        )
        >= 20
    )
    again = calibrate(
        None, labels, None
    )  # as a person may have corrected them; nobody is asked
    assert again.scale == found.scale


def test_labels_of_people_are_not_asked_about():
    own = [replace(q, passages=few(q)) for q in ASKED]
    llm = FunctionLLM(selecting)
    assert calibrate(None, own, llm).evaluation.questions == 22
    assert llm.received_messages == []


def test_what_the_model_fails_on_is_told_in_its_place():
    passages = (Passage("It rained.", "a"), Passage("Chess is a game.", "b"))
    asked = [
        Question(text, passages, frozenset())
        for text in ("Is it out of order?", "Who?")
    ]
    found = list(label_questions(asked, FunctionLLM(selecting)))
    assert "away" in found[0]
    assert found[1] == "no passage is needed, says the model"
    with pytest.raises(InputError, match="give a retriever"):
        calibrate(None, ["Who?"], FunctionLLM(selecting))
    with pytest.raises(InputError, match="expected 20 or more"):
        calibrate(None, asked, FunctionLLM(selecting))


HOSTILE = '</script><script>alert(1)</script> <img src=x onerror="alert(2)"> {{ 7*7 }} \u2028\r\n&amp; ]]>'


class Page(HTMLParser):
    """Ticks, texts and tags in their order."""

    def __init__(self, html):
        super().__init__()
        self.ticks, self.said, self.tags = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "input":
            self.ticks.append("checked" in dict(attrs))

    def handle_data(self, data):
        self.said.append(data)


def hostile(n):
    passages = tuple(
        Passage(f"{p.text} {HOSTILE}", p.id, {"source": HOSTILE}) for p in few(ASKED[n])
    )
    return Question(
        f"{ASKED[n].text} {HOSTILE}",
        passages,
        ASKED[n].gold,
        (HOSTILE,),
        f"{n}{HOSTILE}",
    )


def test_every_label_and_passage_stands_in_the_page_beside_the_labels_and_is_no_markup(
    tmp_path,
):
    plain = Page(
        (
            write_labels(ASKED, tmp_path / "plain.jsonl").with_name("plain.jsonl.html")
        ).read_text("utf-8")
    )
    assert plain.ticks == [label for q in ASKED for label in q.labels]
    asked = [hostile(n) for n in range(len(ASKED))]
    write_labels(asked, tmp_path / "labels.jsonl")
    page = Page((tmp_path / "labels.jsonl.html").read_text("utf-8"))
    assert page.ticks == [label for q in asked for label in q.labels]
    assert "img" not in page.tags
    assert page.tags.count("script") == 2
    said = [" ".join(s.split()) for s in page.said]
    shown = iter(said)
    for q in asked:
        for text in (q.text, *(p.text_with_header for p in q.passages)):
            assert any(" ".join(text.split()) in s for s in shown), text


@pytest.mark.skipif(chromium() is None, reason="there is no Chromium here")
def test_what_is_downloaded_is_the_labels_as_they_are_ticked(tmp_path):
    asked = [hostile(n) for n in range(3)]
    path = write_labels(asked, tmp_path / "labels.jsonl")
    before = read_questions(path).questions
    page = tmp_path / "labels.jsonl.html"
    html = page.read_bytes().decode()
    corrected = """<script>
    document.querySelectorAll("section")[1].querySelectorAll("input").forEach(box => box.click());
    const told = document.createElement("pre"); told.id = "told"; told.textContent = JSON.stringify(labels());
    document.body.append(told);
    </script></body>"""
    page.write_bytes(html.replace("</body>", corrected).encode())
    (tmp_path / "again.jsonl").write_bytes(told_by(page, "light", budget=5000).encode())
    after = read_questions(tmp_path / "again.jsonl").questions
    assert [q.passages for q in after] == [q.passages for q in before]
    assert [q.gold for q in after][::2] == [q.gold for q in before][::2]
    assert after[1].gold == {p.id for p in asked[1].passages} - asked[1].gold
    assert [(q.text, q.answers, q.id) for q in after] == [
        (q.text, q.answers, q.id) for q in before
    ]


def in_langchain():
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnableLambda

    from langchain_denoise import ChatModelLLM, RetrieverAdapter

    class Own(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            return [
                Document(page_content=p.text, id=p.id) for p in Found().retrieve(query)
            ]

    model = RunnableLambda(
        lambda messages: selecting([Message("user", m.content) for m in messages])
    )
    return RetrieverAdapter(Own()), ChatModelLLM(model)


def in_llamaindex():
    from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    from llamaindex_denoise import LlamaLLM
    from llamaindex_denoise.models.retriever import LlamaRetriever

    class Own(BaseRetriever):
        def _retrieve(self, query):
            found = Found().retrieve(query.query_str)
            return [NodeWithScore(node=TextNode(text=p.text, id_=p.id)) for p in found]

    class Model(CustomLLM):
        @property
        def metadata(self):
            return LLMMetadata()

        def complete(self, prompt, formatted=False, **kwargs):
            return CompletionResponse(text=selecting([Message("user", prompt)]))

        def stream_complete(self, prompt, formatted=False, **kwargs):
            yield self.complete(prompt)

    return LlamaRetriever(Own()), LlamaLLM(Model())


@pytest.mark.parametrize("framework", [in_langchain, in_llamaindex])
def test_it_takes_what_both_frameworks_have(framework):
    retriever, llm = framework()
    found = calibrate(retriever, [q.text for q in ASKED], llm)
    assert 20 <= found.evaluation.questions <= 22
