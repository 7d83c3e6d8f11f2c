"""Options that the commands on a user's own verdicts share.

Commands import what loads JAX or pandas where they use it, so that their help is shown at once.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import tyro

from jbt import own
from jbt.border.inputs import parse
from jbt.border.outputs import Outputs
from jbt.own.choices import Columns, Model, Position, Ties, Transform
from jbt.own.tables.folder import SETTINGS, settings_of, words_of

if TYPE_CHECKING:
    from jbt.own import Batch, Judges, Tables
    from jbt.types import Prior

Options = TypeVar("Options", bound="TableOptions")


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """Options for reading a user's tables, and the model of their fits."""

    folder: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[DIR]")] = None
    """Folder of tables, as `jbt import` writes it. It stands in place of the options that name
    files and covariates; an option that is typed replaces what its jbt.toml says."""
    verdicts: Path
    """Table of verdicts, if no folder is given. Columns: pool, first, second, and winner (first,
    second, tie, error, or the name of one of the two) or p_first (0 to 1); optionally judge, count,
    and order (shown or unknown). CSV, or Parquet with the extra judge-bt[parquet]."""
    items: Path | None = None
    """Table of items. Columns: pool, item; optionally content, quality, and any numeric
    covariates."""
    anchors: Path | None = None
    """Table of trusted labels. Columns for pairs whose order is known: pool, better, worse, or
    pool, first, second, better, as an annotator fills them in. Columns for items: pool, item,
    member, optionally k."""
    first: str = Columns.first
    """Column of the verdicts with the item shown first."""
    second: str = Columns.second
    """Column of the verdicts with the item shown second."""
    winner: str = Columns.winner
    """Column of the verdicts with the winner."""
    map: str | None = None
    """What the codes of the winner mean, such as `[[A]]=first,[[B]]=second,C=tie`. A code means
    first, second, tie, error, or the share that the first won."""
    scale: str | None = None
    """The winner is a number on this scale. Give the end that says first and the end that says
    second, such as 1:7; numbers between are graded verdicts."""
    pool: str = Columns.pool
    """Column with the pool, in every table. A table without it has one pool, `all`."""
    judge_column: str = "judge"
    """Column of the verdicts with the judge; `none` takes all verdicts as those of one judge."""
    judge: str | None = None
    """Use only this judge. By default all judges are used, each separately."""
    covariates: tuple[str, ...] = ()
    """Columns of the items table that may bias the judge (space-separated)."""
    transform: Transform = "none"
    """Transformation of every covariate before standardising."""
    standardise: bool = True
    """Centre and scale covariates over the whole items table, so that c is in logits per standard
    deviation; otherwise c is in logits per unit of the covariate."""
    content: str = "content"
    """Column of the items table that says which items share a quality; with `none` each item has
    its own."""
    merge_pools: bool = False
    """Merge all pools into one, in which contents of one name share a quality."""
    ties: Ties = "half"
    """A tie counts as half a win for each item (half), is left out (drop) or, in `jbt leaderboard`
    only, is an outcome of its own (davidson)."""
    position: Position = "auto"
    """Whether the position bias kappa is estimated. auto fixes it at 0 in pools where no pair was
    shown in both orders."""
    lam: float = 1.0
    """Prior precision of quality (1/logit^2)."""
    lam_b: float = 0.1
    """Prior precision of c and kappa (1/logit^2)."""


@dataclass(frozen=True, kw_only=True)
class TableOptions(Outputs, ReadingOptions):
    """Options of the commands on a user's own tables, inherited by those of each."""

    @classmethod
    def parse(cls: type[Options], argv: Sequence[str], command: str) -> Options:
        """The options of `jbt COMMAND`.

        Raises:
          ValueError: an output cannot be written, or written over; a wrong folder of tables.
        """
        options = parse(cls, _with_folder(argv), prog=f"jbt {command}")
        options.check_outputs()
        return options

    def read(self, *, merge_pools: bool | None = None) -> Tables:
        """The tables; `merge_pools` in place of the option.

        Raises:
          ValueError: see `own.read`; a covariate that cannot be transformed.
        """
        from jbt.own.tables.tables import check_transform

        judges, content = (
            None if name.lower() == "none" else name for name in (self.judge_column, self.content)
        )
        tables = own.read(
            self.verdicts,
            self.items,
            self.anchors,
            covariates=self.covariates,
            columns=Columns(self.first, self.second, self.winner, self.pool, judges),
            judge=self.judge,
            ties=self.ties,
            content=content,
            merge_pools=self.merge_pools if merge_pools is None else merge_pools,
            outcomes=own.Outcomes.of_options(self.map, self.scale),
            **self.read_besides(),
        )
        check_transform(tables, self.covariates, self.transform)
        return tables

    def read_besides(self) -> dict[str, Any]:
        """What else a command asks of `own.read`."""
        return {}

    def announce(self, tables: Tables) -> None:
        """Say on stderr what is under way, as compiling takes a while."""
        print(f"fitting {tables.counts['n_verdicts'].sum()} verdicts ...", file=sys.stderr)

    def batch(self, tables: Tables) -> Batch:
        """The tables as a batch, with the covariates asked for."""
        return own.Batch.of(tables, **self.fields_of_model())

    def fields_of_model(self) -> dict[str, Any]:
        """The fields of `own.Model`."""
        return {f.name: getattr(self, f.name) for f in fields(Model)}

    def prior(self) -> Prior:
        """The prior of the fits.

        Raises:
          ValueError: a precision is not valid.
        """
        from jbt.experiments.declare import check_number
        from jbt.types import Prior

        lam = 1.0 if self.lam is None else self.lam  # None where `jbt fit` estimates it
        check_number("lam", lam)
        check_number("lam_b", self.lam_b)
        return Prior(lam, self.lam_b)

    def lead(self, tables: Tables) -> list[str]:
        """The notes of a report: what was read, and what the tables do not support."""
        return [*tables.summary, *own.doctor(tables, self.typed()).headline()]

    def typed(self) -> dict[str, Any]:
        """The options for reading that are not at their default: those that `own.doctor` puts into
        the commands it proposes."""
        given = {f.name: (getattr(self, f.name), f.default) for f in fields(ReadingOptions)}
        in_folder = {} if self.folder is None else settings_of(self.folder)
        return {
            name: value
            for name, (value, default) in given.items()
            if value != default or name in in_folder
        }


def _with_folder(argv: Sequence[str]) -> list[str]:
    """The arguments, with the options that a folder of tables stands for after its name."""
    if not argv or argv[0].startswith("-"):
        later = [word for word in argv if Path(word, SETTINGS).exists()]
        if later and "--verdicts" not in argv:
            raise ValueError(f"a folder of tables comes before all options: {later[0]}")
        return list(argv)
    settings = settings_of(Path(argv[0]))
    allowed = [f.name for f in fields(ReadingOptions) if f.name != "folder"]
    if unknown := [name for name in settings if name not in allowed]:
        path = Path(argv[0], SETTINGS)
        raise ValueError(f"{path}: no option {unknown[0]!r}; allowed: {', '.join(allowed)}")
    return [argv[0], *words_of(settings), *argv[1:]]


@dataclass(frozen=True, kw_only=True)
class MergedOptions(TableOptions):
    """Options of the commands that merge all pools themselves."""

    merge_pools: bool = True
    """All pools are always merged."""

    def read(self, *, merge_pools: bool | None = False) -> Tables:
        """The tables, whose pools are kept to tell which verdicts depend on each other.

        Raises:
          ValueError: see `TableOptions.read`; --no-merge-pools.
        """
        if not self.merge_pools:
            raise ValueError("all pools are always merged here; jbt fit ranks each pool")
        return super().read(merge_pools=merge_pools)

    def lead(self, tables: Tables) -> list[str]:
        """The notes of a report; see `TableOptions.lead`."""
        from jbt.own.leaderboards.problem import merge_pools

        return super().lead(merge_pools(tables))


@dataclass(frozen=True, kw_only=True)
class JointOptions(TableOptions):
    """Options of the commands that can fit all judges of a table together."""

    joint: bool = False
    """Also fit all judges together, with common qualities, and with c and kappa for each judge.
    Trusted pairs (--anchors) enter as verdicts of a judge `anchors` without order and bias. `jbt
    fit` estimates each judge's discrimination if there are anchors or a reference, and takes it to
    be 1 otherwise."""
    reference: str | None = None
    """In a joint fit, the judge whose c and kappa are 0."""

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
        judges = own.Judges.of(tables, reference=self.reference, discrimination=discrimination)
        return tables, judges
