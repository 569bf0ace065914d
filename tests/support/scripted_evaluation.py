"""An evaluation by a served model whose answers are kept in a file: in this process, or in one to be killed."""

import json
import sys
from pathlib import Path

from denoise_core.evaluate.comparison import LLMAnswerer, ReplyLog, Strategy, evaluate
from denoise_core.evaluate.comparison.answering import llm_from_name

STRATEGIES = (
    Strategy("two", {"kind": "first", "tokens": 24}),
    Strategy("BM25", {"kind": "bm25", "tokens": 12}),
    Strategy("S2A", {"kind": "s2a", "variant": "select"}),
)


def evaluate_records(url, records, answers):
    """Return the figures, without the times, as JSON values; replies go on in the file ``answers``."""
    llm = ReplyLog(llm_from_name(f"{url}#scripted"), "scripted", answers)
    answerer = LLMAnswerer(llm, "scripted")
    evaluation = evaluate(records, STRATEGIES, answerer=answerer, llm=llm)
    figures = evaluation.to_dict()
    for strategy in figures["strategies"]:
        del strategy["seconds"]
    return json.loads(json.dumps(figures))


if __name__ == "__main__":
    url, records, answers = sys.argv[1:]
    evaluate_records(url, json.loads(records), Path(answers))
