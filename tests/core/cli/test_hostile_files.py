"""Files that ask for a request, for code or for memory get none: `SECURITY.md` promises it."""

import json
from pathlib import Path

import hostile_files
from command_line import python_output

SCRIPT = Path(hostile_files.__file__)


def test_hostile_files_send_no_request_and_run_no_code(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    marker = tmp_path / "marker"
    file_count = hostile_files.write_hostile_files(folder, marker)
    assert file_count >= 200
    printed = python_output(SCRIPT, folder)
    report = json.loads(printed.splitlines()[-1])
    assert report["events"] == []
    assert report["files"] == file_count
    assert report["loaded"] == 0
    assert not marker.exists()
    assert report["megabytes"] < hostile_files.UNPACKED_BYTES / 2**20 / 2
