"""A worker on a study, in a process of its own, which notes what it asked and what `tell` took."""

import contextlib
import csv
import io
import json
import os
import time
from pathlib import Path


class Worker:
    """Notes of one worker: a line of JSON for every query that it got and every answer that `tell`
    took, on the disk before it goes on; and what it is at now, for the one who kills it."""

    def __init__(self, notes: str) -> None:
        self._notes = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._now = os.open(f"{notes}.now", os.O_WRONLY | os.O_CREAT)

    def note(self, **what: object) -> None:
        os.write(self._notes, (json.dumps(what) + "\n").encode())
        os.fsync(self._notes)

    @contextlib.contextmanager
    def at(self, letter: bytes):
        """Within an ask (a), a tell (t) or a look at the status (s), else between them (-)."""
        os.pwrite(self._now, letter, 0)
        try:
            yield
        finally:
            os.pwrite(self._now, b"-", 0)


class Library:
    """A study through `own.Study`, opened once."""

    def __init__(self, folder: str, notes: str) -> None:
        from jbt import own

        self._study = own.Study.open(folder)

    def ask(self, lease: float) -> list[tuple[int, list[str]]]:
        queries = self._study.ask(2, lease=lease)
        return [(query.id, [query.first, query.second]) for query in queries]

    def tell(self, query: int) -> str:
        """Empty, or why the answer was refused."""
        try:
            self._study.tell(query, "first", cost=0.5)
        except ValueError as error:
            return str(error)
        return ""

    def stopped(self) -> bool:
        return self._study.summary().stopped is not None


class Commands:
    """A study through `jbt ask`, `tell` and `status`."""

    def __init__(self, folder: str, notes: str) -> None:
        self._folder, self._notes = folder, notes

    def _run(self, *argv: str) -> tuple[int, str]:
        from jbt import cli

        shown = io.StringIO()
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            return cli.main(argv), shown.getvalue()

    def ask(self, lease: float) -> list[tuple[int, list[str]]]:
        out = f"{self._notes}.csv"
        Path(out).unlink(missing_ok=True)
        code, shown = self._run(
            "ask", self._folder, "--n", "2", "--lease", str(lease), "--out", out
        )
        assert code != 2, shown
        with Path(out).open(newline="") as file:
            return [(int(r["id"]), [r["first"], r["second"]]) for r in csv.DictReader(file)]

    def tell(self, query: int) -> str:
        answers = Path(f"{self._notes}.answers.csv")
        answers.write_text(f"id,winner,cost\n{query},first,0.5\n")
        code, shown = self._run("tell", self._folder, str(answers))
        return shown if code == 2 else ""

    def stopped(self) -> bool:
        code, shown = self._run("status", self._folder)
        assert code != 2, shown
        return code in (3, 4)


def work(folder: str, notes: str, lease: float, patience: float, by_command: bool = False) -> None:
    """Ask, tell, and look at the status, until nothing is left, or for so many seconds without a
    query."""
    from jbt import runtime

    runtime.start()
    worker, idle = Worker(notes), 0.0
    study = (Commands if by_command else Library)(folder, notes)
    while idle < patience:
        called = time.time()
        with worker.at(b"a"):
            queries = study.ask(lease)
        returned = time.time()
        for query, pair in queries:
            worker.note(asked=query, pair=pair, until=called + lease, at=returned)
        for query, _ in queries:
            with worker.at(b"t"):
                refused = study.tell(query)
            if not refused:
                worker.note(told=query)
            elif "told before" not in refused:  # its lease had ended
                raise ValueError(refused)
        if not queries:
            with worker.at(b"s"):
                if study.stopped():
                    return
            time.sleep(0.02)
            idle += 0.02
        elif queries[0][0] % 5 == 0:
            with worker.at(b"s"):
                study.stopped()
