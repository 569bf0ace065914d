"""Pushing to and taking from a hub, against a local server that speaks the hub's endpoints over real HTTP.

The server is a stand-in: it keeps files in memory and takes small files in the commit itself, as the hub
does for text; large-file storage is not exercised here.
"""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
import yaml

from denoise_core import InputError
from denoise_core.end.fit.hub import from_hub, push_to_hub
from denoise_core.end.probe import Probe, Reading
from denoise_core.local.fingerprint import ModelFingerprint

pytestmark = pytest.mark.enable_socket


class Hub(ThreadingHTTPServer):
    """Repositories by name; each a list of commits, each a dict of files."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repos: dict[str, list[dict[str, bytes]]] = {}
        self.visibility: dict[str, str] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def files(self, repo: str, revision: str) -> dict[str, bytes]:
        commits = self.repos[repo]
        return commits[-1] if revision == "main" else commits[int(revision, 16) - 1]


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        path = urlsplit(self.path).path
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            known = name in self.server.repos
            self.server.repos.setdefault(name, [{}])
            self.server.visibility[name] = asked.get("visibility", "public")
            self.reply(409 if known else 200, {"url": f"{self.server.address}/{name}"})
        elif path == "/api/validate-yaml":
            yaml.safe_load(json.loads(body)["content"].split("---")[1])
            self.reply(200, {"errors": [], "warnings": []})
        elif "/preupload/" in path:
            given = [f["path"] for f in json.loads(body)["files"]]
            self.reply(
                200, {"files": [{"path": p, "uploadMode": "regular", "shouldIgnore": False} for p in given]}
            )
        elif "/commit/" in path:
            repo = path.removeprefix("/api/models/").partition("/commit/")[0]
            files = dict(self.server.files(repo, "main"))
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            self.server.repos[repo].append(files)
            oid = self.oid(repo)
            self.reply(200, {"commitUrl": f"{self.server.address}/{repo}/commit/{oid}", "commitOid": oid})
        else:
            self.reply(404, {})

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if path.startswith("/api/models/"):
            owner, name, what, revision = path.removeprefix("/api/models/").split("/")
            repo = f"{owner}/{name}"
            if repo not in self.server.repos:
                return self.reply(404, {}, {"X-Error-Code": "RepoNotFound"})
            files = self.server.files(repo, revision)
            sha = self.oid(repo) if revision == "main" else revision
            if what == "tree":
                oids = {n: hashlib.sha1(blob).hexdigest() for n, blob in files.items()}
                self.reply(
                    200,
                    [{"type": "file", "path": n, "size": len(files[n]), "oid": oid} for n, oid in oids.items()],
                )
            else:
                self.reply(200, {"id": repo, "sha": sha, "siblings": [{"rfilename": n} for n in files]})
        else:
            repo, _, rest = path.strip("/").partition("/resolve/")
            revision, _, name = rest.partition("/")
            blob = self.server.files(repo, revision)[name]
            self.reply(200, blob, {"ETag": hashlib.sha1(blob).hexdigest(), "X-Repo-Commit": revision})

    do_HEAD = do_GET

    def oid(self, repo: str) -> str:
        return f"{len(self.server.repos[repo]):040x}"

    def reply(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        blob = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-length": str(len(blob)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(blob)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def hub():
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def a_probe(bias=0.5) -> Probe:
    reading = Reading(ModelFingerprint("m", "llama", 4, "float32", weights="aa"), 2, "scq:1")
    return Probe(np.arange(4), bias, reading, 0.1, {"source": "made up"})


def test_a_pushed_probe_comes_back(hub, tmp_path):
    assert push_to_hub(a_probe(), "me/probe", endpoint=hub.address).endswith("/me/probe")
    assert hub.visibility == {"me/probe": "private"}
    assert set(hub.repos["me/probe"][-1]) == {"probe.safetensors", "probe.json", "README.md"}
    again = from_hub("me/probe", endpoint=hub.address, cache=tmp_path)
    assert again.weight.tolist() == [0, 1, 2, 3]
    assert (again.bias, again.reading, again.threshold) == (0.5, a_probe().reading, 0.1)
    assert again.card["source"] == "made up"


def test_pushing_again_updates_and_a_commit_pins(hub, tmp_path):
    push_to_hub(a_probe(), "me/probe", endpoint=hub.address)
    first = f"{len(hub.repos['me/probe']):040x}"
    push_to_hub(a_probe(bias=2.0), "me/probe", endpoint=hub.address)
    assert from_hub("me/probe", endpoint=hub.address, cache=tmp_path).bias == 2.0
    assert from_hub("me/probe", revision=first, endpoint=hub.address, cache=tmp_path / "other").bias == 0.5


def test_a_repository_of_something_else_is_a_clear_error(hub, tmp_path):
    hub.repos["me/model"] = [{"config.json": b"{}", "setup.py": b"raise SystemExit"}]
    with pytest.raises(InputError, match="me/model holds no probe"):
        from_hub("me/model", endpoint=hub.address, cache=tmp_path)


def test_only_the_files_of_a_probe_are_taken(hub, tmp_path):
    push_to_hub(a_probe(), "me/probe", endpoint=hub.address)
    hub.repos["me/probe"][-1]["evil.py"] = b"raise SystemExit"
    from_hub("me/probe", endpoint=hub.address, cache=tmp_path)
    assert list(tmp_path.rglob("probe.json"))
    assert not list(tmp_path.rglob("evil.py"))


def test_the_hubs_own_errors_come_through(hub, tmp_path):
    from huggingface_hub.errors import RepositoryNotFoundError

    with pytest.raises(RepositoryNotFoundError):
        from_hub("me/none", endpoint=hub.address, cache=tmp_path)
