"""A save that is killed at any point leaves a whole folder or an error of ours, and the next one works."""

import json
import os
import subprocess
import sys

import pytest

# Each child saves over an old probe and kills itself at its nth touch of the file system.
PROGRAM = """
import json, os, signal, sys
import numpy as np
from pathlib import Path
from denoise_core import InputError
from denoise_core.end.probe import Probe, HiddenStateSpec
from denoise_core.local.fingerprint import ModelFingerprint

READING = HiddenStateSpec(ModelFingerprint("m", "llama", 3, "float32"), 1, "layout")
TOUCHES = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "os.scandir", "os.listdir"}

def save(bias, folder):
    Probe(np.full(3, bias, np.float32), float(bias), READING, {"n": bias}).save(folder)

def found(folder):
    try:
        probe = Probe.load(folder)
    except InputError:
        return "error of ours"
    assert probe.weight.tolist() == [probe.bias] * 3 and probe.card["n"] == probe.bias, "half a probe"
    return {1.0: "old", 2.0: "new"}[probe.bias]

root, states = Path(sys.argv[1]), []
for n in range(1, 200):
    folder = root / str(n) / "probe"
    folder.parent.mkdir()
    if sys.argv[2] == "over an old one":
        save(1, folder)
    child = os.fork()
    if child == 0:
        left = [n]
        def touched(event, arguments):
            if event in TOUCHES and any(str(folder.parent) in str(a) for a in arguments):
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(touched)
        save(2, folder)
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    state = found(folder)
    save(2, folder)
    assert found(folder) == "new"
    states.append(state)
    if ended == 0:
        break
    assert ended == -signal.SIGKILL
print(json.dumps(states))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("there", ["over an old one", "where nothing was"])
def test_a_save_that_is_killed_leaves_a_whole_probe_or_an_error_of_ours(
    tmp_path, there
):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path), there],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    states = json.loads(done.stdout)
    assert len(states) > 5  # killed at each of these points; the last one went through
    assert states[-1] == "new"
    if there == "over an old one":
        assert states[0] == "old"
        assert (
            states.count("error of ours") <= 1
        )  # between the two moves, and nowhere else
    else:
        assert states[0] == "error of ours"
