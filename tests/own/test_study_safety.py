"""What a study survives: locks, clocks, damage to its journal, forks."""

import json
import os
import re
import threading
import time
from contextlib import contextmanager

import pandas as pd
import pytest

from jbt import cli, own
from jbt.own.studies import study as studies
from jbt.own.studies.journal import Journal
from jbt.own.tables import limits
from jbt.own.tables.sheets import TableError
from jbt.simulation import memory


def begin(folder, n=4, **settings):
    items = pd.DataFrame({"item": [f"m{i}" for i in range(n)], "text": "x"})
    return own.Study.open(folder, items, rule="round_robin", level=1.0, **settings)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The journal of a study of six queries, four of them answered, an error among them."""
    folder = tmp_path_factory.mktemp("told")
    study = begin(folder)
    for query in study.ask(6)[:4]:
        if query.id == 2:
            study.tell(query.id, error="timeout")
        else:
            study.tell(query.id, "first", cost=0.25, model="toy 1.0")
    return folder


@pytest.fixture
def copy(told, tmp_path):
    """A copy of that study that a test may damage."""
    for file in told.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def known(folder):
    """What a study knows: every answer, and what is awaited."""
    study = own.Study.open(folder)
    assert not study.notes
    return study.verdicts().fillna("").to_dict("records"), study.waiting, study.cost


# --- locks


def test_an_answer_is_appended_while_a_query_is_chosen(tmp_path, monkeypatch):
    """What is chosen may take as long as compiling does: `tell` waits for nothing of it."""
    study = begin(tmp_path)
    (query,) = study.ask()
    choose, told = own.Study._choose, []

    def tell_meanwhile(self, n):
        chosen = choose(self, n)
        if not told:
            other = own.Study.open(tmp_path)
            monkeypatch.setattr(other._journal.locks[".lock"], "timeout", 0)
            thread = threading.Thread(target=other.tell, args=(query.id, "first"))
            thread.start()
            thread.join()
            told.append(query.id)
        return chosen

    monkeypatch.setattr(own.Study, "_choose", tell_meanwhile)
    (new,) = study.ask()
    assert new.id == query.id + 1
    assert study.n_told == 1
    assert own.Study.open(tmp_path).n_told == 1


def test_a_query_answered_while_it_is_chosen_again_is_not_asked_again(tmp_path, monkeypatch):
    study = begin(tmp_path)
    (query,) = study.ask(lease=1e-3)
    time.sleep(0.01)
    choose = own.Study._choose

    def tell_meanwhile(self, n):
        chosen = choose(self, n)
        if self is study and not own.Study.open(tmp_path).n_told:
            own.Study.open(tmp_path).tell(query.id, "first")
        return chosen

    monkeypatch.setattr(own.Study, "_choose", tell_meanwhile)
    assert study.ask() == []
    assert study.n_told == 1


def test_the_first_ask_compiles_while_another_process_asks(tmp_path, monkeypatch):
    held = []

    @contextmanager
    def lock(self, name):
        held.append(name)
        yield
        held.append("done")

    engine = studies.Engine

    def made(*args):
        held.append("compile")
        return engine(*args)

    monkeypatch.setattr(Journal, "held", lock)
    monkeypatch.setattr(studies, "Engine", made)
    assert len(begin(tmp_path).ask(2)) == 2
    assert held[2:] == ["compile", ".asking", ".lock", "done", "done"]


def test_threads_that_share_a_study(tmp_path):
    study, errors = begin(tmp_path, 6), []

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
    assert own.Study.open(tmp_path).n_told == 30


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:os.fork")
def test_a_study_inherited_by_a_fork_says_so(told, tmp_path):
    study = own.Study.open(told)
    before, note = (told / "journal.jsonl").read_bytes(), tmp_path / "note"
    if (child := os.fork()) == 0:
        try:
            study.tell(5, "first")
        except ValueError as error:
            note.write_text(str(error))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert "opened before the process forked: open it in the process that uses it" in (
        note.read_text()
    )
    assert (told / "journal.jsonl").read_bytes() == before


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


def test_a_lease_has_a_bound(told):
    study = own.Study.open(told)
    for lease in (0.0, -1.0, float("inf"), float("nan"), 31 * 86_400.0):
        with pytest.raises(ValueError, match="at most 2592000 s"):
            study.ask(lease=lease)


def test_nothing_to_ask_now_has_an_exit_status_of_its_own(tmp_path, capsys):
    begin(tmp_path, 2)
    run = ["ask", str(tmp_path), "--n", "4"]
    assert cli.main(run) == 0
    assert cli.main(run) == 5
    assert "2 answers awaited" in capsys.readouterr().err
    assert cli.main(["status", str(tmp_path)]) == 0
    answers = tmp_path / "answers.csv"
    answers.write_text("id,winner\n1,first\n2,second\n")
    assert cli.main(["tell", str(tmp_path), str(answers)]) == 4
    assert cli.main(run) == 4


# --- the journal


def test_every_flipped_bit_is_noticed(copy):
    """Every byte of three lines, one bit each; none changes in silence what is known."""
    path = copy / "journal.jsonl"
    whole, before = path.read_bytes(), known(copy)
    lines = whole.splitlines(keepends=True)
    start = sum(map(len, lines[:6]))
    journal = Journal(copy)
    for at in range(start, start + sum(map(len, lines[6:9]))):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << (at % 8)
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"journal.jsonl, line"):
            list(Journal(copy).news())
    path.write_bytes(whole)
    assert len(list(journal.news())) == len(lines)
    assert known(copy) == before


def test_a_line_that_is_dropped_repeated_or_moved_is_noticed(copy):
    path = copy / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for i in range(1, len(lines) - 1):
        for changed in (
            lines[:i] + lines[i + 1 :],
            lines[: i + 1] + lines[i:],
            [*lines[:i], lines[i + 1], lines[i], *lines[i + 2 :]],
        ):
            path.write_bytes(b"".join(changed))
            with pytest.raises(ValueError, match=r"was line \d+: lines are missing, repeated"):
                own.Study.open(copy)


def test_a_journal_without_checksums_is_read_and_goes_on_with_them(copy):
    path, before = copy / "journal.jsonl", known(copy)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    old = [{k: v for k, v in r.items() if k not in ("line", "crc32", "lease")} for r in records]
    path.write_text("".join(json.dumps(record) + "\n" for record in old))
    assert known(copy) == before
    study = own.Study.open(copy)
    study.tell(5, "second")
    lines = path.read_text().splitlines(keepends=True)
    assert json.loads(lines[-1])["line"] == len(lines)
    assert own.Study.open(copy).n_told == len(before[0])
    # From then on none may lack them.
    path.write_text("".join([*lines, json.dumps(old[-1]) + "\n"]))
    with pytest.raises(ValueError, match="its checksum does not fit"):
        own.Study.open(copy)


@pytest.mark.parametrize("gone", ["settings", "tables", "event"])
def test_a_header_without_a_key(copy, gone, capsys):
    path = copy / "journal.jsonl"
    header, *rest = path.read_text().splitlines(keepends=True)
    record = {k: v for k, v in json.loads(header).items() if k not in (gone, "line", "crc32")}
    path.write_text("".join([json.dumps(record) + "\n", *rest]))
    assert cli.main(["status", str(copy)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "journal.jsonl" in said


def test_the_folder_is_synced_where_a_journal_begins(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("jbt.border.files.sync_folder", synced.append)
    begin(tmp_path / "new")
    assert set(synced) == {tmp_path / "new"}


# --- answers


@pytest.mark.parametrize(
    "answer",
    [
        '{"id": 5, "winner": "first", "cost": ' + "9" * 400 + "}",
        '{"id": 5, "p_first": ' + "9" * 400 + "}",
        '{"id": ' + "9" * 400 + ', "winner": "first"}',
        '{"id": 5, "winner": "first", "tokens": ' + "[" * 100_000 + "}",
        '{"id": 5, "winner": "first", "tokens": ' + "9" * 5000 + "}",
    ],
    ids=["cost", "share", "id", "depth", "digits"],
)
def test_an_answer_that_no_number_or_stack_can_hold(copy, capsys, answer):
    file = copy / "answers.jsonl"
    file.write_text(answer + "\n")
    before = (copy / "journal.jsonl").read_bytes()
    assert cli.main(["tell", str(copy), str(file)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert (copy / "journal.jsonl").read_bytes() == before


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", ["answers.jsonl", "answers.csv"])
def test_answers_are_decoded_as_tables_are(copy, encoding, name):
    row = {"id": 5, "winner": "second", "note": "à côté"}
    text = json.dumps(row, ensure_ascii=False) + "\n"
    if name.endswith(".csv"):
        text = pd.DataFrame([row]).to_csv(index=False)
    (copy / name).write_text(text, encoding=encoding)
    assert cli.main(["tell", str(copy), str(copy / name)]) == 0
    assert own.Study.open(copy).verdicts().iloc[-1]["note"] == "à côté"


def test_a_whole_last_line_that_is_damaged_is_refused(copy):
    """It was told: to leave it out would lose the answer, and ask for it again."""
    journal = copy / "journal.jsonl"
    before = journal.read_bytes()
    *_, last = before.splitlines(keepends=True)
    journal.write_bytes(before.removesuffix(last) + last.replace(b'"winner"', b"'winner\""))
    with pytest.raises(ValueError, match="is no record"):
        own.Study.open(copy)
    journal.write_bytes(before[:-9])  # cut off while it was written
    assert own.Study.open(copy).notes


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": 5, "winner": "first", "winner": "second"}', "'winner' is given twice"),
        ('{"id": 5, "winner": "first", "note": "\\ud800"}', "line 1: .*surrogates not allowed"),
        ('{"winner": "first"}', "line 1: no id of a query"),
        ('{"id": 5, "winner": "first", "cost": 1e308}', "cost must lie in 0 to 1e"),
    ],
)
def test_answers_that_are_refused_by_name(line, message, copy, capsys):
    answers = copy / "answers.jsonl"
    answers.write_text(line + "\n")
    before = (copy / "journal.jsonl").read_bytes()
    assert cli.main(["tell", str(copy), str(answers)]) == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    assert re.search(message, error), error
    assert (copy / "journal.jsonl").read_bytes() == before


def test_a_study_too_large_for_the_memory_is_refused_before_it_begins(tmp_path, monkeypatch):
    """Counts of all ordered pairs are padded to the largest pool."""
    monkeypatch.setattr(limits, "SMALL", 0)
    monkeypatch.setattr(memory, "there_is", lambda device: 100)
    with pytest.raises(TableError, match="counts of 1 pools of up to 4 items and of 1 judges need"):
        begin(tmp_path)
    assert not list(tmp_path.iterdir())
