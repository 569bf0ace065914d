"""Examples in docstrings are shown as code: what stands from ``>>>`` to the next blank line is fenced."""

import re

from griffe import Extension, Object

EXAMPLE = re.compile(r"(?:^|(?<=\n))>>> .*?(?=\n\n|\Z)", re.S)


class Doctests(Extension):
    """An extension of griffe, which reads the docstrings for the reference."""

    def on_object(self, *, obj: Object, **others: object) -> None:
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(lambda m: f"```pycon\n{m[0]}\n```", obj.docstring.value)
