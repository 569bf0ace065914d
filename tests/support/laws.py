"""The laws of a result, written a second time and apart from what keeps them (`denoise_core.runtime.guard`)."""

from denoise_core import Passage

TWO_PASSAGES = (Passage("one", "a"), Passage("two", "b"))


def check_result(passages, result):
    """The laws that can be read off one result: see `denoise_core.testing.check_denoiser`."""
    source = {p.id: p for p in passages}
    kept_ids = [p.id for p in result.passages]
    if not any(p.is_rewritten for p in result.passages):
        assert kept_ids == [i for i in source if i in kept_ids], (
            f"order changed: {list(source)} became {kept_ids}"
        )
    for p in result.passages:
        if not p.is_rewritten:
            own = "".join(
                source[s.passage_id].text[s.start : s.end] for s in p.source_spans
            )
            assert p.text == own, (
                f"passage {p.id!r}: kept text {p.text!r} is not its source's {own!r}"
            )
    spans = [s for p in result.passages for s in p.source_spans]
    spans += [d.span for d in result.dropped]
    named = {s.passage_id for s in spans} | {k.span.passage_id for k in result.kept}
    unknown = sorted(named - source.keys())
    assert not unknown, f"spans name passages that were not given: {unknown}"
    for p in passages:
        check_tiling(p, [s for s in spans if s.passage_id == p.id])


def check_tiling(passage, spans):
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
