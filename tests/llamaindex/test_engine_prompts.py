"""Prompts can be read and changed through any number of wrappers, and what others share stays as it was."""

import pytest
from llama_index.core.prompts import (
    PromptTemplate,
)
from llamaindex_engines import QUESTION, RIGHT, Fixed, always, inner, nodes

from denoise_core import InputError
from denoise_core.augmenter import Augmenter
from llamaindex_denoise import (
    AugmentedQueryEngine,
    Checked,
    LlamaLLM,
)
from llamaindex_denoise.models.retriever import LlamaRetriever


def test_prompts_are_reached_through_two_wrappers(scripted_llm):
    llm = scripted_llm(always(RIGHT))
    engine = Checked(inner(llm))
    key = "query_engine:response_synthesizer:text_qa_template"
    assert key in engine.get_prompts()
    engine.update_prompts(
        {key: PromptTemplate("Say it with flowers. {context_str} {query_str}")}
    )
    engine.query(QUESTION)
    assert "Say it with flowers." in llm.seen_prompts[0][-1].content
    with pytest.raises(InputError, match="no prompt named 'query_engine:nothing'"):
        engine.update_prompts({"query_engine:nothing": PromptTemplate("x")})


def test_the_loops_own_instruction_can_be_changed(scripted_llm):
    llm = scripted_llm(always(RIGHT))
    augmenter = Augmenter(LlamaLLM(llm), LlamaRetriever(Fixed(nodes())))
    engine = AugmentedQueryEngine(augmenter)
    engine.update_prompts({"instruction": PromptTemplate("Answer like a pirate.")})
    engine.query(QUESTION)
    assert "Answer like a pirate." in llm.seen_prompts[0][1].content
    assert "pirate" not in augmenter.task.instruction, (
        "an augmenter that others may share was changed"
    )
