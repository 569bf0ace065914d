"""Documents become passages, and copies with a record of bounded size."""

import pytest
from broken_parts import TWO_SENTENCES as TEXT
from broken_parts import first_sentence
from langchain_agents import both_ways, run
from langchain_core.documents import Document

from denoise_core import InputError
from denoise_core._frameworks import copy_model
from langchain_denoise import DenoiseCompressor


class Ours(Document, extra="allow"):
    place: str = "shelf"


@pytest.mark.parametrize("kind", [Document, Ours])
def test_a_shallow_copy_is_pydantics(kind):
    fields = {"more": [1]} if kind is Ours else {}
    document = kind(page_content=TEXT, id="x", metadata={"a": 1}, **fields)
    before = document.model_copy(deep=True)
    update = {"page_content": "It is lovely!", "metadata": {"b": 2}}
    ours = copy_model(document, update)
    theirs = document.model_copy(update=update)
    assert ours == theirs
    assert ours.model_dump(exclude_unset=True) == theirs.model_dump(exclude_unset=True)
    ours.metadata["c"] = 3
    (ours.model_extra or {}).clear()
    assert document == before


@both_ways
@pytest.mark.parametrize("policy", ["keep", "raise"])
async def test_a_document_without_text_is_named(policy, is_sync):
    documents = [
        Document(TEXT),
        Document.model_construct(page_content=None, id="x", metadata={}),
    ]
    compressor = DenoiseCompressor(denoiser=first_sentence(), on_error=policy)
    chain_input = {"documents": documents, "query": "How tall?"}
    with pytest.raises(InputError, match="passage 'x': expected its text as a str"):
        await run(compressor, is_sync, chain_input)
