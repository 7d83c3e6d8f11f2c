"""Tables of verdicts rewritten so that nothing, or a known thing, changes in what they say."""

from __future__ import annotations

import copy
import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from support.boards import written

ROLES = ("pool", "judge", "first", "second", "winner")
"""Columns that an option can name."""

OPTIONS = {role: f"--{role}" for role in ROLES} | {"judge": "--judge-column"}
ITEMS = ("lynx", "okapi", "tapir", "zebu")
JUDGES = ("ada", "max")
FRESH = {
    "item": ("yak", "boar", "koala", "Émeu", "an ibis", "heron", "vole"),
    "judge": ("zoe", "bob", "ida", "Tom 2"),
    "pool": tuple(f"question {n}" for n in (7, 3, 31, 12, 5, 2, 44, 10, 9, 26, 8, 1, 60)),
}


@dataclass
class World:
    """Three tables and the options that read them."""

    verdicts: list[dict[str, str]]
    items: list[dict[str, str]]
    anchors: list[dict[str, str]]
    columns: dict[str, str] = field(default_factory=lambda: {role: role for role in ROLES})
    """Name of each column in `ROLES` in the files."""
    form: dict[str, Any] = field(default_factory=dict)
    """How the files are written, see `save`."""
    options: list[str] = field(default_factory=list)
    """Those that the rewriting needs."""
    extra: list[str] = field(default_factory=list)
    """Columns added."""
    shuffled: bool = False
    """Whether columns are written in a random order."""
    names: dict[str, str] = field(default_factory=dict)
    """Old name -> new name of judges, items and pools."""
    turned: bool = False
    """Whether first and second were swapped in every row."""
    affine: tuple[float, float] = (1.0, 0.0)
    """Factor and shift of the covariate."""

    def tables(self) -> list[list[dict[str, str]]]:
        return [self.verdicts, self.items, self.anchors]

    def named(self) -> list[str]:
        """The options that the rewriting needs, with those that name columns."""
        renamed = [r for r in ROLES if self.columns[r] != r and r in self.verdicts[0]]
        return [*self.options, *(w for r in renamed for w in (OPTIONS[r], self.columns[r]))]

    def write(self, folder: Path, rng: np.random.Generator) -> list[str]:
        """Write the tables; return the options that read them."""
        folder.mkdir(parents=True, exist_ok=True)
        argv = self.named()
        for name, rows in zip(("verdicts", "items", "anchors"), self.tables(), strict=True):
            argv += [f"--{name}", str(self.save(folder, name, rows, rng))]
        return argv

    def save(
        self, folder: Path, name: str, rows: list[dict[str, str]], rng: np.random.Generator
    ) -> Path:
        """Write one table."""
        # Only the pool's column has its name from the options in every table.
        named = self.columns if name == "verdicts" else {"pool": self.columns["pool"]}
        rows = [row | dict.fromkeys(self.extra, f"{n}") for n, row in enumerate(rows)]
        header = list(rng.permutation(list(rows[0]))) if self.shuffled else list(rows[0])
        table = [{named.get(column, column): row[column] for column in header} for row in rows]
        form = {"separator": ",", "end": "\n", "encoding": "utf-8", "pack": False, **self.form}
        if form.get("parquet"):
            frame = pd.DataFrame(table)
            for column in frame.columns.intersection(["count", "p_first", "words", "lists"]):
                frame[column] = pd.to_numeric(frame[column].replace("", np.nan))
            frame.to_parquet(folder / f"{name}.parquet")
            return folder / f"{name}.parquet"
        out = io.StringIO(newline="")
        writer = csv.writer(out, delimiter=form["separator"], lineterminator=form["end"])
        writer.writerows([list(table[0]), *(list(row.values()) for row in table)])
        data = out.getvalue().encode(form["encoding"])
        path = folder / f"{name}.csv{'.gz' * form['pack']}"
        path.write_bytes(gzip.compress(data) if form["pack"] else data)
        return path


def world(seed: int, n_pools: int) -> World:
    """Verdicts of two judges on pools of four items: ties, failures, counts, unknown orders."""
    rng = np.random.default_rng(seed)
    theta = dict(zip(ITEMS, rng.permutation([0.0, 0.6, 1.1, 1.9]), strict=True))
    judges = dict(zip(JUDGES, (1.0, 0.6), strict=True))
    verdicts, items = written(
        n_pools,
        theta=theta,
        words=lambda rng, shape: rng.integers(20, 300, shape),
        c=0.007,
        log_nu=-1.5,
        judges=judges,
        seed=seed,
    )
    verdicts = verdicts[rng.random(len(verdicts)) < 0.9]
    n = len(verdicts)
    verdicts = verdicts.assign(
        winner=verdicts["winner"].where(rng.random(n) > 0.04, "error"),
        count=rng.choice([1, 2, 3], n, p=[0.9, 0.07, 0.03]),
        order=rng.choice(["shown", "unknown"], n, p=[0.85, 0.15]),
    )
    items["lists"] = np.tile(np.arange(len(ITEMS)), n_pools)
    anchors = []
    for pool in np.repeat(items["pool"].unique(), 4):
        worse, better = sorted(rng.choice(ITEMS, 2, replace=False).tolist(), key=theta.__getitem__)
        anchors.append({"pool": pool, "better": better, "worse": worse})
    tables = (table.astype(str).to_dict("records") for table in (verdicts, items))
    return World(*tables, pd.DataFrame(anchors).drop_duplicates().to_dict("records"))


# --- changes: each rewrites a world in place


def permute_rows(world: World, rng: np.random.Generator) -> None:
    for table in world.tables():
        table[:] = [table[i] for i in rng.permutation(len(table))]


def permute_columns(world: World, rng: np.random.Generator) -> None:
    world.shuffled = True


def add_columns(world: World, rng: np.random.Generator) -> None:
    world.extra = ["note", "weight"]


def rename_columns(world: World, rng: np.random.Generator) -> None:
    world.columns |= dict(zip(ROLES, ("quest", "Richter", "left", "model b", "won"), strict=True))


def _rename(kind: str) -> Callable[[World, np.random.Generator], None]:
    columns = {"item": ("item", "first", "second", "better", "worse")}.get(kind, (kind,))

    def change(world: World, rng: np.random.Generator) -> None:
        table = world.verdicts if kind == "judge" else world.items
        old = list(dict.fromkeys(row[kind] for row in table))
        new = [str(name) for name in rng.choice(FRESH[kind], len(old), replace=False)]
        names = dict(zip(old, new, strict=True))
        for row in (row for table in world.tables() for row in table):
            row |= {
                column: names.get(row[column], row[column]) for column in columns if column in row
            }
        world.names |= names

    return change


OTHER = {"first": "second", "second": "first"}


def _swap(row: dict[str, str]) -> None:
    row["first"], row["second"] = row["second"], row["first"]
    row["winner"] = OTHER.get(row["winner"], row["winner"])


def swap_sides(world: World, rng: np.random.Generator) -> None:
    for row in world.verdicts:
        _swap(row)
    world.turned = True


def swap_unknown(world: World, rng: np.random.Generator) -> None:
    """Swap half of the rows whose order is not known."""
    for row in world.verdicts:
        if row["order"] == "unknown" and rng.random() < 0.5:
            _swap(row)


def winner_by_name(world: World, rng: np.random.Generator) -> None:
    for row in world.verdicts:
        row["winner"] = row.get(row["winner"], row["winner"])


def winner_by_code(world: World, rng: np.random.Generator) -> None:
    codes = {"first": "[[A]]", "second": "[[B]]", "tie": "C", "error": "-1"}
    for row in world.verdicts:
        row["winner"] = codes[row["winner"]]
    world.options += ["--map", "[[A]]=first,[[B]]=second,C=tie,-1=error"]


def winner_by_share(world: World, rng: np.random.Generator) -> None:
    shares = {"first": "1", "second": "0", "tie": "0.5", "error": ""}
    for row in world.verdicts:
        row["p_first"] = shares[row.pop("winner")]


def spell_out(world: World, rng: np.random.Generator) -> None:
    """A row for each verdict, the column of counts away."""
    world.verdicts[:] = [
        {column: cell for column, cell in row.items() if column != "count"}
        for row in world.verdicts
        for _ in range(int(row["count"]))
    ]


def split_counts(world: World, rng: np.random.Generator) -> None:
    """Counts of 2 and 3 as two rows that add up, not side by side."""
    more = []
    for row in world.verdicts:
        if (count := int(row["count"])) > 1:
            row["count"] = "1"
            more.append({**row, "count": str(count - 1)})
    world.verdicts += more


def annotate(world: World, rng: np.random.Generator) -> None:
    """Anchors as an annotator fills them in."""
    rows = []
    for row in world.anchors:
        sides = [row["better"], row["worse"]]
        first, second = (sides[i] for i in rng.permutation(2))
        better = "first" if first == row["better"] else "second"
        rows.append({"pool": row["pool"], "first": first, "second": second, "better": better})
    world.anchors[:] = rows


def scale(world: World, rng: np.random.Generator) -> None:
    factor, shift = 0.37, 120.25
    for row in world.items:
        row["words"] = repr(factor * float(row["words"]) + shift)
    world.affine = factor, shift


def _form(**form: Any) -> Callable[[World, np.random.Generator], None]:
    def change(world: World, rng: np.random.Generator) -> None:
        world.form = form

    return change


NAMES = {f"{kind}s renamed": _rename(kind) for kind in FRESH}
SIDES = {"sides swapped": swap_sides, "unknown orders swapped": swap_unknown}
WINNERS = {
    "winner by name": winner_by_name,
    "winner by code": winner_by_code,
    "winner by share": winner_by_share,
}
COUNTS = {"counts spelled out": spell_out, "counts split": split_counts}
FORMS = {
    "Parquet": _form(parquet=True),
    "BOM, CRLF": _form(encoding="utf-8-sig", end="\r\n"),
    "UTF-16, tabs": _form(encoding="utf-16", separator="\t"),
    "semicolons, packed": _form(separator=";", pack=True),
}
ROWS = {"rows permuted": permute_rows}
CHANGES: Mapping[str, Callable[[World, np.random.Generator], None]] = {
    **ROWS,
    "columns permuted": permute_columns,
    "columns added": add_columns,
    "columns renamed": rename_columns,
    **NAMES,
    **SIDES,
    **COUNTS,
    "anchors filled in": annotate,
    "covariate scaled": scale,
    **WINNERS,
    **FORMS,
}
"""In an order in which they can follow one another, at most one of `WINNERS`, `COUNTS`, `FORMS`."""


def draw(rng: np.random.Generator, allowed: list[str], n: int) -> list[str]:
    """Some of these changes, in the order of `CHANGES`, that go together."""
    chosen: list[str] = []
    for name in rng.permutation(allowed).tolist():
        group = next((g for g in (WINNERS, COUNTS, FORMS) if name in g), {})
        if len(chosen) < n and not set(group) & set(chosen):
            chosen.append(name)
    return [name for name in CHANGES if name in chosen]


def rewritten(world: World, changes: list[str], rng: np.random.Generator) -> World:
    """A copy of the world after these changes."""
    other = copy.deepcopy(world)
    for name in changes:
        CHANGES[name](other, rng)
    return other


# --- results


KEYS = (
    "pool", "judge", "model", "content", "item", "covariate", "check", "what", "of", "rule",
    "budget", "scored_by", "first", "second", "better", "worse", "name", "quantity",
)  # fmt: skip
"""What says which entry of a list an entry is."""


def matched(x: Any, drop: tuple[str, ...] = ("settings", "command", "gate")) -> Any:
    """A result with its lists as mappings by name, so that no place matters."""
    if isinstance(x, dict):
        x = {key: value for key, value in x.items() if key not in drop}
        names = x.pop("items", None)
        if isinstance(names, list) and names:
            for key, value in x.items():
                plain = isinstance(value, list) and not any(isinstance(v, dict) for v in value)
                if plain and len(value) == len(names):
                    x[key] = dict(zip(names, value, strict=True))
        return {key: matched(value, drop) for key, value in x.items()}
    if isinstance(x, list) and x and isinstance(x[0], dict):
        entries = {" ".join(str(entry[k]) for k in KEYS if k in entry): entry for entry in x}
        assert len(entries) == len(x), "entries that nothing tells apart"
        entries = {name: matched(entry, drop) for name, entry in entries.items()}
        return entries
    if isinstance(x, list) and all(isinstance(entry, str) for entry in x):
        return sorted(x)
    return x


def expected(result: Any, other: World) -> Any:
    """The result of a world as that of another, rewritten, should be; before `matched`."""
    text = json.dumps(result, ensure_ascii=False)
    if other.names:
        pattern = "|".join(map(re.escape, sorted(other.names, key=len, reverse=True)))
        text = re.sub(rf"\b({pattern})\b", lambda found: other.names[found[0]], text)
    return _equivariant(json.loads(text), other)


def _equivariant(x: Any, world: World) -> Any:
    if isinstance(x, list):
        return [_equivariant(entry, world) for entry in x]
    if not isinstance(x, dict):
        return x
    x = {key: _equivariant(value, world) for key, value in x.items()}
    if world.turned:
        if "kappa" in x:
            x["kappa"] = _negated(x["kappa"])
        if "kappa_low" in x:
            x["kappa_low"], x["kappa_high"] = map(_negated, (x["kappa_high"], x["kappa_low"]))
        if x.get("covariate") == "kappa":
            x = _negated(x)
        if x.get("what") == "first_won":
            ends = [None if v is None else 1 - v for v in (x["share"], x["high"], x["low"])]
            x["share"], x["low"], x["high"] = ends
    if x.get("average_words") is not None:
        factor, shift = world.affine
        x["average_words"] = factor * x["average_words"] + shift
    return x


def _negated(x: Any) -> Any:
    """Minus a number, or an estimate with its interval."""
    if isinstance(x, dict):
        signed = ("estimate", "low", "high", "mean_over_pools", "without_ties")
        turned = x | {key: _negated(x[key]) for key in signed if key in x}
        return turned | {"low": turned["high"], "high": turned["low"]}
    return None if x is None else -x


def differences(one: Any, other: Any, tolerance: float, at: str = "") -> list[str]:
    """Where two results differ: numbers by more than the tolerance times the larger of 1 and the
    number, anything else at all."""
    if isinstance(one, dict) and isinstance(other, dict):
        found = [f"{at}: only in one: {key}" for key in one.keys() ^ other.keys()]
        for key in one.keys() & other.keys():
            found += differences(one[key], other[key], tolerance, f"{at}/{key}")
        return found
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = zip(one, other, strict=True)
        return [
            d for n, (a, b) in enumerate(pairs) for d in differences(a, b, tolerance, f"{at}/{n}")
        ]
    numbers = all(isinstance(v, int | float) for v in (one, other))
    if numbers and abs(one - other) <= tolerance * max(1, abs(one)):
        return []
    return [] if one == other else [f"{at}: {one} against {other}"]
