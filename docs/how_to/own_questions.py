"""Does it help on your questions: every way at equal tokens, and the setting to take, in a file.

The file has one JSON object a line: {"question": ..., "passages": [...], "answers": [...]}.
"""

import json
import sys
from pathlib import Path

from denoise_core import load_denoiser
from denoise_core.embedded import sample
from denoise_core.evaluate.trial import evaluate, read_cases

file = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("questions.jsonl")
if len(sys.argv) == 1:  # as an example, eight of the questions that ship
    lines = [
        {"question": q.text, "passages": [p.text for p in q.passages[:10]], "gold": [i for i in q.gold if i < 10]}
        for q in sample()
        if any(i < 10 for i in q.gold)
    ][:8]
    file.write_text("\n".join(json.dumps(line) for line in lines), "utf-8")

found = evaluate(read_cases(file))
found.save_setting("denoise.json")
found.save_page("report.html")
print(found)
print("written:", json.loads(Path("denoise.json").read_text("utf-8"))["denoiser"])
print("kept of two:", len(load_denoiser("denoise.json").denoise("Who wrote it?", []).passages))
