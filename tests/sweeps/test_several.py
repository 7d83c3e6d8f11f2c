"""Trusted labels as one more judge, on small tables whose truth is known."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from jbt.experiments.run import main, run
from sweeps import several_judges
from sweeps._shared.labels import DATASETS, Recorded


def tables(folder, n_pools=30):
    """Two judges who pay for length in both sets; in one good answers are long, in the other
    short."""
    rng = np.random.default_rng(0)
    for name, slope in zip(DATASETS, (0.8, -0.8), strict=True):
        n = {"prd": 3, "llmbar": 2}[name]
        rows = {"verdicts": [], "items": [], "anchors": []}
        for pool in range(n_pools):
            x = rng.normal(size=n)
            quality = slope * x + 0.5 * rng.normal(size=n)
            rows["items"] += [(f"q{pool}", f"i{i}", round(np.exp(5 + v))) for i, v in enumerate(x)]
            for judge, c in (("a", 2.0), ("b", 1.5)):
                for i, j in itertools.permutations(range(n), 2):
                    p = expit(quality[i] - quality[j] + c * (x[i] - x[j]))
                    winner = "first" if rng.random() < p else "second"
                    rows["verdicts"].append((f"q{pool}", judge, f"i{i}", f"i{j}", winner))
            for i, j in itertools.combinations(np.argsort(-quality).tolist(), 2):
                rows["anchors"].append((f"q{pool}", f"i{i}", f"i{j}"))
        columns = {
            "verdicts": "pool judge first second winner",
            "items": "pool item words",
            "anchors": "pool better worse",
        }
        (folder / name).mkdir()
        for table, of in rows.items():
            frame = pd.DataFrame(of, columns=columns[table].split())
            frame.to_csv(folder / name / f"{table}.csv", index=False)
    return several_judges.Settings(
        data=folder,
        out=folder / "out",
        n_anchors=(0, 20),
        discrimination=(1.0,),
        folds=2,
        n_seeds=1,
    )


@pytest.mark.heavy
def test_labels_tell_what_the_prior_gets_wrong(tmp_path):
    found = run(several_judges.SWEEP, tables(tmp_path))
    assert found is not None
    rows = found[(found.judge == "all") & (found.quantity == "agreement")]
    agreement = rows.set_index(["dataset", "model"]).estimate
    # Where good answers are short, judges who like long ones are wrong, and labels say so.
    assert agreement["llmbar", "joint"] > agreement["llmbar", "naive"] + 0.1
    assert agreement["llmbar", "joint"] > agreement["llmbar", "mixed"] + 0.1
    # Where they are long, taking all that goes with length for bias is what is wrong.
    assert agreement["prd", "joint"] > agreement["prd", "bias_aware"] + 0.1
    slope = found[(found.judge == "all") & (found.quantity == "slope")]
    assert (slope.set_index("dataset").estimate * [1, -1] > 0.2).all()
    alone = found[(found.judge == "nobody") & (found.quantity == "agreement")]
    assert len(alone) == 2


def test_no_pool_is_tested_with_its_own_labels(tmp_path):
    s = dataclasses.replace(tables(tmp_path, 8), n_seeds=3)
    of = Recorded.read(s, "prd")
    folds, order = of._divisions(s)
    given = of._given(5, folds, order, s).reshape(s.n_seeds, s.folds, 8, 3, 3)
    assert (given.sum((2, 3, 4)) == 5).all()
    for seed, fold in np.ndindex(s.n_seeds, s.folds):
        assert not given[seed, fold][folds[seed] == fold].any()
    more = of._given(9, folds, order, s).reshape(given.shape)
    assert (more >= given).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_anchors": (10, 30)}, "n_anchors must include 0"),
        ({"folds": 1}, "folds must be at least 2, got 1"),
        ({"dtype": "float32"}, "dtype must be float64"),
        ({"discrimination": (0.0,)}, "discrimination must be finite and above 0"),
    ],
)
def test_settings_that_make_no_sense(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        run(several_judges.SWEEP, dataclasses.replace(tables(tmp_path, 2), **change))


def test_data_that_are_not_there_are_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("JBT_DATA", raising=False)
    assert main(several_judges.SWEEP, ["--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "error: no data: give --data DIR, a folder with prd/verdicts.csv, " in error
    assert "llmbar/anchors.csv, or set JBT_DATA to such a folder\n" in error
    # The folder of one of the sets, not the one that has both.
    assert main(several_judges.SWEEP, ["--data", str(tmp_path / "prd")]) == 2
    error = capsys.readouterr().err
    assert "prd/prd/verdicts.csv does not exist; give --data DIR, a folder with prd/verd" in error
    assert error.count("\n") == 1
