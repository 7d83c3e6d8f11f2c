"""Options that the commands on a user's own verdicts share."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from jbt import __version__, own
from jbt.border import files
from jbt.border.parsing import parse
from jbt.border.report import NAMES as REPORT
from jbt.border.report import Result, give
from jbt.experiments.declare import check_number
from jbt.own import Batch, Columns, Model, Position, Tables, Ties, Transform
from jbt.own.fits.judges import Judges
from jbt.own.tables.outcomes import Outcomes
from jbt.own.tables.tables import check_transform
from jbt.types import Prior

Options = TypeVar("Options", bound="TableOptions")


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options for reading a user's tables, inherited by the options of each command."""

    verdicts: Path
    """Table of verdicts: pool, first, second, and winner (first | second | tie | error, or the name
    of one of the two) or p_first (0 to 1); optional judge, count, order (shown | unknown). CSV, or
    Parquet with the extra judge-bt[parquet]."""
    items: Path | None = None
    """Table of items: pool, item, optional content, optional quality, any numeric covariate
    columns."""
    anchors: Path | None = None
    """Table of trusted labels: pairs whose order is known (pool, better, worse, or pool, first,
    second and better as an annotator fills it in), or items (pool, item, member, optional k)."""
    first: str = Columns.first
    """Column of the verdicts with the item shown first."""
    second: str = Columns.second
    """Column of the verdicts with the item shown second."""
    winner: str = Columns.winner
    """Column of the verdicts with the winner."""
    map: str | None = None
    """What the winner's codes mean, such as `[[A]]=first,[[B]]=second,C=tie`: first, second, tie,
    error, or the share that the first won. Default: first, second, tie, error, names of items."""
    scale: str | None = None
    """A winner that is a number: the end that says first, and the end that says second, such as
    1:7; between them the verdict is graded."""
    pool: str = Columns.pool
    """Column with the pool, in every table; tables without it have one pool, `all`."""
    judge_column: str = "judge"
    """Column of the verdicts with the judge; `none` takes all verdicts as one judge's."""
    judge: str | None = None
    """This judge only; default all judges, each separately."""
    covariates: tuple[str, ...] = ()
    """Columns of the items table that may bias the judge (space-separated)."""
    transform: Transform = "none"
    """Transformation of every covariate before standardising."""
    standardise: bool = True
    """Centre and scale covariates over the whole items table, so that c is in logits per
    standard deviation; else use them as they are, c in logits per unit."""
    content: str = "content"
    """Column of the items table that says which items share a quality; `none` unties them."""
    merge_pools: bool = False
    """Merge all pools into one, in which contents of one name share a quality."""
    ties: Ties = "half"
    """A tie counts as half a win for each, is dropped, or, in `jbt leaderboard` only, is an outcome
    of its own (davidson)."""
    position: Position = "auto"
    """Whether kappa is estimated; auto fixes it at 0 in pools where no pair was shown in both
    orders."""
    lam: float = 1.0
    """Prior precision of quality (1/logit^2)."""
    lam_b: float = 0.1
    """Prior precision of c and kappa (1/logit^2)."""
    json: Path | None = None
    """Write every number to this file."""
    out: Path | None = None
    """Write report.md, table.csv and figure.png to this folder."""
    overwrite: bool = False
    """Write over files that jbt did not make, or that were changed since."""
    verbose: bool = False
    """Print the details too: how to read the tables, what they rest on."""

    def check_outputs(self) -> None:
        """Raise `ValueError` where `json` or `out` cannot be written, or written over."""
        files.check_writable(self.json, overwrite=self.overwrite)
        files.check_folder(self.out, REPORT, overwrite=self.overwrite)
        if self.out is not None:
            files.check_apart(self.json, (self.out / name for name in REPORT))

    @classmethod
    def parse(cls: type[Options], argv: Sequence[str], command: str) -> Options:
        """The options of `jbt COMMAND`.

        Raises:
          ValueError: an output cannot be written, or written over.
        """
        options = parse(cls, argv, prog=f"jbt {command}")
        options.check_outputs()
        return options

    def read(self) -> Tables:
        """The tables.

        Raises:
          ValueError: see `own.read`; a covariate that cannot be transformed.
        """
        judges = None if self.judge_column.lower() == "none" else self.judge_column
        columns = Columns(self.first, self.second, self.winner, self.pool, judges)
        tables = own.read(
            self.verdicts,
            self.items,
            self.anchors,
            covariates=self.covariates,
            columns=columns,
            judge=self.judge,
            ties=self.ties,
            content=None if self.content.lower() == "none" else self.content,
            merge_pools=self.merge_pools,
            outcomes=Outcomes.of_options(self.map, self.scale),
        )
        check_transform(tables, self.covariates, self.transform)
        return tables

    def announce(self, tables: Tables) -> None:
        """Say on stderr what is under way, as compiling takes a while."""
        print(f"fitting {tables.counts['n_verdicts'].sum()} verdicts ...", file=sys.stderr)

    def batch(self, tables: Tables) -> Batch:
        """The tables as a batch, with the covariates asked for."""
        return Batch.of(tables, **self.fields_of_model())

    def fields_of_model(self) -> dict[str, Any]:
        """The fields of `own.Model`."""
        return {f.name: getattr(self, f.name) for f in fields(Model)}

    def prior(self) -> Prior:
        """The prior of the fits.

        Raises:
          ValueError: a precision is not valid.
        """
        check_number("lam", self.lam)
        check_number("lam_b", self.lam_b)
        return Prior(self.lam, self.lam_b)

    def lead(self, tables: Tables) -> list[str]:
        """The notes of a report: what was read, and what the tables do not support."""
        return [*tables.summary, *own.doctor(tables, self.typed()).headline()]

    def give(
        self,
        result: Result,
        title: str,
        lead: list[str],
        settings: Mapping[str, Any] | None = None,
        **in_report: Any,
    ) -> None:
        """Print a result, and write it where the options say.

        Args:
          lead: the notes of the report.
          settings: in place of the options' own in the JSON.
          in_report: what the result's `report` takes beside title and lead.
        """
        give(
            result,
            title,
            lead,
            settings={**self.settings(), **(settings or {})},
            json_file=self.json,
            folder=self.out,
            verbose=self.verbose,
            overwrite=self.overwrite,
            **in_report,
        )

    def typed(self) -> dict[str, Any]:
        """The options of this class that are not at their default: those that `own.doctor` puts
        into the commands it proposes."""
        about_output = ("json", "out", "overwrite", "verbose")
        shared = [f for f in fields(TableOptions) if f.name not in about_output]
        given = {f.name: getattr(self, f.name) for f in shared}
        return {f.name: given[f.name] for f in shared if given[f.name] != f.default}

    def settings(self) -> dict[str, Any]:
        """Every option for JSON, with precision and version."""
        settings = {k: str(v) if isinstance(v, Path) else v for k, v in asdict(self).items()}
        return {**settings, "dtype": "float64", "jbt": __version__}


@dataclass(frozen=True, kw_only=True)
class JointOptions(TableOptions):
    """Options of the commands that can fit all judges of a table together."""

    joint: bool = False
    """Besides each judge alone, fit all judges together, with common qualities and each judge's own
    c and kappa. Trusted pairs (--anchors) enter as verdicts of a judge `anchors`, without order and
    bias. `jbt fit` estimates each judge's discrimination if a reference or anchors are given;
    otherwise all are taken to be 1."""
    reference: str | None = None
    """In a joint fit, the judge whose c and kappa are taken to be 0."""

    def together(
        self, tables: Tables, discrimination: Mapping[str, float] | None = None
    ) -> tuple[Tables, Judges] | None:
        """The tables with the anchors among the verdicts, and their judges; None without --joint.

        Raises:
          ValueError: see `Judges.of` and `Tables.with_anchors`; options that need --joint.
        """
        if not self.joint:
            if self.reference is not None:
                raise ValueError("--reference needs a joint fit: add --joint")
            return None
        tables = tables.with_anchors()
        judges = Judges.of(tables, reference=self.reference, discrimination=discrimination)
        return tables, judges
