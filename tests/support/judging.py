"""What several tests of judges share: a judge that is a function of words, a passage, and verdicts for it."""

from dataclasses import replace

from augmenter_doubles import next_outcome, scripted
from envelopes import enclosed

from denoise_core import Passage, run
from denoise_core.augmenter import WorkingMemory
from denoise_core.augmenter.utility import Groundedness, as_utility
from denoise_core.support.answers import parse_answer
from denoise_core.support.citation_marks import remove_citations
from denoise_core.support.cited_units import CitationJudge
from denoise_core.support.evidence import content_terms
from denoise_core.support.judging import (
    ABSTENTION,
    ABSTENTION_REASON,
    CONTRADICTED,
    AnswerVerdict,
    ClaimVerdict,
    FlowJudge,
    Quote,
)
from denoise_core.support.labels import LabelledEvidence, passage_header
from denoise_core.support.quoting import LLMJudge, unit_prompt
from denoise_core.testing import FunctionLLM
from denoise_core.text.facts import find_differences
from denoise_core.types import Span

TEXT = (
    "Aaron Galindo plays for C.D. Toledo. The club was founded in 1928 and does not play at home on Mondays. "
    "It has 5,300 seats."
)


class WordForWord(FlowJudge):
    """A judge for tests of what is done with verdicts: a claim is supported when one passage has all its words."""

    def flow(self, question, claims, passages):
        words = " ".join(claim.text for claim in claims).strip(".").casefold()
        if words == "unknown":
            return AnswerVerdict(kind=ABSTENTION, reason=ABSTENTION_REASON)
        return AnswerVerdict.of_claims(
            [self.one(question, c, passages) for c in claims]
        )
        yield

    def one(self, question, claim, passages):
        text = remove_citations(
            claim.full_text.rpartition(": ")[2]
            if claim.kind == "field"
            else claim.full_text
        )
        claim_terms = content_terms(text, "en") - content_terms(
            question, "en"
        ) or content_terms(text, "en")
        passage_terms = [
            content_terms(f"{passage_header(p)}\n{p.text}", "en") for p in passages
        ]
        best = max(
            range(len(passages)), key=lambda n: len(claim_terms & passage_terms[n])
        )
        passage = passages[best]
        quote = Quote(Span(passage.id, 0, len(passage.text)), passage.text)
        verdict = ClaimVerdict(claim.text, claim.start, claim.end, True, None, (quote,))
        if claim_terms and claim_terms <= passage_terms[best]:
            return verdict
        differs = find_differences(text, f"{passage_header(passage)}\n{passage.text}")
        # The wrong year contradicts; a word that is nowhere is only not stated.
        kind = CONTRADICTED if differs else "unsupported"
        return replace(
            verdict,
            supported=False,
            differences=differs,
            kind=kind,
            reason="it stands in no passage",
        )


def by_words(**options):
    return Groundedness(judge=WordForWord(), **options)


def memory(*texts, question="When was the club founded?"):
    return WorkingMemory(
        question,
        tuple(Passage(text_item, f"e{n}") for n, text_item in enumerate(texts)),
    )


def judged(candidate, *texts, utility=None):
    """The verdict on ``candidate`` given ``texts``; that of `by_words` if no utility is named."""
    return run(as_utility(utility or by_words()).assess(memory(*texts), candidate))[0]


def quoting(*verdicts):
    """A model that judges by units: all units of an answer get one of these verdicts, in turn, the last for ever.

    It names every sentence of the first piece of evidence."""
    remaining_verdicts = list(verdicts)

    def reply(messages):
        verdict = next_outcome(remaining_verdicts)
        shown_texts = dict(enclosed(messages[-1].content)[0])
        labels = [
            line.split()[0] for line in shown_texts["evidence 1"].splitlines() if line
        ]
        if verdict not in ("supported", "contradicted"):
            labels = []
        lines = [
            " ".join((line.partition(":")[0], verdict, *labels))
            for line in shown_texts["answer"].splitlines()
        ]
        return "\n".join([*lines, "answers"])

    return FunctionLLM(reply)


def replying(*replies):
    """The judge of the product, whose model gives these replies in turn, the last for ever."""
    return LLMJudge(scripted(*replies))


def judge_prompt(question, answer, passages):
    """The messages to the judge about an answer that one call judges."""
    passage_ids = [passage.id for passage in passages]
    units = parse_answer(answer, question, ids=passage_ids).shown_units
    return unit_prompt(question, units, LabelledEvidence(passages))


def citation_judge(prompts):
    """Supports each unit that it is asked about, and notes the prompts."""

    def reply(messages):
        prompts.append(messages[-1].content)
        return "1 supported 1.1\n2 supported 1.2\nanswers"

    return CitationJudge(FunctionLLM(reply))


def let_words_judge(monkeypatch):
    """Where no judge is named, `by_words`: such tests are of what is done with verdicts."""
    monkeypatch.setattr(
        Groundedness, "for_model", classmethod(lambda cls, llm=None: by_words())
    )
