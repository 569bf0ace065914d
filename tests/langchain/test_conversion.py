"""Documents become passages, and copies with a record of bounded size."""

import json
import re

import pytest
from broken_parts import TWO_SENTENCES as TEXT
from broken_parts import first_sentence
from langchain_agents import both_ways, run
from langchain_core.documents import Document

from denoise_core import InputError
from denoise_core._frameworks import copy_model
from denoise_core.runtime.record import RECORD_BYTES
from denoise_core.s2a import S2ADenoiser
from denoise_core.testing import FunctionLLM
from langchain_denoise import DenoiseCompressor


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
