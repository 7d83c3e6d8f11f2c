"""Leaderboards by the values of a column, and what differs between them."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student
from support.boards import PRIOR, written

from jbt import own


def drawn(sizes=(16, 24), **second):
    """Verdicts of two values, on prompts of their own."""
    parts = []
    for i, (size, world) in enumerate(zip(sizes, ({}, second), strict=True)):
        verdicts, items = written(size, seed=i, **world)
        for table in (verdicts, items):
            table["pool"] = f"{i}" + table["pool"]
        parts.append((verdicts.assign(language=["en", "de"][i]), items))
    verdicts, items = zip(*parts, strict=True)
    return pd.concat(verdicts, ignore_index=True), pd.concat(items, ignore_index=True)


def ranked(verdicts, items, by="language", **options):
    tables = own.read(verdicts, items, covariates=["words"], by=by)
    return own.leaderboard(tables, ["words"], prior=PRIOR, **options)


def test_values_are_leaderboards_of_their_verdicts_and_differences_those_of_their_fits():
    """Against each value's own leaderboard, and Welch's formulas."""
    verdicts, items = drawn(c=1.6, theta={"A": -0.8, "B": 0.2, "C": -0.3, "D": 0.7})
    boards = ranked(verdicts, items)
    alone = []
    for value, models in boards.by_value.models.groupby("value", sort=False):
        part = verdicts[verdicts["language"] == value]
        (own_board,) = ranked(part, items, by=None)  # on the same scale: of all items
        frame = own_board.to_frame()
        pd.testing.assert_frame_equal(models[frame.columns], frame, atol=1e-7)
        alone.append(own_board)
    table = boards.by_value.differences.set_index("of")
    sides = [
        pd.concat([b.models.set_index("model"), b.of_kind("c").set_index("covariate")])
        for b in alone
    ]
    for name in ("A", "B", "words"):
        key = "estimate" if name == "words" else "theta"
        each = np.array([side.loc[name, [key, "low", "high", "degrees"]] for side in sides], float)
        estimate, low, high, degrees = each.T
        assert table["difference"][name] == pytest.approx(estimate[0] - estimate[1], abs=1e-6)
        v = ((high - low) / 2 / student.ppf(0.975, degrees)) ** 2
        df = v.sum() ** 2 / (v**2 / degrees).sum()
        middle = (low + high) @ [0.5, -0.5]
        half = student.ppf(0.975, df) * np.sqrt(v.sum())
        assert table.loc[name, ["low", "high"]].tolist() == pytest.approx(
            [middle - half, middle + half]
        )
        if name != "words":
            half = student.ppf(1 - 0.025 / 4, df) * np.sqrt(v.sum())
            assert table["high_all"][name] == pytest.approx(middle + half)
    assert table.index[table["differs"]].tolist() == ["A", "D"]
    assert "theta differs significantly in 2 of 4 cases" in boards.report("", []).text()


def test_of_three_values_each_is_compared_with_the_others():
    verdicts, items = drawn()
    verdicts["turn"] = np.arange(len(verdicts)) % 3
    table = ranked(verdicts, items, by="turn").by_value.differences
    assert table.groupby("value").size().to_dict() == {"0": 5, "1": 5, "2": 5}
    assert set(table["other"]) == {"the others"}
    assert table["shared"].all()
    # The same prompts: no dependence makes the error larger than the sum of both.
    assert table["low"].notna().all()


def test_only_models_with_verdicts_of_both_values_are_compared():
    verdicts, items = drawn()
    names = verdicts[["first", "second"]]
    verdicts = verdicts[(verdicts["language"] == "de") | ~names.isin(["D"]).any(axis=1)]
    boards = ranked(verdicts, items)
    table = boards.by_value.differences
    assert table.loc[table["kind"] == "theta", "of"].tolist() == ["A", "B", "C"]
    models = boards.by_value.models
    assert (models["value"] == "en").sum() == 4


@pytest.mark.heavy
def test_the_command_writes_every_value_of_a_column_of_the_items(tables, tmp_path, jbt):
    verdicts, items = drawn()
    items["language"] = items["pool"].str[0].map({"0": "en", "1": "de"})
    verdicts = verdicts.drop(columns="language")
    v, i = tables(verdicts.to_csv(index=False), items.to_csv(index=False))
    argv = ["leaderboard", "--verdicts", v, "--items", i, "--covariates", "words", "--by"]
    printed = jbt(*argv, "language", "--json", tmp_path / "b.json", "--out", tmp_path / "out")
    assert "by language (number of verdicts)" in printed
    by = json.loads((tmp_path / "b.json").read_text())["by"]
    assert len(by["differences"]) == 5
    table = pd.read_csv(tmp_path / "out" / "table.csv", keep_default_na=False)
    assert table.groupby("value", sort=False).size().to_dict() == {"": 4, "en": 4, "de": 4}
    for column, message in (
        ("langage", "--by: no column 'langage'; columns are pool, first"),
        ("pool", "--by: 'pool' has 40 values, needs 2 to 12: give it wider ones, such as months"),
    ):
        assert message in jbt(*argv, column, code=2)
    with pytest.raises(own.TableError, match=r"its items differ in 'words' .--by"):
        ranked(verdicts, items, by="words")
