"""What options of the command may be."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Method(StrEnum):
    """How passages are scored or selected."""

    end = "end"
    s2a_select = "s2a-select"
    bm25 = "bm25"
    embedding = "embedding"


class Shape(StrEnum):
    """What ``run`` prints."""

    view = "view"
    text = "text"
    json = "json"
    html = "html"


class Right(StrEnum):
    """When an answer is right."""

    contains = "contains"
    exact = "exact"
    judge = "judge"


class Engine(StrEnum):
    """Where bulk work runs."""

    process = "process"
    ray = "ray"


Workers = Annotated[int | None, typer.Option(min=1, help="How many compute; all cores, unless given.")]
