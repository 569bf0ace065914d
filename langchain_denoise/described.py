"""Descriptions of fields from the docstrings under them, read when a JSON schema is asked for: at import that
takes longer than all the rest."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue


class Described(BaseModel):
    """A model whose JSON schema says what each field is."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        made = handler.resolve_ref_schema(handler(core_schema))
        for name, words in _said_of(cls).items():
            if name in made.get("properties", {}):
                made["properties"][name].setdefault("description", words)
        return made


@cache
def _said_of(kind: type) -> dict[str, str]:
    found: dict[str, str] = {}
    for base in (b for b in reversed(kind.__mro__) if b.__module__.startswith(__package__)):
        try:
            (made,) = ast.parse(dedent(inspect.getsource(base))).body
        except (OSError, TypeError):  # made at run time, or without its source
            continue
        for field, below in pairwise(made.body if isinstance(made, ast.ClassDef) else []):
            if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                found[ast.unparse(field.target)] = inspect.cleandoc(ast.literal_eval(below.value))
    return found
