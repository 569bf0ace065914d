"""Seventy answers in the forms in which models write: fourteen bodies, each in five dresses."""

from envelopes import enclosed

from denoise_core.augmenter.utility import Groundedness
from denoise_core.support.quoting import ANSWER_TASK, TASK, LLMJudge

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


DRESSES = (
    "{}",
    "<think>\nWas it 1925? No.\n</think>\n\n{}",
    "\n  {} \n\n",
    "Sure!\n\n{}\n\nLet me know if you need anything else\u2026",
)


def answer_forms():
    """All seventy texts, no two alike; the last ones have the line ends of Windows."""
    texts = [dress.format(body) for body in BODIES for dress in DRESSES]
    texts += [f"{body}\n".replace("\n", "\r\n") for body in BODIES]
    return list(dict.fromkeys(texts))


def failing_judge(question, evidence, claim):
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


def writer_and_judge(text, verdict="supported 1.1", kind="answers"):
    """A model that writes the text, says this of each of its units, and whether it answers."""

    def reply(messages):
        prompt = messages[-1].content
        if ANSWER_TASK in prompt:
            return kind
        if TASK not in prompt:
            return text
        units = dict(enclosed(prompt)[0])["answer"].splitlines()
        lines = [f"{unit.partition(':')[0]} {verdict}" for unit in units]
        return "\n".join([*lines, kind])

    return reply
