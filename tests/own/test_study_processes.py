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

pytestmark = pytest.mark.heavy

LEASE = 2.0
"""Seconds; long against an ask, short against the test."""


@pytest.fixture(scope="module")
def processes():
    """Processes that start with jbt imported, from one that has no threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["jbt.cli", "jbt.own", "support.study_worker"])
    return context


def begin(folder, n, **settings):
    items = pd.DataFrame({"item": [f"m{i}" for i in range(n)], "text": "x"})
    return own.Study.open(folder, items, k=2, level=1.0, rule="round_robin", **settings)


def journal(folder):
    return whole_lines(folder / "journal.jsonl")


def whole_lines(path):
    """The records of a file of JSON lines, but for a last line that a killed writer left torn."""
    lines = path.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def noted(notes):
    return [record for note in notes for record in whole_lines(note)]


def check(folder, notes):
    """Every answer that `tell` took is there, no query was told twice, no pair asked again after it
    was told, none while another had it."""
    notes = noted(notes)  # before the journal, which may go on
    records = journal(folder)
    told = [record for record in records if record["event"] == "tell"]
    ids = Counter(record["id"] for record in told)
    assert set(ids.values()) <= {1}
    assert {note["told"] for note in notes if "told" in note} <= set(ids)
    assert set(Counter((record["first"], record["second"]) for record in told).values()) <= {1}
    answered = set()
    for record in records:
        pair = record.get("first"), record.get("second")
        assert not (record["event"] == "ask" and pair in answered)
        answered |= {pair} if record["event"] == "tell" else set()
    until: dict[tuple[str, ...], float] = {}
    for note in sorted((note for note in notes if "asked" in note), key=lambda note: note["at"]):
        pair = tuple(note["pair"])
        assert note["at"] >= until.get(pair, 0), f"asked twice: {note}"
        until[pair] = note["until"]


@pytest.mark.parametrize(
    ("kills", "n_items"), [(10, 50), pytest.param(200, 100, marks=pytest.mark.slow)]
)
def test_three_writers_killed_at_random_moments(tmp_path, processes, kills, n_items):
    folder, draw, killed = tmp_path / "study", random.Random(0), Counter()
    begin(folder, n_items)
    notes = [tmp_path / f"notes{i}" for i in range(3)]
    for note in notes:
        note.touch()
    before = [0, 0, 0]

    def start(i):
        before[i] = notes[i].stat().st_size
        arguments = str(folder), str(notes[i]), LEASE, 60.0, i > 0
        worker = processes.Process(target=work, args=arguments)
        worker.start()
        return worker

    workers = [start(i) for i in range(3)]
    now = [tmp_path / f"notes{i}.now" for i in range(3)]
    for _ in range(kills):
        i = draw.randrange(3)
        first_ask = draw.random() < 0.2  # else it has told something since it began
        while not (now[i].exists() and now[i].read_text()) or (
            not first_ask and notes[i].stat().st_size == before[i]
        ):
            assert workers[i].is_alive()
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.3))
        assert workers[i].is_alive()
        workers[i].kill()
        workers[i].join()
        killed[now[i].read_text()] += 1
        now[i].unlink()
        own.Study.open(folder)
        check(folder, notes)
        workers[i] = start(i)
    for worker in workers:
        worker.kill()
        worker.join()
    check(folder, notes)
    study = own.Study.open(folder)
    n_noted = sum("told" in note for note in noted(notes))
    assert study.n_told == sum(record["event"] == "tell" for record in journal(folder))
    assert study.n_told >= n_noted > 0
    print(f"killed within {dict(killed)}; {study.n_told} told, {n_noted} noted")
    assert kills < 100 or min(killed[letter] for letter in "at") > 0


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
    told = Counter(note["told"] for note in noted(notes) if "told" in note)
    assert set(told.values()) == {1}
    assert len(told) == n * (n - 1)
    check(folder, notes)
    study = own.Study.open(folder)
    assert study.stopped == "nothing left to ask"
    assert study.cost == pytest.approx(0.5 * n * (n - 1))
