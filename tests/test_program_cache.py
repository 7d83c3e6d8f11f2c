"""Kept programs: found again, and never in the way of a run."""

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from jbt import program_cache

PROGRAM = """
import json, os, resource, signal, sys, warnings
warnings.simplefilter("ignore")
if "LARGEST_FILE" in os.environ:  # as on a full disk
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limit = int(os.environ["LARGEST_FILE"])
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from jbt import program_cache, runtime
program_cache.MOST_BYTES = int(os.environ.get("MOST_BYTES", program_cache.MOST_BYTES))
runtime.start(cpu_devices=1)
import jax
import jax.numpy as jnp
events = []
jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
total = 0.0
for size in range(3, 3 + int(os.environ.get("PROGRAMS", 1))):
    total += float(jax.jit(lambda x: jnp.sin(x @ x.T).sum())(jnp.ones((size, size))))
hits, misses = (sum(n.endswith(f"cache_{w}") for n in events) for w in ("hits", "misses"))
print(json.dumps({"hits": hits, "misses": misses, "total": total}))
"""


def start(home: Path, **environment: str) -> subprocess.Popen[str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("JBT_CACHE", "XDG_CACHE_HOME")}
    command = [sys.executable, "-c", PROGRAM]
    settings = {**kept, "HOME": str(home), **environment}
    return subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, text=True)


def run(home: Path, **environment: str) -> dict[str, float]:
    process = start(home, **environment)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return json.loads(out)


def programs(home: Path) -> list[Path]:
    return sorted(home.rglob("*-cache"))


@pytest.fixture
def filled(tmp_path):
    """A home whose cache has one run's programs, and what the run printed."""
    result = run(tmp_path)
    assert result["hits"] == 0 < result["misses"] == len(programs(tmp_path))
    return tmp_path, result


@pytest.mark.heavy
def test_programs_are_found_again_unless_switched_off(filled):
    home, first = filled
    again = run(home)
    assert again == {**first, "hits": first["misses"], "misses": 0}
    folder = programs(home)[0].parent
    assert folder.stat().st_mode & 0o077 == 0  # whoever can write here can run code
    assert run(home, JBT_CACHE="off")["hits"] == 0
    assert run(home, JBT_CACHE=str(home / "elsewhere"))["hits"] == 0
    assert programs(home / "elsewhere")


@pytest.mark.heavy
def test_half_written_programs_change_nothing_and_are_made_anew(filled):
    home, first = filled
    cut, *_, emptied = programs(home)
    cut.write_bytes(cut.read_bytes()[:100])
    emptied.write_bytes(b"")
    assert run(home) == {**first, "hits": first["misses"] - 2, "misses": 2}
    assert run(home) == {**first, "hits": first["misses"], "misses": 0}


@pytest.mark.heavy
def test_a_folder_that_cannot_be_used_ends_no_run(tmp_path, filled):
    _, first = filled
    file = tmp_path / "file"
    file.write_text("not a folder")
    assert run(tmp_path, JBT_CACHE=str(file))["total"] == first["total"]
    assert run(Path("/proc/nobody"))["total"] == first["total"]
    full = tmp_path / "full"
    assert run(full, LARGEST_FILE="500")["total"] == first["total"]
    assert run(full)["total"] == first["total"]  # and the next one mends what was half written
    assert run(full) == {**first, "hits": first["misses"], "misses": 0}


@pytest.mark.heavy
def test_two_processes_may_use_one_folder_and_its_size_is_bounded(tmp_path):
    most = {"MOST_BYTES": "60000"}
    both = [start(tmp_path, PROGRAMS="30") for _ in range(2)]
    results = [json.loads(process.communicate(timeout=300)[0]) for process in both]
    assert results[0]["total"] == results[1]["total"]
    assert all(process.returncode == 0 for process in both)
    assert sum(file.stat().st_size for file in programs(tmp_path)) > 60_000
    assert run(tmp_path, **most)["total"]  # cuts them down at its start
    assert 0 < sum(file.stat().st_size for file in programs(tmp_path)) < 75_000


def test_folders_of_another_jaxlib_go_when_they_are_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(program_cache.jax.config, "update", lambda *_: None)
    old, recent = (tmp_path / f"jaxlib-0.{n}-abc" for n in (1, 2))
    for folder in (old, recent):
        folder.mkdir()
        (folder / "program-cache").write_text("")
    os.utime(old, (0, 0))
    mine = program_cache.keep(tmp_path)
    assert mine is not None
    assert not old.exists()
    assert (recent / "program-cache").exists()  # perhaps in use, so not tidied either
    monkeypatch.setattr(program_cache, "processor", lambda: "another")
    assert program_cache.keep(tmp_path) not in (None, mine)


def test_the_least_recently_used_programs_go(tmp_path, monkeypatch):
    monkeypatch.setattr(program_cache.jax.config, "update", lambda *_: None)
    monkeypatch.setattr(program_cache, "MOST_BYTES", 110)  # two of three
    folder = program_cache.keep(tmp_path)
    for age, name in enumerate(("new", "middle", "old")):
        file = folder / f"{name}-cache"
        file.write_bytes(zlib.compress(bytes(40), 0))  # 51 bytes
        os.utime(file, (1e9 - age, 1e9 - age))
    (folder / "notes.txt").write_text("stays")
    program_cache.keep(tmp_path)
    assert {f.name for f in folder.iterdir() if f.name[0] != "."} == {
        *("new-cache", "middle-cache", "notes.txt"),
    }
