"""Files whole or not at all; numbers as JSON."""

import errno
import json
import os

import numpy as np
import pandas as pd
import pytest

from jbt.border import files
from jbt.types import Status


def full(path):
    path.write_text("half")
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_files_that_belong_together_are_all_there_or_none(tmp_path):
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("before")
    with pytest.raises(ValueError, match=r"cannot write .*two.csv: No space left on device"):
        files.write_together({one: "after", two: full}, overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["one.csv"]
    assert one.read_text() == "before"


def test_what_a_killed_write_leaves_goes_with_the_next(tmp_path):
    """And nothing else: other files may begin with a point and digits."""
    killed = tmp_path / ".4711.out.json"
    others = [tmp_path / name for name in (".2026.notes", ".4711.my.out.json", ".x.out.json")]
    for file in (killed, *others):
        file.write_text("")
    files.write_whole(tmp_path / "out.json", "{}\n")
    assert killed.exists()  # somebody may be writing it
    for file in (killed, *others):
        os.utime(file, (0, 0))
    files.write_whole(tmp_path / "out.json", "{}\n")
    assert not killed.exists()
    assert all(file.exists() for file in others)


def test_what_is_undefined_or_infinite_is_null(tmp_path):
    rows = pd.DataFrame({"name": ["a", None], "x": [np.inf, 0.5], "n": [1, 2]})
    content = {"path": tmp_path, "rows": rows, "status": Status.FLAT, "one": np.float32(np.nan)}
    files.write_json(tmp_path / "out.json", content)
    assert json.loads((tmp_path / "out.json").read_text()) == {
        "path": str(tmp_path),
        "rows": [{"name": "a", "x": None, "n": 1}, {"name": None, "x": 0.5, "n": 2}],
        "status": "flat",
        "one": None,
    }


def test_who_writes_a_file_at_the_same_time_takes_nothing_away(tmp_path):
    target = tmp_path / "report.md"

    def slow(path):
        path.write_text("slow")
        files.write_together({target: "quick"})
        assert target.read_text() == "quick"

    files.write_together({target: slow})
    assert target.read_text() == "slow"
    assert len(list(tmp_path.iterdir())) == 1
