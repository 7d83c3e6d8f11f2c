"""Everything that a table of verdicts supports, as one page: what it holds, who is best, who the
judge is, what the correction rests on, and with labels whether to correct.

    print(own.audit("verdicts.csv", "items.csv", covariates=["words"]).to_html())

Each part is what a command prints: `doctor`, `leaderboard` or `fit`, `judge`, `identify`, `gate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from jbt.border.page import Chapter, page
from jbt.border.report import Report, Result, Section
from jbt.own.examine.doctor import Checks, command_line, doctor
from jbt.own.examine.identify import identify
from jbt.own.fits.analysis import analyse
from jbt.own.fits.batch import Batch, Model
from jbt.own.gates.decide import gate
from jbt.own.gates.report import KEEP_OFF, Gate
from jbt.own.leaderboards.problem import merge_pools
from jbt.own.leaderboards.rank import leaderboard
from jbt.own.leaderboards.report import Leaderboards
from jbt.own.report_cards import ReportCards, report_card
from jbt.own.tables.sheets import Table
from jbt.own.tables.tables import Tables, read
from jbt.types import Prior

NO_RANKING = "none: a pool holds one comparison"

TOP = 3
"""Size of the top set that is named where there is one pool."""

OF_AUDIT = {
    "(--anchors)": "(--labels)",
    ": --items FILE --covariates words": " without texts or counts (--counts, --texts)",
}
"""What other commands' options are called here."""

OF_FITTED = ("identify", "gate")
"""Commands on the pools as they are fitted."""

UNTESTED = "Nothing here tests that: there are no trusted labels (--labels)"

NO_CORRECTION = "none: no covariate of the answers, such as their length, is known or can be fitted"

HEADINGS = {
    "leaderboard": "Who is best",
    "fit": "What each pool says",
    "judge": "Who the judge is",
    "identify": "What the correction rests on",
    "gate": "Whether to correct, by the labels",
    "doctor": "What the tables support",
}
"""What each command answers; parts of a page are in this order."""


@dataclass(frozen=True, eq=False)
class Part:
    """What one command found."""

    command: str
    line: str
    """Its command line."""
    result: Result | None
    report: Report
    """Without a result, the reason."""


@dataclass(frozen=True, eq=False)
class Audit:
    """The result of `jbt audit`."""

    title: str
    parts: list[Part]
    following: list[str]
    """Command lines to type next, the most useful first."""
    lead: Sequence[str] = ()
    """How the tables were read."""

    @property
    def answer(self) -> list[str]:
        """Who is best, who the judge is, and what the correction rests on, a line each."""
        said = {part.command: list(part.report.answer) for part in self.parts}
        for part in self.parts:
            if isinstance(part.result, Leaderboards) and (rests_on := part.result.rests_on()):
                said["identify"] = [rests_on, *([] if "gate" in said else [UNTESTED])]
            if isinstance(part.result, Gate):
                decided = "; ".join(part.result.decided())
                said["gate"] = [f"Whether to correct, by the labels: {decided}"]
                said.setdefault("leaderboard", []).extend(self._kept_off(part.result))
            if isinstance(part.result, ReportCards) and (first := part.result.first_shown()):
                said["judge"] = list(dict.fromkeys([*part.report.answer, first]))
        lines = {
            "Ranking": said.get("leaderboard") or said.get("fit") or [self._why_none()],
            "Judge": said["judge"],
            "Correction": [*said.get("identify", ()), *said.get("gate", ())] or [NO_CORRECTION],
        }
        answer = [f"{name}: {'. '.join(sentences)}" for name, sentences in lines.items()]
        for words, of_audit in OF_AUDIT.items():
            answer = [line.replace(words, of_audit) for line in answer]
        return answer

    def _kept_off(self, gate: Gate) -> Iterator[str]:
        """The uncorrected ranking of each judge where the correction moves it and is to be kept
        off."""
        decisions = gate.judges.fillna({"judge": ""}).set_index("judge")["decision"]
        boards = next((p.result for p in self.parts if isinstance(p.result, Leaderboards)), ())
        for board in boards:
            if decisions.get(board.judge or "") == KEEP_OFF and board.n_moved:
                whose = "" if board.judge is None else f" {board.judge}"
                best = board.best_uncorrected
                yield f"Labels do not support correcting{whose}; best without correction: {best}"

    def _why_none(self) -> str:
        """Why there is no ranking."""
        checks = next(part.result for part in self.parts if isinstance(part.result, Checks))
        links = [check.found for check in checks.checks if check.check == "connected_merged"]
        line = ", and ".join([NO_RANKING, *links])
        if any(check.found.endswith("rank places") for check in checks.checks):
            line += "; if they are models, jbt leaderboard ranks them"
        return line

    def report(self) -> Report:
        """All parts as one report."""
        sections = []
        for part in self.parts:
            lines = [*part.report.answer, f"printed by {part.line}"]
            sections.append(Section(HEADINGS[part.command], lines))
            sections += [s for s in part.report.sections if not s.detail]
        sections.append(Section("What to type next", self.following))
        return Report(self.title, self.lead, sections, answer=self.answer)

    def to_html(self) -> str:
        """One page that opens without a network."""
        chapters = [
            Chapter(
                HEADINGS[part.command],
                part.report,
                None if part.result is None or part.command == "doctor" else part.result.figure(),
                part.line,
                answered=part.command not in ("judge", "leaderboard"),
            )
            for part in self.parts
        ]
        after = [Section("What to type next", self.following)] if self.following else []
        read_as = Report(self.title, [], [*after, Section("How the tables were read", self.lead)])
        return page(self.title, self.answer, [*chapters, Chapter("Next", read_as)])

    def record(self) -> dict[str, Any]:
        """The content of the JSON file: what each command writes with --json."""
        records = {
            part.command: None if part.result is None else part.result.record()
            for part in self.parts
        }
        return {"answer": self.answer, "next": self.following, **records}


def audit(
    verdicts: Tables | Table,
    items: Table | None = None,
    anchors: Table | None = None,
    *,
    prior: Prior | None = None,
    options: Mapping[str, Any] | None = None,
    title: str = "Audit of these verdicts",
    lead: Sequence[str] = (),
    **model: Any,
) -> Audit:
    """Do all that the tables support, in order.

    Args:
      verdicts: a table, or tables that were read with the covariates.
      prior: default `Prior()`.
      options: those of the command lines, see `doctor`.
      lead: notes on how the tables came about.
      model: the fields of `own.Model`: covariates, transform, ...

    Raises:
      ValueError: see `read`; an argument is not allowed.
    """
    asked = Model(**{**model, "covariates": tuple(model.get("covariates", ()))})
    asked.check()
    prior = Prior() if prior is None else prior
    tables = verdicts
    if not isinstance(tables, Tables):
        tables = read(tables, items, anchors, covariates=asked.covariates)
    checks = doctor(tables, options)
    of_model = {f.name: getattr(asked, f.name) for f in fields(asked)}
    # What identifies and tests the c of a leaderboard is all pools merged.
    merges = checks.method == "leaderboard"
    fitted = merge_pools(tables) if merges else tables
    smallest = tables.items.groupby("pool")["content"].nunique().min()
    k = max(1, min(TOP, int(smallest) - 1)) if len(tables.pools) == 1 else 1
    work: dict[str, Callable[[], Result]] = {
        "leaderboard": lambda: leaderboard(tables, prior=prior, **of_model),
        "fit": lambda: analyse(Batch.of(tables, **of_model), k=k, prior=prior, spread=True),
        "judge": lambda: report_card(tables, asked.covariates),
        "identify": lambda: identify(Batch.of(fitted, **of_model), prior),
        "gate": lambda: gate(tables, Batch.of(fitted, **of_model), prior=prior),
        "doctor": lambda: checks,
    }
    labels = len(tables.anchors) + len(tables.members) > 0
    wanted = {checks.method, "judge", "doctor"}
    wanted |= {"identify"} if asked.covariates and checks.method != "judge" else set()
    wanted |= {"gate"} if asked.covariates and labels and checks.method != "judge" else set()
    given = dict(options or {"verdicts": "VERDICTS"})
    merging = dict(checks.merging) if merges else {}
    lines = {
        command: command_line(command, given | (merging if command in OF_FITTED else {}))
        for command in HEADINGS
        if command in wanted
    }
    notes = {"judge": checks.headline(("order",))}
    parts = [
        _part(command, line, work[command], notes.get(command, []))
        for command, line in lines.items()
    ]
    following = checks.advised()
    boards = [part.result for part in parts if isinstance(part.result, Leaderboards)]
    corrects = any(board.n_moved for found in boards for board in found) or not merges
    if asked.covariates and not labels and corrects:
        following.append(command_line("plan labels", given | merging))
    if len(tables.verdicts) and checks.method != "judge":
        plan = "plan prompts" if merges else "replay"
        following.append(command_line(plan, given))
    if checks.method == "judge" and len(tables.contents) == 2:
        following.append(command_line("leaderboard", given))
    return Audit(title, parts, list(dict.fromkeys(following)), [*tables.summary, *lead])


def _part(command: str, line: str, work: Callable[[], Result], notes: list[str]) -> Part:
    """The part of one command; what stops it is named in its place, and the others go on."""
    try:
        result = work()
        return Part(command, line, result, result.report(HEADINGS[command], notes))
    except (ValueError, MemoryError) as error:
        reason = Report(HEADINGS[command], [], [], answer=[f"Not done: {error}"])
        return Part(command, line, None, reason)
