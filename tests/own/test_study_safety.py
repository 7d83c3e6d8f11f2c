"""What a study survives: locks, clocks, damage to its journal, forks, wrong answers."""

import errno
import json
import os
import random
import re
import threading
import time

import pandas as pd
import pytest

from jbt import own
from jbt.own.studies.journal import Journal

ITEMS = pd.DataFrame({"item": ["m0", "m1", "m2", "m3"], "text": "x"})
USUAL = {"rule": "round_robin", "level": 1.0}


def begin(folder):
    return own.Study.open(folder, ITEMS, **USUAL)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The folder of a study of six queries, four of them answered, an error among them."""
    study = begin(tmp_path_factory.mktemp("told"))
    for query in study.ask(6)[:4]:
        failed = {"error": "timeout"} if query.id == 2 else {"winner": "first", "cost": 0.25}
        study.tell(query.id, **failed, model="toy 1.0")
    return study.folder


@pytest.fixture
def copy(told, tmp_path):
    """A copy of that study that a test may damage."""
    for file in told.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def lines(folder):
    return (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)


def write(folder, lines):
    (folder / "journal.jsonl").write_bytes(b"".join(lines))


def refused(folder, message):
    with pytest.raises(ValueError, match=message):
        own.Study.open(folder)


def known(folder):
    """What a study knows: every answer, and what is awaited."""
    study = own.Study.open(folder)
    assert not study.notes
    return study.verdicts().fillna("").to_dict("records"), study.waiting, study.cost


# --- locks


@pytest.mark.heavy
@pytest.mark.parametrize("answer", ["another query", "the one that is chosen again"])
def test_an_answer_is_told_while_queries_are_chosen(tmp_path, monkeypatch, answer):
    """Choosing may take as long as compiling does: `tell` waits for nothing of it, and what was
    told meanwhile is not asked again."""
    study, again = begin(tmp_path), answer != "another query"
    (query,) = study.ask(lease=1e-3 if again else 600.0)
    time.sleep(0.01)
    choose = own.Study._choose

    def tell_meanwhile(self, n):
        chosen = choose(self, n)
        if self is study and not own.Study.open(tmp_path).n_told:
            other = own.Study.open(tmp_path)
            monkeypatch.setattr(other._journal.locks[".lock"], "timeout", 0)
            thread = threading.Thread(target=other.tell, args=(query.id, "first"))
            thread.start()
            thread.join()
        return chosen

    monkeypatch.setattr(own.Study, "_choose", tell_meanwhile)
    assert [new.id for new in study.ask()] == ([] if again else [query.id + 1])
    assert study.n_told == own.Study.open(tmp_path).n_told == 1


def test_threads_that_share_a_study(copy):
    study, errors = own.Study.open(copy), []

    def work():
        try:
            while queries := study.ask(2):
                for query in queries:
                    study.tell(query.id, "first")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert own.Study.open(copy).n_told == 10  # of 12, of which two are awaited


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:os.fork")
def test_a_study_inherited_by_a_fork_says_so(copy):
    study, before, note = own.Study.open(copy), lines(copy), copy / "note"
    if (child := os.fork()) == 0:
        try:
            study.tell(5, "first")
        except ValueError as error:
            note.write_text(str(error))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert "before the process forked: open it in the process that uses it" in note.read_text()
    assert lines(copy) == before


# --- clocks


def test_a_clock_that_ran_ahead_holds_no_pair(tmp_path, monkeypatch):
    study, now = begin(tmp_path), time.time()
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: now + 70 * 365 * 86_400)
        (query,) = study.ask()
    assert [again.id for again in own.Study.open(tmp_path).ask()] == [query.id]
    # Within what clocks of two machines differ by, a lease is a lease.
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: now + 200)
        (other,) = own.Study.open(tmp_path).ask()
    assert other.id != query.id
    assert own.Study.open(tmp_path).ask()[0].id not in (query.id, other.id)


# --- the journal


def test_every_flipped_bit_is_noticed(copy):
    """Every byte of three lines, one bit each; none changes in silence what is known."""
    whole, before = lines(copy), known(copy)
    start, end = (sum(map(len, whole[:n])) for n in (6, 9))
    for at in range(start, end):
        damaged = bytearray(b"".join(whole))
        damaged[at] ^= 1 << (at % 8)
        write(copy, [damaged])
        with pytest.raises(ValueError, match=r"journal.jsonl, line"):
            list(Journal(copy).news())
    write(copy, whole)
    assert known(copy) == before


def test_a_line_that_is_dropped_repeated_or_moved_is_noticed(copy):
    whole = lines(copy)
    for i in range(1, len(whole) - 1, 3):
        before, line, after = whole[:i], whole[i], whole[i + 1 :]
        moved = [*before, after[0], line, *after[1:]]
        for changed in ([*before, *after], [*before, line, line, *after], moved):
            write(copy, changed)
            refused(copy, r"was line \d+: lines are missing, repeated")


@pytest.mark.heavy
def test_a_kill_at_any_byte_of_the_last_write_loses_nothing_told(copy):
    own.Study.open(copy).tell(5, "second", cost=0.25, model="toy 1.0")
    *kept, last = lines(copy)
    # Every byte would do; each takes a while.
    for end in (0, *sorted(random.Random(0).sample(range(1, len(last) - 1), 4)), len(last) - 1):
        write(copy, [*kept, last[:end]])
        again = own.Study.open(copy)
        assert (again.n_told, again.waiting) == (3, 2)
        assert ["is left out: '{" in note for note in again.notes] == [True] * (end > 0)
        again.tell(5, "second", cost=0.25)
        assert all(map(json.loads, lines(copy)))
        assert own.Study.open(copy).n_told == 4
    assert (copy / "journal.damaged").read_bytes().count(b"\n") == 5


def test_an_edited_line_is_refused(copy):
    *rest, last = lines(copy)
    # It was told: to leave it out would lose the answer, and ask for it again.
    write(copy, [*rest, last.replace(b'"winner"', b"'winner\"")])
    refused(copy, f"line {len(rest) + 1} is no record: '{{")


def test_a_full_disk_leaves_what_was_told(copy, monkeypatch):
    study, before, write_bytes, left = own.Study.open(copy), lines(copy), os.write, [7]

    def seven_bytes(descriptor, data):
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        n = write_bytes(descriptor, data[: left[0]])
        left[0] -= n
        return n

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", seven_bytes)
        with pytest.raises(ValueError, match="No space left on device; it is as it was"):
            study.tell(5, "first")
    assert lines(copy) == before
    study.tell(5, "first")
    assert own.Study.open(copy).n_told == 4


def test_a_journal_without_checksums_is_read_and_goes_on_with_them(copy):
    before = known(copy)
    records = map(json.loads, lines(copy))
    old = [{k: v for k, v in r.items() if k not in ("line", "crc32", "lease")} for r in records]
    write(copy, [json.dumps(record).encode() + b"\n" for record in old])
    assert known(copy) == before
    own.Study.open(copy).tell(5, "second")
    assert own.Study.open(copy).n_told == len(before[0])
    # From then on none may lack them.
    write(copy, [*lines(copy), lines(copy)[1]])
    refused(copy, "its checksum does not fit")


# --- other settings, wrong answers


@pytest.mark.heavy
def test_other_settings_and_tables_are_refused(copy):
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    anytime = {"stop": "anytime", "repeats": "fresh", "budget": 400}
    for table, settings, message in (
        (None, {"k": 3, "orders": "rule"}, "other settings: k was 1, is 3; orders was 'both'"),
        # The rule follows from the stop.
        (ITEMS, anytime, r"(?s)^(?!.*rule was).*stop was 'posterior', is 'anytime'"),
        (ITEMS.assign(text="y"), USUAL, r"other items: \('m0', .* has changed"),
    ):
        with pytest.raises(ValueError, match=message):
            own.Study.open(copy, table, **settings)
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


def test_wrong_answers_change_nothing(copy):
    study, before = own.Study.open(copy), lines(copy)
    with pytest.raises(ValueError, match=r"told twice\nunknown id 7"):
        study.tell_all([{"id": i, "winner": "first"} for i in (5, 5, 7)])
    for lease in (0.0, float("nan"), 31 * 86_400.0):
        with pytest.raises(ValueError, match="lease must be above 0 and at most 2592000 s"):
            study.ask(lease=lease)
    assert (lines(copy), study.n_told) == (before, 3)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ('"id": 5, "winner": "first", "p_first": 1', "give one of"),
        ('"id": 5, "winner": "m99"', "winner is 'm99', allowed: first, second, tie"),
        ('"id": 5, "p_first": NaN', "p_first must lie in 0 to 1"),
        ('"id": 5, "winner": "tie", "time": 3', "time is the study's own"),
        ('"id": 5, "winner": "first", "cost": ' + "9" * 400, "cost must lie in 0 to 1e"),
        ('"id": 5, "winner": "first", "tokens": ' + "[" * 100_000, "line 1: "),
        ('"id": 5, "winner": "first", "winner": "second"', "'winner' is given twice"),
        ('"id": 5, "winner": "first", "note": "\\ud800"', "line 1: .*surrogates not allowed"),
        ('"winner": "first"', "line 1: no id of a query"),
    ],
    ids=range(9),
)
def test_answers_that_are_refused_by_name(copy, jbt, answer, message):
    (copy / "answers.jsonl").write_text(f"{{{answer}}}\n")
    before = lines(copy)
    assert re.search(message, jbt("tell", copy, copy / "answers.jsonl", code=2))
    assert lines(copy) == before


def test_the_folder_is_synced_where_a_journal_begins(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("jbt.border.files.sync_folder", synced.append)
    begin(tmp_path / "new")
    assert set(synced) == {tmp_path / "new"}
