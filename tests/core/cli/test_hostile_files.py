"""Files that ask for a request, for code or for memory get none: `SECURITY.md` promises it."""

import json
import subprocess
import sys
from pathlib import Path

import hostile_files

SCRIPT = Path(hostile_files.__file__)


def test_hostile_files_send_no_request_and_run_no_code(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    marker = tmp_path / "marker"
    file_count = hostile_files.write_hostile_files(folder, marker)
    assert file_count >= 200
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["events"] == []
    assert report["files"] == file_count
    assert report["loaded"] == 0
    assert not marker.exists()
    assert report["megabytes"] < hostile_files.UNPACKED_BYTES / 2**20 / 2
