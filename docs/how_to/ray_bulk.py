"""Many rows on a Ray cluster: RAY_ADDRESS names one, without it a local one is started."""

import json
from pathlib import Path

from denoise_core import default_denoiser
from denoise_core.service.bulk import bulk

texts = Path(__file__).with_name("handbook.txt").read_text("utf-8").split("\n\n")
questions = ["When does the bar close?", "Until when is breakfast served?", "What does a dog cost?"]
rows = [{"id": str(n), "query": q, "passages": texts} for n, q in enumerate(questions)]
rows.append({"id": "2", "query": "the same id again", "passages": []})

if __name__ == "__main__":
    Path("rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows), "utf-8")
    finished = bulk("rows.jsonl", "cleared.jsonl", default_denoiser(keep=1), engine="ray", workers=1)
    print(f"{finished.rows} rows, {finished.bad} bad")
    for line in sorted(Path("cleared.jsonl").read_text("utf-8").splitlines()):
        row = json.loads(line)
        print(row["id"], row["passages"][0]["text"].strip()[:60])
    print("bad:", json.loads(Path("cleared.jsonl.bad.jsonl").read_text("utf-8"))["reason"])
