"""Documents are converted inside the guard: one that is broken follows the policy and costs no other."""

import asyncio
import json
import re

import pytest
from broken_parts import TWO_SENTENCES as TEXT
from broken_parts import Uncopied, Unspeakable, first_sentence
from langchain_core.documents import Document
from recorded_runs import RunRecorder

from denoise_core import InputError
from denoise_core._frameworks import copy_model
from denoise_core.runtime import fallbacks
from denoise_core.runtime.record import RECORD_BYTES
from denoise_core.s2a import S2ADenoiser
from denoise_core.testing import FunctionLLM
from langchain_denoise import DenoiseCompressor


@pytest.fixture(autouse=True)
def _first_of_its_kind():
    fallbacks._counts.clear()


class Stuck(Uncopied, Document):
    pass


BROKEN = {
    "no text": lambda: Document.model_construct(page_content=None, id="x", metadata={}),
    "no metadata": lambda: Document.model_construct(
        page_content=TEXT, id="x", metadata=None
    ),
    "an id that is none": lambda: Document.model_construct(
        page_content=None, id=["x"], metadata={}
    ),
    "a title that cannot be shown": lambda: Document(
        page_content=TEXT, id="x", metadata={"title": Unspeakable()}
    ),
    "a score beyond all": lambda: Document(
        page_content=TEXT, id="x", metadata={"relevance_score": 10**400}
    ),
    "one that cannot be copied": lambda: Stuck(page_content=TEXT, id="x"),
}


def compressed(broken, is_sync, **settings):
    input_value = [
        Document(page_content=TEXT, id="a"),
        broken,
        Document(page_content=TEXT, id="b"),
    ]
    compressor = DenoiseCompressor(denoiser=first_sentence(), **settings)
    if is_sync:
        return compressor.compress_documents(input_value, "How tall?")
    return asyncio.run(compressor.acompress_documents(input_value, "How tall?"))


@pytest.mark.parametrize("is_sync", [True, False])
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_document_follows_the_policy_and_costs_no_other(name, is_sync, caplog):
    broken = BROKEN[name]()
    kept_items = compressed(broken, is_sync)
    good = [document for document in kept_items if document.id in ("a", "b")]
    assert [document.page_content.strip() for document in good] == [
        "The tower is tall."
    ] * 2
    assert [document.metadata.get("denoise_fallback") for document in good] == [
        None,
        None,
    ]
    (as_it_came,) = (document for document in kept_items if document not in good)
    assert as_it_came.page_content == broken.page_content
    if isinstance(broken.metadata, dict) and not isinstance(broken, Stuck):
        assert "kept as it is" in as_it_came.metadata["denoise_fallback"]
    assert "S2ADenoiser, conversion" in caplog.text
    assert [
        document.id for document in compressed(broken, is_sync, on_error="drop")
    ] == [
        "a",
        "b",
    ]
    with pytest.raises((InputError, RuntimeError, TypeError, OverflowError)):
        compressed(broken, is_sync, on_error="raise")


def test_the_failed_document_alone_is_marked():
    """Every document had the fallback of the one that failed."""
    local_llm = FunctionLLM(
        lambda message: "What a question!" if "bananas" in str(message) else "1"
    )
    context = [
        Document(page_content=TEXT * 40, id="a"),
        Document(page_content="Yellow bananas. " * 80, id="b"),
    ]
    run_output = DenoiseCompressor(model=local_llm).compress_documents(
        context, "How tall?"
    )
    marked_items = [
        document.id
        for document in run_output
        if document.metadata.get("denoise_fallback")
    ]
    assert marked_items == ["b"]


class Ours(Document):
    place: str = "shelf"


class Open(Document, extra="allow"):
    pass


@pytest.mark.parametrize("kind", [Document, Ours, Open])
def test_a_shallow_copy_is_pydantics(kind):
    document = kind(
        page_content=TEXT,
        id="x",
        metadata={"a": 1},
        **({"more": [1]} if kind is Open else {}),
    )
    update = {"page_content": "It is lovely!", "metadata": {"b": 2}}
    ours, theirs = copy_model(document, update), document.model_copy(update=update)
    assert ours == theirs
    assert ours.model_dump(exclude_unset=True) == theirs.model_dump(exclude_unset=True)
    ours.metadata["c"] = 3
    ours.model_fields_set.add("y")
    (ours.model_extra or {}).clear()
    assert document == kind(
        page_content=TEXT,
        id="x",
        metadata={"a": 1},
        **({"more": [1]} if kind is Open else {}),
    )
    assert "y" not in document.model_fields_set


def test_a_record_beside_a_document_is_at_most_two_kilobytes():
    """Records of every scored chunk were several times as long as the text they belong to."""
    text = " ".join(f"The tower of {i} is tall. It is lovely!" for i in range(300))
    every_other = FunctionLLM(
        lambda message: ", ".join(
            re.findall(
                r"^(\d*[13579]) ",
                message[1].content,
                re.MULTILINE,
            )
        )
    )
    for broken in (False, True):
        denoiser = S2ADenoiser(
            FunctionLLM(lambda message: "?" * 5000) if broken else every_other,
            variant="select",
        )
        found_documents = DenoiseCompressor(denoiser=denoiser).compress_documents(
            [Document(page_content=text, id=f"{i}-" + "é" * 3000) for i in range(3)],
            "How tall?" * 500,
        )
        weights = [
            len(json.dumps(document.metadata, ensure_ascii=False).encode())
            for document in found_documents
        ]
        assert len(weights) == 3
        assert max(weights) <= RECORD_BYTES
        assert broken or all(
            document.metadata["denoise_spans_left_out"] for document in found_documents
        )


def test_the_record_of_a_run_names_what_could_not_be_read():
    recorder = RunRecorder()
    input_value = [BROKEN["a score beyond all"](), Document(page_content=TEXT, id="b")]
    compressor = DenoiseCompressor(denoiser=first_sentence())
    compressor.invoke(
        {"documents": input_value, "query": "How tall?"}, {"callbacks": [recorder]}
    )
    ((_, event, _),) = recorder.events
    assert list(event["failures"]) == ["x"]
