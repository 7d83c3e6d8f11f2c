"""Kept programs: found again, and never in the way of a run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from jax._src import compilation_cache

from jbt import program_cache

PROGRAM = """
import json, warnings
warnings.simplefilter("error")
from jbt import runtime
runtime.start(cpu_devices=1)
import jax
import jax.numpy as jnp
events = []
jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
total = float(jax.jit(lambda x: jnp.sin(x @ x.T).sum())(jnp.ones((3, 3))))
hits, misses = (sum(n.endswith(f"cache_{w}") for n in events) for w in ("hits", "misses"))
print(json.dumps({"hits": hits, "misses": misses, "total": total}))
"""


def run(home: Path, *, problems: int = 0, **environment: str) -> dict[str, float]:
    """What a run printed; it names a number of problems on stderr, a line each."""
    others = ("JBT_CACHE", "XDG_CACHE_HOME", "TF_CPP_MIN_LOG_LEVEL")
    kept = {k: v for k, v in os.environ.items() if k not in others}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**kept, "HOME": str(home), **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == problems, done.stderr
    return json.loads(done.stdout)


@pytest.mark.heavy
def test_programs_are_found_again_unless_switched_off(tmp_path):
    first = run(tmp_path)
    assert first["hits"] == 0 < first["misses"] == len([*tmp_path.rglob("*-cache")])
    assert run(tmp_path) == {**first, "hits": first["misses"], "misses": 0}
    assert run(tmp_path, JBT_CACHE="off")["hits"] == 0
    (tmp_path / "file").write_text("not a folder")
    unkept = run(tmp_path, JBT_CACHE=str(tmp_path / "file"), problems=1)
    assert unkept["total"] == first["total"]


@pytest.fixture
def keep(monkeypatch):
    """`program_cache.keep`, without an effect on this process."""
    monkeypatch.setattr(jax.config, "update", lambda *_: None)
    monkeypatch.setattr(compilation_cache, "_cache", compilation_cache._cache)
    return program_cache.keep


def test_unused_folders_go_only_if_jbt_made_them(tmp_path, keep, monkeypatch):
    root = tmp_path / "root"
    monkeypatch.setattr(program_cache, "processor", lambda: "0123456789ab")
    made = keep(root)
    monkeypatch.setattr(program_cache, "processor", lambda: "ba9876543210")
    keep(root)

    def copy(name: str, without: str = "") -> Path:
        folder = shutil.copytree(made, root / name, ignore=shutil.ignore_patterns(without))
        for path in (*folder.iterdir(), folder):
            os.utime(path, (0, 0))
        return folder

    old = copy("jaxlib-0.4.30+cuda12.cudnn91-0123456789ab")
    other = copy("jaxlib-0.2-0123456789ab", without=".*")
    keep(root)
    assert (old.exists(), other.exists(), made.exists()) == (False, True, True)


def a_link(folder):
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(folder.with_name("moved"))


def unmarked(folder):
    for file in folder.iterdir():
        file.unlink()
    (folder / "notes.txt").write_text("")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda folder: folder.chmod(0o720), "can be written by others (mode 0720)"),
        (a_link, "is a link"),
        (unmarked, "has files, but not the mark"),
    ],
)
def test_only_a_folder_that_nobody_else_can_change_is_used(tmp_path, keep, capsys, change, problem):
    folder = keep(tmp_path)
    change(folder)
    assert keep(tmp_path) is None
    assert f"{folder} {problem}" in capsys.readouterr().err


def test_another_users_folder_is_not_used(tmp_path, keep, capsys, monkeypatch):
    monkeypatch.delenv("JBT_CACHE")
    monkeypatch.setattr(program_cache, "user_folder", lambda: tmp_path / "jbt" / "programs")
    assert keep() is not None
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert keep() is None
    assert f"belongs to user {user}" in capsys.readouterr().err


def test_an_entry_is_read_only_as_it_was_written_and_under_its_name(tmp_path):
    kept = program_cache.Programs(tmp_path)
    kept.put("key", b"a program")
    file = tmp_path / "key-cache"
    entry = file.read_bytes()
    (tmp_path / "other-cache").write_bytes(entry)
    assert kept.get("key") == b"a program"
    assert kept.get("other") is None
    for place in range(len(entry)):
        file.write_bytes(entry[:place] + bytes([entry[place] ^ 1]) + entry[place + 1 :])
        assert kept.get("key") is None
    kept.put("key", b"a program")  # in place of the damaged one
    assert kept.get("key") == b"a program"
    file.chmod(0o620)
    assert kept.get("key") is None


def test_the_least_recently_used_programs_go(tmp_path, keep, monkeypatch):
    monkeypatch.setattr(program_cache, "MOST_BYTES", 110)  # two of three
    folder = keep(tmp_path)
    for age, name in enumerate(("new", "middle", "old")):
        file = folder / f"{name}-cache"
        file.write_bytes(bytes(51))
        os.utime(file, (1e9 - age, 1e9 - age))
    (folder / "notes.txt").write_text("stays")
    keep(tmp_path)
    names = {file.name for file in folder.iterdir() if file.name[0] != "."}
    assert names == {"new-cache", "middle-cache", "notes.txt"}


def test_what_is_made_is_closed_to_others_whatever_the_umask(tmp_path, keep):
    before = os.umask(0)
    try:
        programs = keep(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    for folder in (programs, programs.parent, programs.parent.parent):
        assert folder.stat().st_mode & 0o777 == 0o700
