"""Documents are converted inside the guard: one that is broken follows the policy and costs no other."""

import json
import re

import pytest
from broken_parts import TWO_SENTENCES as TEXT
from broken_parts import Uncopied, Unspeakable, first_sentence
from langchain_agents import both_ways, run
from langchain_core.documents import Document

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


class Ours(Document, extra="allow"):
    place: str = "shelf"


@pytest.mark.parametrize("kind", [Document, Ours])
def test_a_shallow_copy_is_pydantics(kind):
    fields = {"more": [1]} if kind is Ours else {}
    document = kind(page_content=TEXT, id="x", metadata={"a": 1}, **fields)
    before = document.model_copy(deep=True)
    update = {"page_content": "It is lovely!", "metadata": {"b": 2}}
    ours, theirs = copy_model(document, update), document.model_copy(update=update)
    assert ours == theirs
    assert ours.model_dump(exclude_unset=True) == theirs.model_dump(exclude_unset=True)
    ours.metadata["c"] = 3
    (ours.model_extra or {}).clear()
    assert document == before


def test_a_record_of_many_spans_is_at_most_two_kilobytes():
    """Records of every scored chunk were several times as long as the text they belong to."""
    text = " ".join(f"The tower of {i} is tall. It is lovely!" for i in range(300))
    odd_numbers = re.compile(r"^(\d*[13579]) ", re.MULTILINE)
    every_other = FunctionLLM(
        lambda messages: ", ".join(odd_numbers.findall(messages[1].content))
    )
    compressor = DenoiseCompressor(denoiser=S2ADenoiser(every_other, variant="select"))
    given = Document(page_content=text, id="é" * 3000)
    [document] = compressor.compress_documents([given], "How tall?" * 500)
    record = json.dumps(document.metadata, ensure_ascii=False)
    assert len(record.encode()) <= RECORD_BYTES
    assert document.metadata["denoise_spans_left_out"]


@both_ways
@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_document_follows_the_policy_and_costs_no_other(
    name, is_sync, caplog
):
    broken = BROKEN[name]()
    good = [Document(page_content=TEXT, id=name) for name in "ab"]
    chain_input = {"documents": [good[0], broken, good[1]], "query": "How tall?"}

    def compress(**settings):
        compressor = DenoiseCompressor(denoiser=first_sentence(), **settings)
        return run(compressor, is_sync, chain_input)

    *converted, as_it_came = await compress()
    for document in converted:
        assert document.page_content.strip() == "The tower is tall."
        assert "denoise_fallback" not in document.metadata
    assert as_it_came.page_content == broken.page_content
    if isinstance(broken.metadata, dict) and not isinstance(broken, Stuck):
        assert "kept as it is" in as_it_came.metadata["denoise_fallback"]
    assert "S2ADenoiser, conversion" in caplog.text
    dropped = await compress(on_error="drop")
    assert [document.id for document in dropped] == ["a", "b"]
    with pytest.raises((InputError, RuntimeError, TypeError, OverflowError)):
        await compress(on_error="raise")
