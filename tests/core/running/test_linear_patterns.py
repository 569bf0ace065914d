"""Every regular expression of the package takes time in proportion to its input; see `pumped_patterns`."""

import pytest
from pumped_patterns import ALL, UNREAD, parser, pumped


def test_patterns_are_found():
    assert len(ALL) > 60
    assert not [name for name in UNREAD if name.startswith("denoise_core")]
    assert {"denoise_core.text", "denoise_core.s2a"} <= {".".join(found.where.split(".")[:2]) for found in ALL}


@pytest.mark.skipif(parser is None, reason="needs the parser of re")
@pytest.mark.parametrize("found", ALL, ids=lambda found: found.where)
def test_a_pattern_is_linear(found):
    strings, problem = pumped(found)
    assert strings > 10
    assert not problem
