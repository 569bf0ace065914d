"""Does it help on your questions: every strategy at equal tokens, and the setting to take, in a file.

The file has one JSON object a line: {"question": ..., "passages": [...], "answers": [...]}.
"""

import json
import sys
from pathlib import Path

from denoise_core import load_denoiser
from denoise_core.embedded import sample_questions
from denoise_core.evaluate.comparison import evaluate, read_cases

file = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("questions.jsonl")
if len(sys.argv) == 1:  # as an example, eight of the questions that ship
    lines = [
        {"question": q.text, "passages": [{"id": p.id, "text": p.text} for p in q.passages], "gold": list(q.gold)}
        for q in sample_questions()[:8]
    ]
    file.write_text("\n".join(json.dumps(line) for line in lines), "utf-8")

found = evaluate(read_cases(file))
found.save_setting("denoise.json")
found.save_page("report.html")
print(found)
for difference in found.comparisons:
    print(difference)
print("written:", json.loads(Path("denoise.json").read_text("utf-8"))["denoiser"])
denoiser = load_denoiser("denoise.json")  # in your application: this line alone
