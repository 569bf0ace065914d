"""What can go through ``dumpd`` and ``load`` does; secrets stay out; what cannot says so."""

import pytest
from chain_parts import s2a
from langchain_core.load import dumpd, dumps, load
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI

from langchain_denoise import (
    DenoiseCompressor,
    S2AMessages,
    verified,
)

KEY = "sk-not-a-real-key"

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:A test tried to use socket"
    ),  # the client of openai looks for a proxy
    pytest.mark.filterwarnings("ignore:The function `load` is in beta"),
    pytest.mark.filterwarnings("ignore:The default value of `allowed_objects`"),
]


@pytest.fixture
def model():
    return ChatOpenAI(model="local", base_url="http://127.0.0.1:9/v1", api_key=KEY)


def again(thing, *classes):
    return load(
        dumpd(thing),
        allowed_objects=[ChatOpenAI, *classes],
        valid_namespaces=["langchain_denoise"],
        secrets_map={"OPENAI_API_KEY": KEY},
    )


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (
            DenoiseCompressor,
            {"max_tokens": 300, "on_irrelevant": "drop", "on_error": "drop"},
        ),
        (S2AMessages, {"variant": "single", "on_error": "raise"}),
    ],
)
def test_a_round_trip_with_a_model_keeps_every_setting(model, kind, settings):
    step = kind(model=model, **settings)
    loaded_value = again(step, kind)
    assert type(loaded_value) is kind
    assert {name: getattr(loaded_value, name) for name in settings} == settings
    assert loaded_value.model.model_name == "local"
    assert KEY not in dumps(step)


def test_plain_settings_are_plain_json():
    compressor = DenoiseCompressor(
        keep=0.5,
        top_n=3,
        order="score",
        header_keys=("title", "year"),
    )
    assert again(compressor, DenoiseCompressor) == compressor


def test_what_holds_your_own_objects_is_not_serialised_and_says_so(model):
    assert (
        dumpd(verified(ChatPromptTemplate.from_template("{question}")))["type"]
        == "not_implemented"
    )
    assert (
        dumpd(DenoiseCompressor(denoiser=s2a()))["kwargs"]["denoiser"]["type"]
        == "not_implemented"
    )


def test_loading_needs_permission(model):
    with pytest.raises(ValueError, match=r"not allowed|namespace"):
        load(dumpd(S2AMessages(model=model)), secrets_map={"OPENAI_API_KEY": KEY})
