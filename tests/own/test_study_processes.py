"""A study whose processes are killed, and one that many processes share."""

import json
import multiprocessing
import random
import time
from collections import Counter

import pandas as pd
import pytest
from support.study_worker import work

from jbt import own

LEASE = 0.3
"""Seconds; long against an ask, short against the test."""


@pytest.fixture(scope="module")
def processes():
    """Processes that start with jbt imported, from one that has no threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["jbt.own", "support.study_worker"])
    return context


def begin(folder, n, **settings):
    items = pd.DataFrame({"item": [f"m{i}" for i in range(n)], "text": "x"})
    return own.Study.open(folder, items, k=2, level=1.0, rule="round_robin", **settings)


def tells(folder):
    records = map(json.loads, (folder / "journal.jsonl").read_text().splitlines())
    return [record for record in records if record["event"] == "tell"]


def check(folder, noted):
    """Every answer that `tell` took is there, no query was told twice, no pair asked again after it
    was told."""
    told = tells(folder)
    ids = Counter(record["id"] for record in told)
    assert set(ids.values()) <= {1}
    assert noted <= set(ids)
    pairs = Counter((record["first"], record["second"]) for record in told)
    assert set(pairs.values()) <= {1}
    records = map(json.loads, (folder / "journal.jsonl").read_text().splitlines())
    answered = set()
    for record in records:
        pair = record.get("first"), record.get("second")
        assert not (record["event"] == "ask" and pair in answered)
        answered |= {pair} if record["event"] == "tell" else set()


@pytest.mark.heavy
@pytest.mark.parametrize(
    "kills", [8, pytest.param(200, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_killed_at_random_moments(tmp_path, processes, kills):
    folder, notes, moment = (tmp_path / name for name in ("study", "notes", "moment"))
    notes.touch()
    moment.touch()
    begin(folder, 40)
    waits, killed = random.Random(0), Counter()
    for _ in range(kills):
        size = (folder / "journal.jsonl").stat().st_size
        worker = processes.Process(
            target=work, args=(str(folder), str(notes), LEASE, 5.0, str(moment))
        )
        worker.start()
        while (folder / "journal.jsonl").stat().st_size == size and worker.is_alive():
            time.sleep(0.002)
        time.sleep(waits.uniform(0, 0.06))
        worker.kill()
        worker.join()
        killed[moment.read_text()] += 1
        check(folder, {int(line) for line in notes.read_text().split()})
    study = own.Study.open(folder)
    assert study.n_told == len(tells(folder))
    assert study.n_told >= len(notes.read_text().split()) > 0
    print("killed within an ask, a tell, between:", [killed[letter] for letter in "at-"])
    assert kills < 100 or min(killed[letter] for letter in "at-") > 0


@pytest.mark.heavy
def test_four_workers_share_a_study_to_its_end(tmp_path, processes):
    folder, n = tmp_path / "study", 9
    begin(folder, n)
    notes = [tmp_path / f"notes{i}" for i in range(4)]
    workers = [
        processes.Process(target=work, args=(str(folder), str(note), 60.0, 60.0)) for note in notes
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    noted = [{int(line) for line in note.read_text().split()} for note in notes]
    assert sum(map(len, noted)) == len(set().union(*noted)) == n * (n - 1)
    check(folder, set().union(*noted))
    study = own.Study.open(folder)
    assert study.stopped == "nothing left to ask"
    assert study.cost == pytest.approx(0.5 * n * (n - 1))
