"""Ask a judge of one's own for the verdicts that a rule wants, one batch after the other.

    study = Study.open("run/", "answers.csv", k=3, covariates=["words"], budget=300)
    while queries := study.ask(16):
        for query in queries:
            study.tell(query.id, winner=judge(*query.texts), cost=0.002)
    print(study.summary().report("My study").text())

Everything asked and told stands in a journal (`jbt.own.studies.journal`) and nowhere else: whoever
opens the folder, in this process or another, now or after a crash, reads the same study.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from jbt import __version__
from jbt.border import files
from jbt.own.choices import LEASE
from jbt.own.studies.book import LONGEST_LEASE, At, Book, Query
from jbt.own.studies.engine import Engine, Look
from jbt.own.studies.journal import APPENDING, ASKING, Journal, shown
from jbt.own.studies.report import StudySummary
from jbt.own.studies.settings import StudyItems, StudySettings
from jbt.own.tables.names import by_name
from jbt.own.tables.outcomes import WORDS, names_that_are_words
from jbt.own.tables.sheets import SHOWN, Table
from jbt.own.tables.tables import Tables
from jbt.types import Status, check_count

Stop = Literal["sure", "budget spent", "no more to gain", "nothing left to ask"]


class Study:
    """A study in a folder; make one with `open`."""

    book: Book
    """Everything asked and told, counted."""

    def __init__(self, folder: Path, **rule: Any) -> None:
        """Read a study that has begun; see `open`."""
        self.folder, self._journal, self._rule = folder, Journal(folder), rule
        self._thread = threading.RLock()  # threads that share a study take turns
        self._read()
        if "book" not in vars(self):
            raise ValueError(f"{self._journal.path} does not begin with the settings of a study")
        self.items, self.settings = self.book.items, self.book.settings
        self.notes: tuple[str, ...] = ()
        """What was found wrong with the journal, in sentences."""
        if torn := self._journal.torn:
            file = self._journal.path
            self.notes = (f"the last line of {file} cannot be read and is left out: {shown(torn)}",)

    @classmethod
    def open(
        cls,
        folder: Path | str,
        items: Table | None = None,
        *,
        anchors: Table | None = None,
        **settings: Any,
    ) -> Study:
        """Begin a study, or go on with one.

        Args:
          folder: of the study, made if need be.
          items: table of items: item, optional pool, content, text, and any covariates; a data
            frame or a file. May be left out where the study has begun.
          anchors: table of trusted pairs: better, worse, optional pool.
          settings: see `StudySettings`. `judges` may be a mapping name -> price; `rule` also an
            `acquisition.Rule` or a function, which has to be given whenever the study is opened.

        Raises:
          ValueError: a wrong table or setting; another table or setting than the study began with;
            the folder cannot be written to, or holds no study and no items are given.
        """
        folder = Path(folder)
        given, journal = StudySettings.of(settings), Journal(folder)
        begins = not journal.path.exists()
        if begins and items is None:
            raise ValueError(
                f"{folder} holds no study: jbt ask {shlex.quote(str(folder))} --items FILE, or "
                "Study.open with items, begins one"
            )
        tables = None if items is None else StudyItems.of(items, anchors, given)
        if begins and tables is not None:
            if words := names_that_are_words(tables.tables.items["item"]):
                raise ValueError(
                    f"items: {', '.join(map(repr, words[:SHOWN]))}: a word for who won "
                    f"({', '.join(WORDS)}) names no item of a study: rename it"
                )
            files.make_folder(folder)
            with journal.held(APPENDING):
                if not journal.path.exists():
                    tables.write(folder)
                    header = {"event": "study", "jbt": __version__, "settings": given.record()}
                    now = round(time.time(), 3)
                    journal.append([header | {"tables": tables.digests(), "time": now}])
        own_rule = {} if isinstance(given.rule, str) else {"rule": given.rule}
        study = cls(folder, **own_rule)
        before, now = study.settings.record(), given.record()
        if items is None:  # only settings that are named count
            before = {name: value for name, value in before.items() if name in settings}
        elif before["stop"] != now["stop"] and settings.get("rule") is None:
            del before["rule"]  # which follows from the stop
        differ = [
            f"{name} was {value!r}, is {now[name]!r}"
            for name, value in before.items()
            if value != now[name]
        ]
        if differ:
            hint = " (without the items, settings that are not named stay as they are)"
            raise ValueError(
                f"{folder} holds a study with other settings: {'; '.join(differ)}"
                + hint * (items is not None)
            )
        if tables is not None:
            study.items.check_same(tables, folder)
        return study

    # --- asking and telling

    def ask(self, n: int = 1, *, lease: float = LEASE) -> list[Query]:
        """The next queries, at most n; none when there is nothing to ask now (`stopped` and
        `waiting` say why).

        First come those whose lease has ended without an answer, then the other order of pairs that
        were shown in one, then the rule's picks, each taking those before it as asked. A pair is
        not asked again before it is answered, or its lease ends.

        Args:
          n: most queries (count).
          lease: seconds until a query that is not answered is asked again, at most 30 days.

        Raises:
          ValueError: an argument out of range; the journal cannot be written.
        """
        check_count("n", n)
        if not 0 < lease <= LONGEST_LEASE:
            raise ValueError(
                f"lease must be above 0 and at most {LONGEST_LEASE:.0f} s, got {lease!r}"
            )
        # Two locks: other asks wait while this one chooses, which takes as long as the rule does;
        # an answer waits only while records are appended.
        with self._thread:
            if "engine" not in vars(self):  # compile while other processes may ask
                self._read()
                self._choose(n)
            with self._journal.held(ASKING):
                self._read()
                again, new = self._choose(n)
                with self._journal.held(APPENDING):
                    self._read()  # what was told meanwhile
                    held = {"until": round(time.time() + lease, 3), "lease": lease}
                    records = [
                        {"event": "lease", "id": number, **held}
                        for number in again
                        if number in self.book.waiting
                    ]
                    for number, (at, picked) in enumerate(
                        new, max(self.book.queries, default=0) + 1
                    ):
                        record = {"event": "ask", "id": number, **self.book.named(at)}
                        records.append({**record, "picked": picked, **held})
                    self._append(records)
                    return [self.book.queries[record["id"]] for record in records]

    def _choose(self, n: int) -> tuple[list[int], list[tuple[At, bool]]]:
        """What to ask next, at most n: ids whose lease has ended, and new queries as
        `Engine.choose` has them."""
        if self.stopped:
            return [], []
        again = self.book.expired()[:n]
        return again, self.engine.choose(
            self.book, n - len(again), self._unsure(self.settings.level)
        )

    def tell(
        self,
        id: int,
        winner: str | None = None,
        *,
        p_first: float | None = None,
        error: str | None = None,
        cost: float | None = None,
        **facts: Any,
    ) -> None:
        """Tell the answer to a query. It is on the disk when this returns.

        Args:
          id: of the query; an answer may also come after its lease has ended.
          winner: first, second, tie or error, or the name of one of the two items.
          p_first: in place of a winner, the share that the first won (0 to 1).
          error: in place of a winner, why there is no verdict: the pair may be asked again.
          cost: what was paid, in the unit of the prices; default the judge's price, and 0 for an
            error.
          facts: further facts to keep, text or numbers: model version, tokens, prompt hash.

        Raises:
          ValueError: an unknown id, one that was told before, or another wrong argument; nothing is
            changed.
        """
        result = {"winner": winner, "p_first": p_first, "error": error, "cost": cost}
        self.tell_all([{"id": id, **result, **facts}])

    def tell_all(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """Tell many answers, all or none: mappings with the arguments of `tell`.

        Raises:
          ValueError: as `tell`, a line for each wrong answer.
        """
        with self._thread, self._journal.held(APPENDING):
            self._read()
            problems, records = [], {}
            for answer in answers:
                try:
                    record = self.book.answer(answer)
                    if record["id"] in records:
                        raise ValueError(f"query {record['id']} is told twice")
                except ValueError as problem:
                    problems.append(str(problem))
                else:
                    records[record["id"]] = record
            if problems:
                more = [f"... and {len(problems) - SHOWN} more"] * (len(problems) > SHOWN)
                raise ValueError("\n".join(problems[:SHOWN] + more))
            self._append(list(records.values()))

    def run(
        self, judge: Callable[[Query], str | float | Mapping[str, Any]], *, at_once: int = 1
    ) -> None:
        """Ask a callback until there is nothing left to ask.

        Args:
          judge: returns the winner, the share that the first won, or the arguments of `tell`. If it
            raises an exception, that is told as an error.
          at_once: queries asked for together (count).
        """
        while queries := self.ask(at_once):
            for query in queries:
                try:
                    answer = judge(query)
                except Exception as error:  # the callback's, whatever it is
                    answer = {"error": f"{type(error).__name__}: {error}"}
                if not isinstance(answer, Mapping):
                    answer = {"winner" if isinstance(answer, str) else "p_first": answer}
                self.tell_all([{**answer, "id": query.id}])

    # --- where it stands

    def look(self, pool: int = 0) -> Look:
        """The fit of a pool, by its number, and how sure its top k is."""
        return self.engine.look(self.book, pool)

    def sure(self, level: float | None = None) -> bool:
        """Whether the top k of every pool is certain to this degree.

        The certainty is the posterior probability that the estimated top k is the true one, up to
        contents nearer than `indifferent`, on average over pools drawn from the prior. It may be
        looked at after every verdict. It takes the model for true: docs/study.md lists the
        assumptions, and `sweeps.stopping` measures how often such a top k is right.

        Args:
          level: above 0 and at most 1; default that of the study, and with `stop = anytime` no
            other.

        Raises:
          ValueError: a level out of range.
        """
        level = self.settings.level if level is None else level
        if self.settings.stop == "anytime" and level != self.settings.level:
            raise ValueError(f"stop = anytime has one level, {self.settings.level:g}")
        if not 0 < level <= 1:
            raise ValueError(f"level must be above 0 and at most 1, got {level!r}")
        return not self._unsure(level)

    def _unsure(self, level: float) -> list[int]:
        """Pools whose top k is not certain to this degree, in the order of their names."""
        pools = by_name(self.items.tables.pools).tolist()
        if self.settings.stop == "anytime":
            return [pool for pool in pools if not len(self.engine.shown(self.book, pool))]
        looks = [(pool, self.look(pool)) for pool in pools]
        return [
            pool
            for pool, look in looks
            if look.status != Status.CONVERGED or not look.certainty >= level
        ]

    @property
    def stopped(self) -> Stop | None:
        """Why nothing more is asked; None while there is something to ask, or answers are awaited
        (`waiting`)."""
        s, book = self.settings, self.book
        unsure = self._unsure(s.level)
        if not unsure:
            return "sure"
        if s.budget is not None and self.n_told >= s.budget:
            return "budget spent"
        if book.waiting:
            return None
        if not book.affordable().any():
            return "budget spent"
        if all(book.closed(pool).all() and not book.owed(pool) for pool in unsure):
            return "nothing left to ask"
        if s.least_gain and all(self.look(pool).attainable < s.least_gain for pool in unsure):
            return "no more to gain"
        return None

    @property
    def waiting(self) -> int:
        """Queries without an answer (count)."""
        return len(self.book.waiting)

    @property
    def n_told(self) -> int:
        """Verdicts told (count), errors not among them."""
        return int(self.book.n_told.sum())

    @property
    def n_errors(self) -> int:
        """Errors told (count)."""
        return len(self.book.answers) - self.n_told

    @property
    def cost(self) -> float:
        """What the answers have cost, in the unit of the prices."""
        return self.book.cost

    @cached_property
    def engine(self) -> Engine:
        """The programs, made when they are first needed."""
        return Engine(self.items)

    def verdicts(self) -> pd.DataFrame:
        """Everything answered as a verdicts table, errors among it, in the order told."""
        return self.book.verdicts()

    def tables(self) -> Tables:
        """Items, anchors and verdicts so far, for every analysis of `jbt.own`."""
        verdicts = self.verdicts()
        known = ["pool"] * ("pool" in self.items.rows)
        known += ["first", "second", "judge", "winner", "p_first"]
        return self.items.with_verdicts(verdicts[verdicts.columns.intersection(known, sort=False)])

    def history(self, points: int = 30) -> list[tuple[int, int, Look]]:
        """Each pool at up to so many of its refits: its number, how many of its verdicts had
        been told, and the fit of these."""
        book, every, looks = Book(self.items), self.settings.refit_every, []
        refits = {
            (pool, int(n) * every)
            for pool, n_told in enumerate(self.book.n_told)
            for n in np.linspace(0, n_told // every, points).round()
            if n
        }
        for record in self.book.records:
            pool = book.apply(record)
            at = pool, int(book.n_told[pool])
            if at in refits:
                refits.remove(at)
                looks.append((*at, self.engine.fit(book, pool)))
        return sorted(looks, key=itemgetter(0, 1))

    def summary(self) -> StudySummary:
        """Membership, ranking, what the verdicts identify, cost, and why the study stopped."""
        with self._thread:
            self._read()
            return StudySummary(self)

    # --- the journal

    def _append(self, records: list[dict[str, Any]]) -> None:
        if records:
            self._journal.append(records)
            self._read()

    def _read(self) -> None:
        """Count what was appended to the journal since, by any process."""
        for line, record in self._journal.news():
            where = f"{self._journal.path}, line {line}"
            try:
                if line > 1:
                    self.book.apply(record)
                elif record["event"] == "study":
                    self.book = Book(StudyItems.of_folder(self.folder, record, **self._rule))
            except KeyError as error:
                raise ValueError(f"{where} lacks or does not know {error}") from None
            except (TypeError, ValueError, OverflowError) as error:
                raise ValueError(f"{where}: {error}") from None
