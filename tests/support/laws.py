"""The laws of a result, written a second time and apart from what keeps them (`denoise_core.runtime.guard`)."""

from collections.abc import Sequence

from denoise_core import DenoiseResult, Passage, Span


def check_result(passages: Sequence[Passage], result: DenoiseResult) -> None:
    """The laws that can be read off one result: see `denoise_core.testing.check_denoiser`."""
    source = {p.id: p for p in passages}
    order = [p.id for p in passages]
    kept_ids = [p.id for p in result.passages]
    if not any(p.is_rewritten for p in result.passages):
        stay = set(kept_ids)
        assert kept_ids == [i for i in order if i in stay], (
            f"order changed: {order} became {kept_ids}"
        )
    for p in result.passages:
        if not p.is_rewritten:
            own = "".join(
                source[s.passage_id].text[s.start : s.end] for s in p.source_spans
            )
            assert p.text == own, (
                f"passage {p.id!r}: kept text {p.text!r} is not its source's {own!r}"
            )
    named = [s for p in result.passages for s in p.source_spans]
    named += [d.span for d in result.dropped] + [k.span for k in result.kept]
    unknown = sorted({s.passage_id for s in named} - set(source))
    assert not unknown, f"spans name passages that were not given: {unknown}"
    told: dict[str, list[Span]] = {i: [] for i in order}
    for s in [
        *(s for p in result.passages for s in p.source_spans),
        *(d.span for d in result.dropped),
    ]:
        told[s.passage_id].append(s)
    for p in passages:
        check_tiling(p, told[p.id])


def check_tiling(passage: Passage, spans: Sequence[Span]) -> None:
    """The spans cover every character of the passage once, without gap or overlap."""
    at = 0
    for span in sorted(spans, key=lambda s: (s.start, s.end)):
        assert span.start == at, (
            f"passage {passage.id!r}: gap or overlap at {at}, next span is {span}"
        )
        at = span.end
    assert at == len(passage.text), (
        f"passage {passage.id!r}: spans end at {at} of {len(passage.text)}"
    )
