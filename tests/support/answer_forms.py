"""Seventy answers in the forms in which models write: fourteen bodies, each in five dresses."""

from envelopes import enclosed

from denoise_core.augmenter.utility import Groundedness
from denoise_core.support.quoting import TASK, LLMJudge

PASSAGE = (
    "The red tower in Porto was completed in 1889. It has three floors and a lift."
)
QUESTION = "When was the red tower in Porto completed?"

BODIES = (
    "It was completed in 1889.",
    "Based on the provided context, the red tower was completed in **1889** [1].",
    "The tower is in Porto.\n\nIt was completed in 1889, with three floors.",
    "- Place: Porto\n- Completed: 1889\n- Floors: three",
    "| Tower | Completed |\n|---|---|\n| red | 1889 |\n| floors | three |",
    '{"answer": "1889", "sources": ["1"]}',
    '```json\n{"answer": {"completed": 1889, "floors": "three"}}\n```',
    "1. The passage names the red tower.\n2. It says 1889.\n\nAnswer: 1889",
    "Probably 1889, assuming that the red tower is meant.",
    "```python\nCOMPLETED = 1889  # the red tower\n```",
    "Der rote Turm wurde 1889 fertiggestellt, siehe [1.1].",
    "La tour rouge a \u00e9t\u00e9 achev\u00e9e en 1889\u00a0; elle a trois \u00e9tages.",
    "No lo s\u00e9.",
    "The passages do not say who built it, only that it was completed in 1889.",
)


def _plain(text):
    return text


def _after_thinking(text):
    return f"<think>\nWas it 1925? No.\n</think>\n\n{text}"


def _with_space_around(text):
    return f"\n  {text} \n\n"


def _with_windows_lines(text):
    return text.replace("\n", "\r\n") + "\r\n"


def _with_an_offer(text):
    return f"Sure!\n\n{text}\n\nLet me know if you need anything else\u2026"


DRESSES = (
    _plain,
    _after_thinking,
    _with_space_around,
    _with_windows_lines,
    _with_an_offer,
)


def answer_forms():
    """All seventy texts, no two alike."""
    texts = [dress(body) for body in BODIES for dress in DRESSES]
    return list(dict.fromkeys(texts))


def failing_judge(question, evidence, claim):
    """A judge whose service is down."""
    raise OSError("the judge is down")


def judge_named(name):
    """A judge that supports everything, contradicts everything, or fails."""
    from judging import quoting

    return failing_judge if name == "fails" else quoting(name)


JUDGES = ("supported", "contradicted", "fails")


def let_model_judge(monkeypatch):
    """A fixture: the judge by default is the model at hand, as in the product."""
    for_model = classmethod(lambda cls, llm=None: cls(llm and LLMJudge(llm)))
    monkeypatch.setattr(Groundedness, "for_model", for_model)


def writer_and_judge(text):
    """A model that writes the text, and says of each of its units that it is supported."""

    def reply(messages):
        prompt = messages[-1].content
        if TASK not in prompt:
            return text
        units = dict(enclosed(prompt)[0])["answer"].splitlines()
        lines = [f"{unit.partition(':')[0]} supported 1.1" for unit in units]
        return "\n".join([*lines, "answers"])

    return reply
