"""Reading passages: every kind of file, and every kind of file that is not one."""

import json
import os
import sys
from pathlib import Path

import pytest
from command_line import text_stream
from hostile_files import pdf_bytes, write_docx
from hypothesis import example, given, settings
from hypothesis import strategies as st
from json_files import write_json_lines
from laws import check_tiling

from denoise_core import InputError, Passage
from denoise_core.cli.read import is_html, read_answer, read_passages
from denoise_core.errors import MissingExtra
from denoise_core.text.structural import chunk_text, structural_chunker


def write(folder, name, *lines):
    return str(write_json_lines(folder / name, *lines))


def ids_of(reading):
    return [passage.id for passage in reading.passages]


def texts_of(reading):
    return [passage.text for passage in reading.passages]


def test_json_lines_keep_their_id_and_all_other_fields(tmp_path):
    full = {"text": "one", "id": 7, "title": "T", "score": 0.5, "url": "u"}
    source = write(tmp_path, "a.jsonl", full, "", {"text": ""})
    metadata = {"title": "T", "score": 0.5, "url": "u"}
    assert read_passages(source).passages == (
        Passage("one", "7", metadata=metadata),
        Passage("", "passage-1"),
    )


def test_a_folder_gives_all_its_texts_in_order_and_says_what_it_left_out(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    write(tmp_path, "b.md", "# Head", "A sentence. " * 300)
    write(tmp_path, "sub/c.txt", "Text.")
    write(tmp_path, "a.jsonl", {"text": "x " * 2000})
    write(tmp_path, "tickets.csv", "id,what", "1,lamp", "2,door")
    write(tmp_path, ".git/config", "hidden")
    (tmp_path / "sub/blob.bin").write_bytes(b"\x89PNG\0\0\1")
    reading = read_passages(str(tmp_path))
    assert ids_of(reading) == [
        "passage-0",
        "b.md",
        "sub/c.txt",
        "tickets.csv",
    ]
    for passage in reading.passages:
        check_tiling(passage, structural_chunker(passage))
    (warning,) = reading.warnings
    assert "blob.bin' as text: it has a NUL byte" in warning


def test_a_folder_may_be_a_thousand_deep(tmp_path):
    (tmp_path / "top.txt").touch()
    folder = tmp_path
    for _ in range(1100):
        folder /= "f"
        folder.mkdir()
    write(folder, "deep.txt", "Below.")
    assert texts_of(read_passages(str(tmp_path))) == ["Below.\n"]
    (folder / "deep.txt").unlink()
    os.removedirs(folder)  # what pytest removes folders with is recursive


def test_records_with_a_text_are_passages_and_any_other_json_or_csv_is_one_file(
    tmp_path,
):
    lines = ("id,text,score,place", '7,"One, two",0.5,Lund', "8,Three,,")
    one, two = read_passages(write(tmp_path, "a.csv", *lines)).passages
    metadata = {"score": "0.5", "place": "Lund"}
    assert one == Passage("One, two", "7", metadata=metadata)
    assert (two.text, two.metadata) == ("Three", {})
    records = '[{"text": "one", "format": "prose", "file": 7}, {"text": "two"}]'
    (tmp_path / "a.json").write_text(records)
    one, two = read_passages(str(tmp_path / "a.json")).passages
    assert one.metadata == {"format": "prose", "file": 7}
    assert not is_html(one)
    for name, text in {
        "b.csv": "code,item,price\nA,lamp,3\nB,door,4\n",
        "b.json": '{"results": [{"id": 1}, {"id": 2}]}',
        "c.json": '[{"id": 1}, {"id": 2}]',
        "b.jsonl": '{"id": 1}\n{"id": 2}\n',
    }.items():
        (tmp_path / name).write_text(text)
        (passage,) = read_passages(str(tmp_path / name)).passages
        assert (passage.text, passage.id) == (text, name)
        assert chunk_text(text).text_format == name.partition(".")[2]


@pytest.mark.parametrize(
    ("coding", "told"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-16", "UTF-16"),
        ("latin-1", "cp1252"),
    ],
)
def test_any_coding_is_read_and_told_where_it_is_not_utf_8(tmp_path, coding, told):
    text = "Das Café öffnet um neun.\r\nEs schließt um zehn.\rSo war es.\n"
    (tmp_path / "a.txt").write_bytes(text.encode(coding))
    reading = read_passages(str(tmp_path / "a.txt"))
    assert reading.passages[0].text == text
    assert len(reading.warnings) == bool(told)
    assert not told or told in reading.warnings[0]


def test_standard_input_is_json_lines_or_text(monkeypatch):
    for text, expected in (
        ('{"text": "one"}\n{"text": "two"}', ["one", "two"]),
        ("Just words.", ["Just words."]),
        ('{\n "total": 8\n}', ['{\n "total": 8\n}']),
        ("", []),
    ):
        monkeypatch.setattr("sys.stdin", text_stream(text))
        assert texts_of(read_passages("-")) == expected
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="it is closed"):
        read_passages("-")


@pytest.mark.parametrize(
    "answer",
    ['{\n "total": "8 euros."\n}', '{"text": "8", "note": "9."}', '[{"text": "8"}]'],
)
def test_an_answer_in_json_is_read_whole(monkeypatch, tmp_path, answer):
    (tmp_path / "answer.json").write_text(answer)
    assert read_answer(str(tmp_path / "answer.json"))[0] == answer
    monkeypatch.setattr("sys.stdin", text_stream(answer))
    assert read_answer("-")[0] == answer


BAD_LINES = [
    ("{oops", "line 2: not JSON"),
    ("[1]", "line 2: expected an object with a field 'text', found list"),
    ('{"txt": "x"}', "line 2: expected an object with a field 'text', found txt"),
    ('{"text": null, "id": "n"}', "line 2: passage 'n': expected its text as a str"),
    ('{"text": "x", "rank": NaN}', "line 2: not JSON"),
    ('{"text": "x", "n": 1e999}', "line 2: not JSON"),
    ('{"text": "x", "n": ' + "9" * 5000 + "}", "line 2: not JSON"),
    ("[" * 200_000, "line 2: not JSON"),
]


@pytest.mark.parametrize(("line", "message"), BAD_LINES, ids=range(len(BAD_LINES)))
def test_a_malformed_line_is_named_and_can_be_left_out(tmp_path, line, message):
    source = write(tmp_path, "a.jsonl", {"text": "one"}, line, {"text": "three"})
    with pytest.raises(InputError, match="--skip-bad") as caught:
        read_passages(source)
    assert message in str(caught.value)
    reading = read_passages(source, skip_bad=True)
    assert texts_of(reading) == ["one", "three"]
    assert message in reading.warnings[0]


def test_duplicate_ids_are_numbered_and_said(tmp_path):
    reading = read_passages(
        write(tmp_path, "a.jsonl", {"text": "1", "id": "a"}, {"text": "2", "id": "a"})
    )
    assert ids_of(reading) == ["a", "a#2"]
    assert reading.warnings[0].endswith("numbered: a")


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InputError, match="no such file or folder"):
        read_passages(str(tmp_path / "missing.txt"))
    with pytest.raises(InputError, match="no such file"):
        read_passages("words " * 200)  # a text in the place of a path
    folder, latin = str(tmp_path), tmp_path / "latin.txt"
    for content in (None, "é\0\0x"):
        if content:
            latin.write_bytes(content.encode("latin-1"))
        with pytest.raises(InputError, match="no files that can be read in the folder"):
            read_passages(folder)
    with pytest.raises(InputError, match="as text"):
        read_passages(str(latin))
    assert read_passages(str(latin), skip_bad=True).passages == ()


@given(st.lists(st.text(max_size=30), max_size=6))
@example(["line\u2028separator", "next\x85line", "\r\n"])
@settings(max_examples=25)
def test_any_text_survives_json_lines(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("read")
    lines = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
    source = write(folder, "a.jsonl", *lines)
    assert texts_of(read_passages(source)) == texts


def test_half_characters_are_replaced_and_said(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "hello \\ud83d x"}')
    reading = read_passages(str(path))
    assert reading.passages[0].text == "hello \ufffd x"
    assert "U+FFFD" in reading.warnings[0]


EMPTY_PDF = pdf_bytes("").replace(b"Tj", b"  ")


def test_html_is_read_as_it_stands_without_an_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "bs4", None)
    page = (
        "<html><head><script>a()</script></head><body><h1>The café</h1></body></html>"
    )
    (tmp_path / "a.html").write_text(page, "utf-8")
    (passage,) = read_passages(str(tmp_path)).passages
    assert passage.text == page


def test_pdf_and_docx_are_read_and_cut_like_prose(tmp_path):
    (tmp_path / "a.pdf").write_bytes(pdf_bytes(""))
    write_docx(tmp_path / "b.docx", "hyperlink", "https://tower.example")
    reading = read_passages(str(tmp_path))
    assert ids_of(reading) == ["a.pdf", "b.docx"]
    assert reading.passages[0].text == "The tower is old."
    assert reading.passages[1].text.startswith("# The tower\n\nThe tower is old.")
    for passage in reading.passages:
        check_tiling(passage, structural_chunker(passage))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.pdf", b"no pdf at all", "no pdf file that can be read"),
        ("a.pdf", EMPTY_PDF, "a scan needs OCR"),
        ("a.docx", b"no archive", "no docx file that can be read"),
    ],
)
def test_a_file_that_no_converter_reads_is_named_and_can_be_left_out(
    tmp_path, name, data, message
):
    bad, good = tmp_path / name, tmp_path / "b.txt"
    bad.write_bytes(data)
    good.write_text("Prose.")
    with pytest.raises(InputError, match=message):
        read_passages(str(bad))
    reading = read_passages(str(bad), str(good), skip_bad=True)
    assert ids_of(reading) == ["b.txt"]
    (warning,) = reading.warnings
    assert message in warning
    assert name in warning


def test_a_bad_file_of_a_folder_is_named_and_broken_json_is_text(tmp_path):
    (tmp_path / "bad.json").write_text('{"text": "abc", ')
    (tmp_path / "good.json").write_text("null")
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.4 nonsense")
    reading = read_passages(str(tmp_path))
    assert ids_of(reading) == ["bad.json", "good.json"]
    warnings = "\n".join(reading.warnings)
    assert "bad.json is not JSON; it was read as text" in warnings
    assert "good.json" not in warnings
    assert "left out: cannot read" in warnings


def test_without_the_extra_the_command_that_installs_it_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.pdf").write_bytes(pdf_bytes(""))
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(MissingExtra, match=r"rag-denoise\[documents\]"):
        read_passages(str(tmp_path), skip_bad=True)


def test_a_cell_of_any_length_and_old_line_ends_are_read(tmp_path):
    long_text = "A tower stands there. " * 10_000
    for content, texts in (
        (f"id,text\n1,{long_text}\n2,Bread.\n", [long_text, "Bread."]),
        ('id,text\r1,"One\rline"\r2,Two\r', ["One\rline", "Two"]),
    ):
        (tmp_path / "a.csv").write_bytes(content.encode())
        assert texts_of(read_passages(str(tmp_path / "a.csv"))) == texts


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders here")
def test_what_is_no_file_of_a_folder_is_not_waited_for_and_named(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "loop.txt").symlink_to(tmp_path / "loop.txt")
    (tmp_path / "closed").mkdir()
    write(tmp_path, "a.txt", "Prose.")
    for number in range(1_100):
        (tmp_path / f"link{number}").symlink_to(tmp_path.parent)
    listed = Path.iterdir

    def list_open(folder):  # as for a user who is not root
        if folder.name == "closed":
            raise PermissionError("no permission")
        return listed(folder)

    monkeypatch.setattr(Path, "iterdir", list_open)
    reading = read_passages(str(tmp_path))
    assert ids_of(reading) == ["a.txt"]
    said = " ".join(reading.warnings)
    for part in ("closed", "loop.txt", "pipe.txt", "1,103 parts were left out"):
        assert part in said
    assert "left out: 1,095 more: it is a link out of the folder" in said
    assert len(reading.warnings) == 10
