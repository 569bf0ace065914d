"""Prompts can be read and changed, and what others share stays as it was."""

from llama_index.core.prompts import (
    PromptTemplate,
)
from llamaindex_engines import QUESTION, RIGHT, Fixed, always, inner, nodes

from denoise_core.augmenter import Augmenter
from llamaindex_denoise import (
    AugmentedQueryEngine,
    Checked,
    LlamaLLM,
)
from llamaindex_denoise.models.retriever import LlamaRetriever


def test_the_prompts_of_the_wrapped_engine_are_listed_and_used(scripted_llm):
    llm = scripted_llm(always(RIGHT))
    engine = Checked(inner(llm))
    key = "response_synthesizer:text_qa_template"
    assert f"query_engine:{key}" in engine.get_prompts()
    template = PromptTemplate("Say it with flowers. {context_str} {query_str}")
    engine.query_engine.update_prompts({key: template})
    engine.query(QUESTION)
    assert "Say it with flowers." in llm.seen_prompts[0][-1].content


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
