"""The reader's model card, written from the record of its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from denoise_lab.training.abilities import HARD, Ability
from denoise_lab.training.curriculum import STAGES, Stage

_CARD = Path(__file__).parents[1] / "data" / "card.md"


def card(record: Mapping[str, Any], abilities: Sequence[Ability]) -> str:
    """Markdown with front matter. ``record`` is the run's ``progress.json``."""
    settings = record["settings"]
    rows = [
        f"| {a.task} | {a.exact / a.asked:.2f} | {low:.2f} to {high:.2f} | {a.first / a.asked:.2f} |"
        for a in abilities
        for low, high in [a.interval]
    ]
    stages = [
        f"| {s.name} | {_most(s, settings)} | {', '.join(sorted({f'{x.rows} x {x.length}' for x in s.lessons}))} |"
        for s in STAGES
    ]
    return _CARD.read_text("utf-8").format(
        **settings["shape"],
        tokens=record["tokens"],
        seed=settings["seed"],
        rate=settings["rate"],
        rate_anew=settings["rate_anew"],
        anew=_anew(settings),
        longest=max(x.length for s in STAGES for x in s.lessons),
        stages="\n".join(stages),
        asked=abilities[0].asked,
        facts=HARD.facts,
        prose=HARD.prose,
        abilities="\n".join(rows),
    )


def _anew(settings: Mapping[str, Any]) -> int:
    at: int = round(settings["anew"] * settings["tokens"])
    return at


def _most(stage: Stage, settings: Mapping[str, Any]) -> str:
    if stage.most:
        return f"{stage.most:,}"
    return f"the rest of {settings['tokens'] if stage is STAGES[-1] else _anew(settings):,}"
