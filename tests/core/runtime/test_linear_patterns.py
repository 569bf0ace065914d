"""Every regular expression of the package takes time in proportion to its input; see `pumped_patterns`."""

import re

import pytest
from pumped_patterns import ALL, Found, parser, pumped


def test_patterns_are_found():
    assert len(ALL) > 60
    assert {"denoise_core.text", "denoise_core.s2a"} <= {
        ".".join(found.where.split(".")[:2]) for found in ALL
    }


@pytest.mark.skipif(parser is None, reason="needs the parser of re")
@pytest.mark.parametrize("found", ALL, ids=lambda found: found.where)
def test_a_pattern_is_linear(found):
    strings, problem = pumped(found)
    assert strings > 10
    assert not problem


BLANKS_READ_TWO_WAYS = (
    r"\d{1,6}(?:(?:[ \t]{0,3},[ \t]{0,3}\n?[ \t]{0,3}|[ \t]{1,3})\d{1,6}){0,4000}"
)


@pytest.mark.skipif(parser is None, reason="needs the parser of re")
@pytest.mark.parametrize(
    "pattern",
    [BLANKS_READ_TWO_WAYS, r"(?:word[, ]{1,2}[ ]?)*", r"(?:\w+\s?)+:", r"(?:a|a)*b"],
    ids=repr,
)
def test_a_pattern_whose_time_doubles_with_each_token_is_seen(pattern):
    """A blank after a comma was read as the comma's and as a separator: 24 numbers froze the process."""
    _, problem = pumped(Found("here", re.compile(pattern), frozenset({"fullmatch"})))
    assert problem
