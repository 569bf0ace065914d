"""What cannot be converted: metadata without a text, models that cannot be copied; and a denoiser for them."""

from denoise_core.s2a import Options, S2ADenoiser
from denoise_core.testing import FunctionLLM

TWO_SENTENCES = "The tower is tall. It is lovely!"


class Unspeakable:
    def __str__(self):
        raise RuntimeError("cannot be shown")


class Uncopied:
    """Before a pydantic class, what cannot be copied."""

    def model_copy(self, **_):
        raise RuntimeError("cannot be copied")


def first_sentence():
    """Keeps the first of each passage's two sentences."""
    return S2ADenoiser(
        FunctionLLM(lambda messages: "1"),
        variant="select",
        options=Options(join_passages=False),
    )
