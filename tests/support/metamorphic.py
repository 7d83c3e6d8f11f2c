"""Tables of verdicts rewritten so that nothing, or a known thing, changes in what they say."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from support.boards import written

ROLES = ("pool", "judge", "first", "second", "winner")
"""Columns that an option can name."""

OPTIONS = {role: f"--{role}" for role in ROLES} | {"judge": "--judge-column"}
TABLES = ("verdicts", "items", "anchors")
ITEMS = ("lynx", "okapi", "tapir", "zebu")
JUDGES = ("ada", "max")
FRESH = {
    "item": ("yak", "boar", "koala", "Émeu", "an ibis", "heron", "vole"),
    "judge": ("zoe", "bob", "ida", "Tom 2"),
    "pool": tuple(f"question {n}" for n in (7, 3, 31, 12, 5, 2, 44, 10, 9, 26, 8, 1, 60)),
}


@dataclass
class World:
    """Three tables of text and the options that read them."""

    verdicts: pd.DataFrame
    items: pd.DataFrame
    anchors: pd.DataFrame
    columns: dict[str, str] = field(default_factory=lambda: {role: role for role in ROLES})
    """Name of each column in `ROLES` in the files."""
    form: dict[str, Any] = field(default_factory=dict)
    """How the files are written, see `save`."""
    options: list[str] = field(default_factory=list)
    """Those that the rewriting needs."""
    extra: tuple[str, ...] = ()
    """Columns added."""
    shuffled: bool = False
    """Whether columns are written in a random order."""
    names: dict[str, str] = field(default_factory=dict)
    """Old name -> new name of judges, items and pools."""
    turned: bool = False
    """Whether first and second were swapped in every row."""
    affine: tuple[float, float] = (1.0, 0.0)
    """Factor and shift of the covariate."""

    def each(self, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
        """Change every table."""
        for name in TABLES:
            setattr(self, name, change(getattr(self, name)))

    def named(self) -> list[str]:
        """The options that the rewriting needs, with those that name columns."""
        renamed = [r for r in ROLES if self.columns[r] != r and r in self.verdicts]
        return [*self.options, *(w for r in renamed for w in (OPTIONS[r], self.columns[r]))]

    def write(self, folder: Path, rng: np.random.Generator) -> list[str]:
        """Write the tables; return the options that read them."""
        folder.mkdir(parents=True, exist_ok=True)
        files = [(name, self.save(folder, name, getattr(self, name), rng)) for name in TABLES]
        return [*self.named(), *(word for name, path in files for word in (f"--{name}", str(path)))]

    def save(self, folder: Path, name: str, table: pd.DataFrame, rng: np.random.Generator) -> Path:
        """Write one table, as CSV with the options `form` of pandas, or as Parquet."""
        # Only the pool's column has its name from the options in every table.
        named = self.columns if name == "verdicts" else {"pool": self.columns["pool"]}
        table = table.assign(**dict.fromkeys(self.extra, np.arange(len(table)).astype(str)))
        if self.shuffled:
            table = table[rng.permutation(table.columns)]
        table = table.rename(columns=named)
        if self.form.get("parquet"):
            for column in table.columns.intersection(["count", "p_first", "words", "lists"]):
                table[column] = pd.to_numeric(table[column].replace("", np.nan))
            table.to_parquet(folder / f"{name}.parquet")
            return folder / f"{name}.parquet"
        path = folder / f"{name}.csv{'.gz' * ('compression' in self.form)}"
        table.to_csv(path, index=False, **self.form)
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
    anchors = pd.DataFrame(anchors).drop_duplicates(ignore_index=True)
    return World(verdicts.astype(str).reset_index(drop=True), items.astype(str), anchors)


# --- changes: each rewrites a world in place


def permute_rows(world: World, rng: np.random.Generator) -> None:
    world.each(lambda table: table.sample(frac=1, random_state=rng, ignore_index=True))


def put(world: World, rng: np.random.Generator, **values: Any) -> None:
    """Set fields of a world, which say how it is written."""
    for name, value in values.items():
        setattr(world, name, value)


def rename(world: World, rng: np.random.Generator, *, kind: str) -> None:
    """Give new names to all judges, items or pools."""
    columns = {"item", "first", "second", "better", "worse"} if kind == "item" else {kind}
    old = (world.verdicts if kind == "judge" else world.items)[kind].unique()
    new = rng.choice(FRESH[kind], len(old), replace=False).tolist()
    names = dict(zip(old, new, strict=True))
    world.each(lambda table: table.replace(dict.fromkeys(columns & {*table}, names)))
    world.names |= names


def _swapped(table: pd.DataFrame, rows: Any) -> pd.DataFrame:
    """With first and second exchanged in some rows."""
    first, second, winner = (table[name] for name in ("first", "second", "winner"))
    return table.assign(
        first=first.mask(rows, second),
        second=second.mask(rows, first),
        winner=winner.mask(rows, winner.replace({"first": "second", "second": "first"})),
    )


def swap_sides(world: World, rng: np.random.Generator) -> None:
    every = np.ones(len(world.verdicts), bool)
    world.verdicts, world.turned = _swapped(world.verdicts, every), True


def swap_unknown(world: World, rng: np.random.Generator) -> None:
    """Swap half of the rows whose order is not known."""
    some = (world.verdicts["order"] == "unknown") & (rng.random(len(world.verdicts)) < 0.5)
    world.verdicts = _swapped(world.verdicts, some)


def winner_by_name(world: World, rng: np.random.Generator) -> None:
    v = world.verdicts
    names = v.apply(lambda row: row.get(row["winner"], row["winner"]), axis=1)
    world.verdicts = v.assign(winner=names)


def winner_by_code(world: World, rng: np.random.Generator) -> None:
    codes = {"first": "[[A]]", "second": "[[B]]", "tie": "C", "error": "-1"}
    world.verdicts = world.verdicts.replace({"winner": codes})
    world.options += ["--map", "[[A]]=first,[[B]]=second,C=tie,-1=error"]


def winner_by_share(world: World, rng: np.random.Generator) -> None:
    shares = {"first": "1", "second": "0", "tie": "0.5", "error": ""}
    shared = world.verdicts.replace({"winner": shares})
    world.verdicts = shared.rename(columns={"winner": "p_first"})


def spell_out(world: World, rng: np.random.Generator) -> None:
    """A row for each verdict, the column of counts away."""
    rows = np.repeat(np.arange(len(world.verdicts)), world.verdicts["count"].astype(int))
    world.verdicts = world.verdicts.iloc[rows].drop(columns="count")


def split_counts(world: World, rng: np.random.Generator) -> None:
    """Counts of 2 and 3 as two rows that add up, not side by side."""
    v, count = world.verdicts, world.verdicts["count"].astype(int)
    rest = v.assign(count=(count - 1).astype(str))[count > 1]
    world.verdicts = pd.concat([v.assign(count="1"), rest])


def annotate(world: World, rng: np.random.Generator) -> None:
    """Anchors as an annotator fills them in."""
    turn = rng.random(len(world.anchors)) < 0.5
    pairs = world.anchors.rename(columns={"better": "first", "worse": "second"})
    pairs = _swapped(pairs.assign(winner="first"), turn)
    world.anchors = pairs.rename(columns={"winner": "better"})


def scale(world: World, rng: np.random.Generator) -> None:
    factor, shift = world.affine = 0.37, 120.25
    words = factor * world.items["words"].astype(float) + shift
    world.items = world.items.assign(words=words.map(repr))


NAMES = {f"{kind}s renamed": partial(rename, kind=kind) for kind in FRESH}
SIDES = {"sides swapped": swap_sides, "unknown orders swapped": swap_unknown}
WINNERS = {
    "winner by name": winner_by_name,
    "winner by code": winner_by_code,
    "winner by share": winner_by_share,
}
COUNTS = {"counts spelled out": spell_out, "counts split": split_counts}
FORMS = {
    "Parquet": partial(put, form={"parquet": True}),
    "BOM, CRLF": partial(put, form={"encoding": "utf-8-sig", "lineterminator": "\r\n"}),
    "UTF-16, tabs": partial(put, form={"encoding": "utf-16", "sep": "\t"}),
    "semicolons, packed": partial(put, form={"sep": ";", "compression": "gzip"}),
}
RENAMED = dict(zip(ROLES, ("quest", "Richter", "left", "model b", "won"), strict=True))
CHANGES: Mapping[str, Callable[[World, np.random.Generator], None]] = {
    "rows permuted": permute_rows,
    "columns permuted": partial(put, shuffled=True),
    "columns added": partial(put, extra=("note", "weight")),
    "columns renamed": partial(put, columns=RENAMED),
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


def leaves(x: Any, at: str = "") -> dict[str, Any]:
    """Everything in a result, by its place."""
    if not isinstance(x, dict | list):
        return {at: x}
    parts = x.items() if isinstance(x, dict) else enumerate(x)
    return {k: v for key, part in parts for k, v in leaves(part, f"{at}/{key}").items()}


def differences(one: Any, other: Any, tolerance: float) -> list[str]:
    """Where two results differ: numbers by more than the tolerance times the larger of 1 and the
    number, anything else at all."""
    a, b = leaves(one), leaves(other)
    found = [f"{place}: only in one" for place in a.keys() ^ b.keys()]
    for place in a.keys() & b.keys():
        v, w = a[place], b[place]
        near = isinstance(v, int | float) and isinstance(w, int | float)
        if v != w and not (near and abs(v - w) <= tolerance * max(1, abs(v))):
            found.append(f"{place}: {v} against {w}")
    return found
