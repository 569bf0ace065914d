"""Prompts can be read and changed through any number of wrappers, and what others share stays as it was."""

import pytest
from llama_index.core.prompts import (
    ChatPromptTemplate,
    PromptTemplate,
    RichPromptTemplate,
)
from llamaindex_engines import QUESTION, RIGHT, Fixed, always, inner, keep_red, nodes

from denoise_core import InputError
from denoise_core.augmenter import Augmenter
from denoise_core.s2a import S2A
from llamaindex_denoise import (
    AugmentedQueryEngine,
    Checked,
    DenoisePostprocessor,
    LlamaLLM,
    S2AQueryEngine,
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


def test_the_postprocessors_prompts_are_reached_too(scripted_llm):
    from denoise_core.s2a import S2ADenoiser

    shared = S2ADenoiser(LlamaLLM(scripted_llm(keep_red)), variant="select")
    pp = DenoisePostprocessor(denoiser=shared)
    engine = Checked(inner(scripted_llm(always(RIGHT)), node_postprocessors=[pp]))
    key = "postprocessor_0:s2a_select"
    template = engine.get_prompts()[key]
    engine.update_prompts(
        {key: PromptTemplate("Quickly! " + template.message_templates[-1].content)}
    )
    assert (
        pp.get_prompts()["s2a_select"]
        .message_templates[-1]
        .content.startswith("Quickly!")
    )
    assert (
        pp.get_prompts()["s2a_select"].message_templates[0].content
        == template.message_templates[0].content
    )
    assert not shared.options.prompts.select.user.startswith("Quickly!")


def test_s2a_prompts_can_be_read_and_changed(scripted_llm):
    s2a = S2A(LlamaLLM(scripted_llm(keep_red)), variant="select")
    engine = S2AQueryEngine(s2a, Fixed(nodes()))
    prompts = engine.get_prompts()
    assert set(prompts) == {"s2a_select", "s2a_answer"}
    system, user = (
        message.content for message in prompts["s2a_select"].message_templates
    )
    engine.update_prompts(
        {"s2a_answer": PromptTemplate("BRIEFLY {context} {question}")}
    )
    heard = str(engine.query(QUESTION))
    assert heard.startswith("Heard: BRIEFLY")
    assert "The red tower is in Porto." in heard
    assert s2a.denoiser.options.prompts.answer_fairly.version != "custom", (
        "a shared S2A was changed"
    )
    changed = ChatPromptTemplate.from_messages(
        [("system", system), ("user", "Quickly!\n" + user)]
    )
    engine.update_prompts({"s2a_select": changed})
    assert (
        engine.get_prompts()["s2a_select"]
        .message_templates[1]
        .content.startswith("Quickly!")
    )
    assert "BRIEFLY" in engine.get_prompts()["s2a_answer"].message_templates[-1].content
    with pytest.raises(InputError, match=r"lacks \{context\}"):
        engine.update_prompts({"s2a_answer": PromptTemplate("{question}")})
    with pytest.raises(
        InputError, match="expected a llama_index prompt template, got str"
    ):
        engine.update_prompts({"s2a_answer": "{context} {question}"})


KINDS = {
    "plain": lambda: PromptTemplate("BRIEFLY {context} {question} {{as JSON}}"),
    "partly filled": lambda: PromptTemplate(
        "{how} {context} {question} {{as JSON}}"
    ).partial_format(how="BRIEFLY"),
    "mapped": lambda: PromptTemplate(
        "BRIEFLY {c} {question} {{as JSON}}", template_var_mappings={"context": "c"}
    ),
    "jinja": lambda: RichPromptTemplate(
        "BRIEFLY {{ context }} {{ question }} {as JSON}"
    ),
    "chat": lambda: ChatPromptTemplate.from_messages(
        [("system", "Be short."), ("user", "BRIEFLY {context} {question} {{as JSON}}")]
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_templates_of_every_kind_are_taken(scripted_llm, kind):
    engine = S2AQueryEngine(
        S2A(LlamaLLM(scripted_llm(keep_red)), variant="select"), Fixed(nodes())
    )
    engine.update_prompts({"s2a_answer": KINDS[kind]()})
    heard = str(engine.query(QUESTION))
    assert heard.startswith("Heard: BRIEFLY")
    assert "{as JSON}" in heard
    assert "red tower is in Porto." in heard
    assert QUESTION in heard
