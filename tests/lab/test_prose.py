"""Prose is cut from stories by a command, the same every time; and the package keeps what it was cut to."""

from denoise_lab.worlds.prose import PROSE, cut, main, prose

STORY = """It was a bright morning, and we had slept
well. Holmes rose.

"Come at once!" cried a voice from the street below us
"""


def test_sentences_end_at_stops_and_at_blank_lines_and_stand_on_one_line():
    assert cut([STORY]) == (
        "It was a bright morning, and we had slept well.",
        '"Come at once!" cried a voice from the street below us',
    )
    assert cut([STORY, "", STORY]) == cut([STORY]) * 2


def test_the_command_writes_the_same_file_every_time(tmp_path):
    story, first, second = tmp_path / "story.txt", tmp_path / "first.gz", tmp_path / "second.gz"
    story.write_text("\n\n".join(prose()[:50]), encoding="utf-8")
    for out in (first, second):
        main([str(story), "--out", str(out)])
    assert first.read_bytes() == second.read_bytes()
    assert PROSE.read_bytes()[:10] == first.read_bytes()[:10]  # no time of making in the header
