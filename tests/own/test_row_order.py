"""The order of rows and columns of the tables has no effect on what is printed."""

import numpy as np
import pandas as pd
import pytest

from jbt import own
from jbt.own.gates.labelling import labelling
from jbt.own.tables.example import example


@pytest.fixture(scope="module")
def orders():
    """The example's tables, as they are and in another order."""
    given = example()
    given = {name: t[t["pool"].isin(["q01", "q02", "q03", "q05"])] for name, t in given.items()}
    rng = np.random.default_rng(0)
    other = {
        name: table.iloc[rng.permutation(len(table))][list(rng.permutation(table.columns))]
        for name, table in given.items()
    }
    return [
        {name: t.reset_index(drop=True) for name, t in version.items()}
        for version in (given, other)
    ]


def batch_of(tables):
    return own.load(tables["verdicts"], tables["items"], ["words"], transform="log")


@pytest.mark.heavy
@pytest.mark.parametrize("labels", ["disputed", "members"])
def test_labels_to_ask_for(orders, labels):
    asked = []
    for tables in orders:
        read = own.read(tables["verdicts"], tables["items"], covariates=["words"])
        asked.append(labelling(read, batch_of(tables), labels=labels).table)
    for other in asked[1:]:
        pd.testing.assert_frame_equal(other, asked[0])


@pytest.mark.nightly
def test_what_a_study_asks_and_shows(orders, tmp_path):
    shown = []
    for number, tables in enumerate(orders):
        items = tables["items"]
        items = items[items["pool"].isin(["q01", "q03"])].reset_index(drop=True)
        study = own.Study.open(tmp_path / f"{number}", items, covariates=["words"], refit_every=2)
        asked = []
        for turn in range(6):
            (query,) = study.ask(1)
            asked.append((query.pool, query.first, query.second))
            study.tell(query.id, "first" if turn % 3 else "second")
        summary = study.summary()
        rows = summary.ranking.merge(summary.pools[["pool", "certainty"]])
        pools = {
            (row.pool, row.content): (row.membership, row.best, row.worst, row.certainty)
            for row in rows.itertuples()
        }
        shown.append((asked, pools))
    for asked, pools in shown[1:]:
        assert asked == shown[0][0]
        for key, numbers in pools.items():
            assert numbers == pytest.approx(shown[0][1][key], abs=1e-9, nan_ok=True)
