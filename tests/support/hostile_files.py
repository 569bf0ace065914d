"""Files that ask a reader for a request, for code or for much memory; and a process that reads them and counts.

Run as a script: ``hostile_files.py FOLDER``. Its last line is JSON: what was asked of the system while the files
of the folder were read, and how many were.
"""

import json
import os
import pickle
import resource
import sys
import zipfile
from pathlib import Path

ADDRESSES = (
    "http://127.0.0.1:9/x",
    "https://hostile.invalid/x.js",
    "//127.0.0.1:9/share/x",
    "ftp://127.0.0.1:9/x",
    "file:///etc/hostname",
)
HTML_TAGS = (
    '<img src="{}">',
    '<script src="{}"></script>',
    '<link rel="stylesheet" href="{}">',
    '<iframe src="{}"></iframe>',
    '<object data="{}"></object>',
    '<meta http-equiv="refresh" content="0;url={}">',
    '<form action="{}"><input name="a"></form>',
    '<video src="{}" autoplay></video>',
    '<base href="{}"><img src="a.png">',
)
SVG_TAGS = (
    '<image href="{}"/>',
    '<use href="{}#a"/>',
    '<script href="{}"/>',
    '<style>@import url("{}");</style>',
    '<foreignObject><iframe src="{}"/></foreignObject>',
)
XML_TEXTS = (
    '<!DOCTYPE a [<!ENTITY b SYSTEM "{}">]><a>&b;</a>',
    '<!DOCTYPE a [<!ENTITY % b SYSTEM "{}"> %b;]><a>c</a>',
    '<!DOCTYPE a SYSTEM "{}"><a>c</a>',
    '<a xmlns:i="http://www.w3.org/2001/XInclude"><i:include href="{}"/></a>',
    '<?xml-stylesheet type="text/xsl" href="{}"?><a>c</a>',
)
TEXT_FORMS = (
    ("page{}.html", "<html><body><p>The tower is old.</p>{}</body></html>", HTML_TAGS),
    (
        "drawing{}.svg",
        '<svg xmlns="http://www.w3.org/2000/svg"><text>A tower.</text>{}</svg>',
        SVG_TAGS,
    ),
    ("entity{}.xml", "<?xml version='1.0'?>{}", XML_TEXTS),
)  # name, whole text, what stands in it
PDF_ACTIONS = (
    "/S /URI /URI ({})",
    "/S /Launch /F ({})",
    "/S /JavaScript /JS (app.launchURL\\('{}'\\))",
    "/S /SubmitForm /F ({})",
    "/S /GoToR /F ({}) /D [0 /Fit]",
)
DOCX_RELATIONS = (
    "image",
    "attachedTemplate",
    "hyperlink",
    "oleObject",
    "aFChunk",
    "frame",
)
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_CONTENT_TYPES = f"""<?xml version="1.0"?><Types xmlns="{_PACKAGE}/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/></Types>"""
_RELATIONS = f"""<?xml version="1.0"?>{{doctype}}<Relationships xmlns="{_PACKAGE}/relationships">
<Relationship Id="r1" Type="{_OFFICE}/relationships/{{kind}}" Target="{{target}}"{{mode}}/></Relationships>"""
_DOCUMENT = """<?xml version="1.0"?>{doctype}
<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"
 xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"
 xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"
 xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing">
<w:body><w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>The tower</w:t></w:r></w:p>
<w:p><w:hyperlink r:id="r1"><w:r><w:t>The tower is old.{entity}</w:t></w:r></w:hyperlink></w:p>
<w:p><w:r><w:drawing><wp:inline><a:graphic><a:graphicData><a:blip r:link="r1"/><a:blip r:embed="r1"/>
</a:graphicData></a:graphic></wp:inline></w:drawing></w:r></w:p>
<w:altChunk r:id="r1"/></w:body></w:document>"""
UNPACKED_BYTES = 2**29
_WATCHED = (
    "socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "urllib.", "ftplib.", "pickle.find_class",
)  # fmt: skip


class Payload:
    """Unpickled, it writes a file."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


def write_hostile_files(folder, marker):
    texts = {}
    for number, address in enumerate(ADDRESSES):
        texts.update(_texts_with(address, number))
        for kind in DOCX_RELATIONS:
            write_docx(folder / f"{kind}-{number}.docx", kind, address)
        for n, action in enumerate(PDF_ACTIONS):
            path = folder / f"action{n}-{number}.pdf"
            path.write_bytes(pdf_bytes(action.format(address)))
        doctype = f'<!DOCTYPE a [<!ENTITY b SYSTEM "{address}">]>'
        path = folder / f"entity-{number}.docx"
        write_docx(
            path,
            "image",
            address,
            doctype=doctype,
            entity="&b;",
        )
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    _write_pickles(folder, marker)
    _write_bombs(folder)
    _write_code(folder, marker)
    return sum(path.is_file() for path in folder.rglob("*"))


def _texts_with(address, number):
    texts = {}
    for name, form, bodies in TEXT_FORMS:
        for n, body in enumerate(bodies):
            file_name = name.format(f"{n}-{number}")
            texts[file_name] = form.format(body.format(address))
    texts[f"page-{number}.md"] = f"# Tower\n\n![it]({address}) [a]({address})\n"
    return texts


def write_docx(path, kind, target, doctype="", entity=""):
    """A heading, and a sentence that leads to the target."""
    mode = ' TargetMode="External"'
    relations = _RELATIONS.format(
        kind=kind,
        target=target,
        mode=mode,
        doctype=doctype,
    )
    main = _RELATIONS.format(
        kind="officeDocument", target="word/document.xml", mode="", doctype=""
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("[Content_Types].xml", _CONTENT_TYPES)
        package.writestr("_rels/.rels", main)
        package.writestr("word/_rels/document.xml.rels", relations)
        document = _DOCUMENT.format(doctype=doctype, entity=entity)
        package.writestr("word/document.xml", document)


def pdf_bytes(action):
    """One page with a text, which acts when it is opened and when it is clicked."""
    content = b"BT /F1 12 Tf 10 10 Td (The tower is old.) Tj ET"
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R /OpenAction << {action} >> >>".encode(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 99 99] /Contents 4 0 R /Annots [6 0 R]"
        b" /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        f"<< /Type /Annot /Subtype /Link /Rect [0 0 99 99] /A << {action} >> >>".encode(),
    ]
    written = b"%PDF-1.7\n"
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(written))
        written += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    table = b"xref\n0 7\n0000000000 65535 f \n" + table
    trailer = b"trailer << /Size 7 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % len(
        written
    )
    return written + table + trailer


def _write_pickles(folder, marker):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        pickled = pickle.dumps(Payload(marker), protocol)
        for suffix in ("pt", "pkl", "txt"):
            (folder / f"pickle{protocol}.{suffix}").write_bytes(pickled)
        with zipfile.ZipFile(folder / f"weights{protocol}.bin", "w") as archive:
            archive.writestr("archive/data.pkl", pickled)  # as torch.save writes


def _write_bombs(folder):
    """Files that unpack to a thousand times their size."""
    write_docx(folder / "bomb.docx", "image", "a.png")
    path = folder / "bomb.docx"
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as package,
        package.open("word/styles.xml", "w", force_zip64=True) as part,
    ):
        for _ in range(UNPACKED_BYTES >> 20):
            part.write(b" " * 2**20)
    laughs = '<!ENTITY a0 "ha">'
    for n in range(1, 10):
        laughs += f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">'
    doctype = f"<!DOCTYPE w [{laughs}]>"
    write_docx(folder / "laughs.docx", "image", "a.png", doctype=doctype, entity="&a9;")
    (folder / "laughs.xml").write_text(f"{doctype}<w>&a9;</w>")
    (folder / "deep.html").write_text("<div>" * 50_000)
    (folder / "deep.json").write_text("[" * 50_000)


def _write_code(folder, marker):
    """What names code to be run, where models and settings are read from too."""
    command = f"touch {marker}"
    template = (
        f"{{{{ ''.__class__.__mro__[1].__subclasses__() }}}}{{% set a = '{command}' %}}"
    )
    texts = {
        "code.md": f"```python\nimport os; os.system('{command}')\n```\n",
        "code.txt": template,
        "conftest.py": f"import os; os.system({command!r})\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    for name in ("AutoModel", "AutoTokenizer"):
        model_folder = folder / name
        model_folder.mkdir()
        source = f"from pathlib import Path\nPath({str(marker)!r}).write_text('ran')\n"
        (model_folder / "own.py").write_text(source)
        config = {"model_type": "own", "auto_map": {name: "own.Own"}}
        for file_name in ("config.json", "tokenizer_config.json", "denoise.json"):
            (model_folder / file_name).write_text(json.dumps(config))
        pickled = pickle.dumps(Payload(marker))
        (model_folder / "pytorch_model.bin").write_bytes(pickled)


def read_all(folder):
    """Read every file as the package's readers do; return what was counted."""
    from denoise_core import InputError
    from denoise_core.cli.read import read_passages
    from denoise_core.end import ENDDenoiser
    from denoise_core.report.context import ReportItem, render_page
    from denoise_core.scorers import BM25Scorer

    denoiser = ENDDenoiser(BM25Scorer(), keep=1, chunker="auto")
    before = _most_megabytes()
    events, file_count = [], 0
    sys.addaudithook(lambda name, _: name.startswith(_WATCHED) and events.append(name))
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        file_count += 1
        try:
            passages = read_passages(str(path), skip_bad=True).passages
        except InputError:
            continue
        if passages:
            item = ReportItem(passages, denoiser.denoise("Which tower?", passages))
            render_page([item], title="files")
    report = {"files": file_count, "megabytes": _most_megabytes() - before}
    report["loaded"] = _load_models(path for path in folder.iterdir() if path.is_dir())
    return {"events": events, **report}


def _most_megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _load_models(folders):
    """Load each folder as a model, a tokenizer and a denoiser; return how many were taken."""
    from denoise_core import InputError
    from denoise_core.cli.run import build_denoiser
    from denoise_core.local.loading import LoadOptions, load_model, load_tokenizer

    loaded = 0
    for folder in folders:
        loaders = (
            lambda path: load_model(path, load=LoadOptions()),
            load_tokenizer,
            lambda path: build_denoiser(str(path)),
        )
        for load in loaders:
            try:
                load(folder)
                loaded += 1
            except (InputError, OSError, ValueError, ImportError):
                continue
    return loaded


if __name__ == "__main__":
    sys.stdout.write(json.dumps(read_all(Path(sys.argv[1]))))
