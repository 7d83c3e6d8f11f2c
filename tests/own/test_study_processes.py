"""A study whose processes are killed, and one that many processes share."""

import json
import multiprocessing
import random
import time
from collections import Counter

import pandas as pd
import pytest
from support.marks import nightly
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


def begin(folder, n):
    items = pd.DataFrame({"item": [f"m{i}" for i in range(n)], "text": "x"})
    own.Study.open(folder, items, k=2, level=1.0, rule="round_robin")
    return folder


def whole_lines(path):
    """The records of a file of JSON lines, but for a last line that a killed writer left torn."""
    lines = path.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def check(folder, notes):
    """Every answer that `tell` took is there, no query was told twice, no pair asked again after it
    was told, none while another had it. Returns the ids that were noted as told."""
    noted = [record for note in notes for record in whole_lines(note)]  # before the journal
    ids, answered, until = Counter(), Counter(), {}
    for record in whole_lines(folder / "journal.jsonl"):
        pair = record.get("first"), record.get("second")
        assert not (record["event"] == "ask" and pair in answered)
        if record["event"] == "tell":
            ids[record["id"]] += 1
            answered[pair] += 1
    assert {*ids.values(), *answered.values()} <= {1}
    told = [note["told"] for note in noted if "told" in note]
    assert {*told} <= {*ids}
    for note in sorted((note for note in noted if "asked" in note), key=lambda note: note["at"]):
        pair = tuple(note["pair"])
        assert note["at"] >= until.get(pair, 0), f"asked twice: {note}"
        until[pair] = note["until"]
    assert own.Study.open(folder).n_told >= len(ids)  # others may go on
    return told


@pytest.mark.parametrize(("kills", "n_items"), [(4, 50), nightly(200, 100)])
def test_three_writers_killed_at_random_moments(tmp_path, processes, kills, n_items):
    folder, draw = begin(tmp_path / "study", n_items), random.Random(0)
    notes = [tmp_path / f"notes{i}" for i in range(3)]

    def start(i):
        notes[i].touch()
        arguments = str(folder), str(notes[i]), LEASE, i > 0
        worker = processes.Process(target=work, args=arguments)
        worker.start()
        return worker

    workers = [start(i) for i in range(3)]
    for _ in range(kills):
        i = draw.randrange(3)
        before = notes[i].stat().st_size
        while notes[i].stat().st_size == before:  # it asks or tells now
            assert workers[i].is_alive()
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.3))
        assert workers[i].is_alive()
        workers[i].kill()
        workers[i].join()
        check(folder, notes)
        workers[i] = start(i)
    for worker in workers:
        worker.kill()
        worker.join()
    assert check(folder, notes)
    records = whole_lines(folder / "journal.jsonl")
    assert own.Study.open(folder).n_told == sum(r["event"] == "tell" for r in records)
