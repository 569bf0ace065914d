"""Reading passages: every kind of file, and every kind of file that is not one."""

import io
import json
import os
import sys
import zipfile

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laws import check_tiling

from denoise_core import InputError
from denoise_core.cli.read import read_passages
from denoise_core.errors import MissingExtra
from denoise_core.text.structural import chunk_text, structural_chunker


def write(folder, name, *lines):
    path = folder / name
    text = [
        line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)
        for line in lines
    ]
    path.write_text("\n".join(text) + "\n", encoding="utf-8", newline="\n")
    return str(path)


def test_json_lines_keep_id_title_score_and_the_rest(tmp_path):
    full = {"text": "one", "id": 7, "title": "T", "score": 0.5, "url": "u"}
    source = write(tmp_path, "a.jsonl", full, "", {"text": ""})
    one, empty = read_passages(source).passages
    assert (one.text, one.id, one.score, one.metadata) == (
        "one",
        "7",
        0.5,
        {"title": "T", "url": "u"},
    )
    assert (empty.text, empty.id) == ("", "passage-1")


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
    assert [p.id for p in reading.passages] == [
        "passage-0",
        "b.md",
        "sub/c.txt",
        "tickets.csv",
    ]
    for passage in reading.passages:
        check_tiling(passage, structural_chunker(passage))
    (warning,) = reading.warnings
    assert "blob.bin: no text that can be read" in warning


def test_records_with_a_text_are_passages_and_any_other_json_or_csv_is_one_file(
    tmp_path,
):
    rows = write(
        tmp_path, "a.csv", "id,text,score,place", '7,"One, two",0.5,Lund', "8,Three,,"
    )
    one, two = read_passages(rows).passages
    assert (one.text, one.id, one.score, one.metadata) == (
        "One, two",
        "7",
        0.5,
        {"place": "Lund"},
    )
    assert (two.text, two.score) == ("Three", None)
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
    ("coding", "seen_events"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-16", "UTF-16"),
        ("latin-1", "cp1252"),
    ],
)
def test_any_coding_is_read_and_told_where_it_is_not_utf_8(
    tmp_path, coding, seen_events
):
    text = "Das Café öffnet um neun.\r\nEs schließt um zehn.\rSo war es.\n"
    (tmp_path / "a.txt").write_bytes(text.encode(coding))
    reading = read_passages(str(tmp_path / "a.txt"))
    assert reading.passages[0].text == text
    assert (
        seen_events is None and not reading.warnings
    ) or seen_events in reading.warnings[0]


def test_an_empty_file_is_named(tmp_path):
    (tmp_path / "a.txt").write_text(" \n")
    reading = read_passages(str(tmp_path / "a.txt"))
    assert reading.passages == ()
    assert reading.warnings[0].endswith("a.txt is empty")


def test_standard_input_is_json_lines_or_text(monkeypatch):
    for text, expected in (
        ('{"text": "one"}\n{"text": "two"}', ["one", "two"]),
        ("Just words.", ["Just words."]),
        ("", []),
    ):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        assert [p.text for p in read_passages("-").passages] == expected


BAD_LINES = {
    "{oops": "line 2: not JSON",
    "[1]": "line 2: expected a JSON object, got list",
    '{"txt": "x"}': "line 2: expected a field 'text', found 'txt'",
    '{"text": null, "id": "n"}': "line 2: passage 'n': expected its text as a str, got NoneType",
    '{"text": "x", "score": "high"}': "line 2: expected 'score' as a number",
    '{"text": "x", "score": "nan"}': "line 2: expected 'score' as a number",
    '{"text": "x", "rank": NaN}': "line 2: not JSON",
    '{"text": "x", "n": 1e999}': "line 2: not usable JSON",
    '{"text": "x", "n": ' + "9" * 5000 + "}": "line 2: not usable JSON",
    "[" * 200_000: "line 2: not usable JSON: nested too deeply",
}


@pytest.mark.parametrize(
    ("line", "message"), BAD_LINES.items(), ids=range(len(BAD_LINES))
)
def test_a_malformed_line_is_named_and_can_be_left_out(tmp_path, line, message):
    source = write(tmp_path, "a.jsonl", {"text": "one"}, line, {"text": "three"})
    with pytest.raises(InputError, match="--skip-bad") as caught:
        read_passages(source)
    assert message in str(caught.value)
    reading = read_passages(source, skip_bad=True)
    assert [p.text for p in reading.passages] == ["one", "three"]
    assert message in reading.warnings[0]


def test_duplicate_ids_are_numbered_and_said(tmp_path):
    reading = read_passages(
        write(tmp_path, "a.jsonl", {"text": "1", "id": "a"}, {"text": "2", "id": "a"})
    )
    assert [p.id for p in reading.passages] == ["a", "a#2"]
    assert "'a'" in reading.warnings[0] or " a" in reading.warnings[0]


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InputError, match="no such file or folder"):
        read_passages(str(tmp_path / "missing.txt"))
    with pytest.raises(InputError, match="no files that can be read in the folder"):
        read_passages(str(tmp_path))
    (tmp_path / "latin.txt").write_bytes("é\0\0x".encode("latin-1"))
    with pytest.raises(InputError, match="no files that can be read in the folder"):
        read_passages(str(tmp_path))
    with pytest.raises(InputError, match="as text"):
        read_passages(str(tmp_path / "latin.txt"))
    assert read_passages(str(tmp_path / "latin.txt"), skip_bad=True).passages == ()


@given(st.lists(st.text(max_size=30), max_size=6))
@example(["line\u2028separator", "next\x85line", "\r\n"])
@settings(max_examples=25, deadline=None)
def test_any_text_survives_json_lines(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("read")
    source = write(folder, "a.jsonl", *({"text": t} for t in texts))
    assert [p.text for p in read_passages(source).passages] == texts


def test_a_json_array_and_a_field_called_format_are_records(tmp_path):
    (tmp_path / "a.json").write_text(
        json.dumps([{"text": "one " * 900, "format": "prose"}, {"text": "two"}])
    )
    reading = read_passages(str(tmp_path))
    assert [p.metadata for p in reading.passages] == [{"format": "prose"}, {}]


def test_half_characters_are_replaced_and_said(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "hello \\ud83d x"}')
    reading = read_passages(str(path))
    assert reading.passages[0].text == "hello \ufffd x"
    assert "U+FFFD" in reading.warnings[0]


def test_a_text_in_the_place_of_a_path_is_no_crash():
    with pytest.raises(InputError, match="no such file"):
        read_passages("words " * 200)


PAGE = (
    "<html><head><title>t</title><script>steal()</script></head><body><nav>Home</nav><h1>The tower</h1>"
    "<p>The café tower was <b>finished</b> in <a href='x'>1889</a>, snake_case.</p><ul><li>one</li></ul>"
    "<style>p {}</style></body></html>"
)


def pdf(text):
    """A PDF of one page that says ``text``."""
    drawn = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode() if text else b""
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn),
    ]
    out, places = b"%PDF-1.4\n", []
    for n, part in enumerate(parts, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (n, part)
    table = b"".join(b"%010d 00000 n \n" % at for at in places)
    end = b"trailer\n<< /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % len(out)
    return out + b"xref\n0 5\n0000000000 65535 f \n" + table + end


def docx(*paragraphs):
    """A Word file; a paragraph that begins with # is a heading."""
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    style = "<w:pPr><w:pStyle w:val='Heading1'/></w:pPr>"
    rows = "".join(
        f"<w:p>{style if p[0] == '#' else ''}<w:r><w:t>{p.lstrip('# ')}</w:t></w:r></w:p>"
        for p in paragraphs
    )
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    types = "http://schemas.openxmlformats.org/package/2006/content-types"
    relations = "http://schemas.openxmlformats.org/package/2006/relationships"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    files = {
        "[Content_Types].xml": f'<Types xmlns="{types}"><Override PartName="/word/document.xml" '
        f'ContentType="{kind}"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{relations}"><Relationship Id="r1" Type="{office}" '
        'Target="word/document.xml"/></Relationships>',
        "word/document.xml": f'<w:document xmlns:w="{space}"><w:body>{rows}</w:body></w:document>',
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


def test_html_is_read_as_it_stands_without_an_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "bs4", None)
    (tmp_path / "a.html").write_text(PAGE, "utf-8")
    (passage,) = read_passages(str(tmp_path)).passages
    assert passage.text == PAGE
    own_value = chunk_text(passage.text)
    reply_text = [
        own_value.chunk_context_and_text(p)
        for p in own_value.chunks
        if not p.is_structural
    ]
    assert (
        "The tower",
        "The café tower was finished in 1889, snake_case.",
    ) in reply_text
    assert not any(
        word in text
        for _, text in reply_text
        for word in ("steal", "Home", "p {}", "<")
    )


def test_pdf_and_docx_are_read_and_cut_like_prose(tmp_path):
    (tmp_path / "a.pdf").write_bytes(pdf("The tower was finished in 1889."))
    (tmp_path / "b.docx").write_bytes(
        docx("# The bridge", "It was opened in 1901.", "It is long.")
    )
    reading = read_passages(str(tmp_path))
    assert [p.id for p in reading.passages] == ["a.pdf", "b.docx"]
    assert reading.passages[0].text == "The tower was finished in 1889."
    assert reading.passages[1].text.startswith("# The bridge\n\nIt was opened in 1901.")
    for passage in reading.passages:
        check_tiling(passage, structural_chunker(passage))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.pdf", b"no pdf at all", "no pdf file that can be read"),
        ("a.pdf", pdf(""), "a scan needs OCR"),
        ("a.docx", b"no archive", "no docx file that can be read"),
    ],
)
def test_a_file_that_no_converter_reads_is_named_and_can_be_left_out(
    tmp_path, name, data, message
):
    (tmp_path / name).write_bytes(data)
    (tmp_path / "b.txt").write_text("Prose.")
    with pytest.raises(InputError, match=message):
        read_passages(str(tmp_path / name))
    reading = read_passages(
        str(tmp_path / name), str(tmp_path / "b.txt"), skip_bad=True
    )
    assert [p.id for p in reading.passages] == ["b.txt"]
    assert message in reading.warnings[0]
    reading = read_passages(str(tmp_path))
    assert [p.id for p in reading.passages] == ["b.txt"]
    (warning,) = reading.warnings
    assert message in warning
    assert name in warning


def test_bad_files_of_a_folder_are_named_and_counted_and_broken_json_is_text(tmp_path):
    (tmp_path / "bad.json").write_text('{"text": "abc", ')
    (tmp_path / "good.json").write_text("null")
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.4 nonsense")
    (tmp_path / "bad.docx").write_bytes(b"no archive")
    reading = read_passages(str(tmp_path))
    assert [p.id for p in reading.passages] == ["bad.json", "good.json"]
    warnings = "\n".join(reading.warnings)
    assert "bad.json is not JSON; it was read as text" in warnings
    assert "good.json" not in warnings
    assert "left out: cannot read" in warnings
    assert "2 parts were left out" in warnings


def test_without_the_extra_the_command_that_installs_it_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.pdf").write_bytes(pdf("x"))
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(MissingExtra, match=r"rag-denoise\[documents\]"):
        read_passages(str(tmp_path), skip_bad=True)


def test_a_cell_of_any_length_and_old_line_ends_are_read(tmp_path):
    long_text = "A tower stands there. " * 10_000
    write(tmp_path, "long.csv", "id,text", f"1,{long_text}", "2,Bread.")
    texts = [p.text for p in read_passages(str(tmp_path / "long.csv")).passages]
    assert texts == [long_text, "Bread."]
    (tmp_path / "mac.csv").write_bytes(b'id,text\r1,"One\rline"\r2,Two\r')
    texts = [p.text for p in read_passages(str(tmp_path / "mac.csv")).passages]
    assert texts == ["One\rline", "Two"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders here")
def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    write(tmp_path, "a.txt", "Prose.")
    assert [p.id for p in read_passages(str(tmp_path)).passages] == ["a.txt"]
