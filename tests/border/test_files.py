"""Files whole or not at all."""

import errno
import os

import pytest

from jbt.border import files


def test_a_failed_write_leaves_what_was_there_and_names_the_file(tmp_path):
    target = tmp_path / "table.csv"
    target.write_text("before")

    def full(path):
        path.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(ValueError, match=r"cannot write .*table.csv: No space left on device"):
        files.write_whole(target, full)
    assert [p.name for p in tmp_path.iterdir()] == ["table.csv"]
    assert target.read_text() == "before"


def test_files_that_belong_together_are_all_there_or_none(tmp_path):
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("before")

    def full(path):
        path.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(ValueError, match=r"cannot write .*two.csv: No space left on device"):
        files.write_together(
            {one: lambda path: path.write_text("after"), two: full}, overwrite=True
        )
    assert [p.name for p in tmp_path.iterdir()] == ["one.csv"]
    assert one.read_text() == "before"
    writes = {p: lambda path: path.write_text("after") for p in (one, two)}
    files.write_together(writes, overwrite=True)
    assert (one.read_text(), two.read_text()) == ("after", "after")
    assert len(list(tmp_path.iterdir())) == 2


def test_what_a_killed_write_leaves_goes_with_the_next(tmp_path):
    """And nothing else: other files may begin with a point and digits."""
    killed = tmp_path / ".4711.out.json"
    others = [tmp_path / name for name in (".2026.notes", ".4711.my.out.json", ".x.out.json")]
    for file in (killed, *others):
        file.write_text("")
    files.write_text(tmp_path / "out.json", "{}\n")
    assert killed.exists()  # somebody may be writing it
    for file in (killed, *others):
        os.utime(file, (0, 0))
    files.write_text(tmp_path / "out.json", "{}\n", overwrite=True)
    assert not killed.exists()
    assert all(file.exists() for file in others)


@pytest.mark.parametrize("quick", [files.write_text, lambda p, t: files.write_together({p: t})])
def test_who_writes_a_file_at_the_same_time_takes_nothing_away(tmp_path, quick):
    target = tmp_path / "report.md"
    text = "quick" if quick is files.write_text else lambda path: path.write_text("quick")

    def slow(path):
        path.write_text("slow")
        quick(target, text)
        assert target.read_text() == "quick"

    files.write_together({target: slow})
    assert target.read_text() == "slow"
    assert len(list(tmp_path.iterdir())) == 1
