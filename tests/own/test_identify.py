"""What `jbt identify` says, against slow fits on the explicit design matrix."""

import json
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import chi2
from support.explicit_fits import designs
from support.problems import minimum

from jbt import own

CONTENTS = {"measured": "AABBC", "one_order": "AABBC", "flat": "ABCDE", "silent": "AABBC"}
CONTENTS |= {"constant": "AABBC", "separated": "AABBC", "apart": "ABCDE", "gaps": "AABBC"}
WORDS = {"constant": [4] * 5}


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Tables of pools of five items that differ in what they say about c."""
    rng, folder = np.random.default_rng(5), tmp_path_factory.mktemp("identify")
    items, verdicts = ["pool,item,content,words"], ["pool,first,second,winner,count"]
    for pool, contents in CONTENTS.items():
        words = WORDS.get(pool, [3, 9, 2, 7, 5])
        items += [
            f"{pool},i{i},{c},{w}" for i, (c, w) in enumerate(zip(contents, words, strict=True))
        ]
        for a, b in permutations(range(5), 2):
            if pool == "silent" or (pool == "one_order" and a > b):
                continue
            if pool == "separated" and contents[a] != contents[b]:
                continue
            if (pool == "apart" and (a < 2) != (b < 2)) or (pool == "gaps" and 4 in (a, b)):
                continue
            longer = words[a] > words[b]
            for winner in ("first", "second", "tie"):
                count = rng.integers(1, 4)
                if pool == "separated" and winner != ("first" if longer else "second"):
                    count = 0
                verdicts.append(f"{pool},i{a},i{b},{winner},{count}")
    for name, lines in {"verdicts": verdicts, "items": items}.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return folder / "verdicts.csv", folder / "items.csv"


@pytest.fixture(scope="module")
def batch(paths):
    return own.load(*paths, ["words"], transform="log")


@pytest.fixture(scope="module")
def found(batch):
    return own.identify(batch)


def by_pool(identification):
    return {row.pool: row for row in identification.table.itertuples()}


@pytest.mark.heavy
def test_equals_slow_fits_on_the_explicit_matrix(paths, found):
    of = by_pool(found)
    for design in designs(paths, "content"):
        one, every, at_c = of[design.pool], np.arange(design.z.shape[1]), design.at_c
        if one.status != "converged":
            continue

        def fit(precision, free, c=0.0, design=design, every=every):
            known = np.where(every == design.at_c, c, 0.0)
            table = design.z, design.count, design.wins
            b, _, objective = minimum(*table, precision * np.ones(len(every)), free, known)
            return b[design.at_c], objective

        c_map, _ = fit(np.where(every < at_c, 1.0, 0.1), every >= 0)
        c, top = fit(0, every > 0)  # theta of the first content is 0
        others = (every > 0) & (every != at_c)
        curve = [fit(0, others, c)[1] for c in np.linspace(c_map - 1, c_map + 1, 9)]

        def fallen(c, fit=fit, others=others, top=top):
            return 2 * (fit(0, others, c)[1] - top) - chi2.ppf(0.95, 1)

        ends = [brentq(fallen, c, c + side * 9, xtol=1e-12) for side in (-1, 1)]
        numbers = [one.c_map, one.c_mle, one.profile_range, *one.c_interval]
        assert numbers == pytest.approx([c_map, c, np.ptp(curve), *ends], abs=1e-6)
        assert (one.n_columns, one.rank) == (len(every), np.linalg.matrix_rank(design.z))


@pytest.mark.heavy
def test_what_is_not_measured_says_why(found):
    of = by_pool(found)
    assert {pool: one.status for pool, one in of.items()} == {
        "measured": "converged",
        "one_order": "converged",
        "flat": "flat",
        "silent": "no_verdicts",
        "constant": "covariate_constant",
        "separated": "separated",
        "apart": "flat",
        "gaps": "converged",
    }
    for pool in ("flat", "apart"):
        assert of[pool].profile_range < 1e-9
        assert np.isnan(of[pool].c_mle)
        assert of[pool].c_interval is None
    assert of["one_order"].n_columns == 4  # three contents and c, no position
    linked = "adding 1 to the qualities of contents A, B, which no comparison links to the others"
    assert of["apart"].null_directions[0] == linked
    assert "adding 1 to the quality of content C, which" in of["gaps"].null_directions[1]
    assert of["separated"].profile_range > 0.1


@pytest.mark.heavy
def test_the_command_and_its_files(paths, found, tmp_path, jbt):
    json_ = tmp_path / "identify.json"
    options = ["--verdicts", paths[0], "--items", paths[1], "--transform", "log"]
    assert "needs a covariate (--covariates)" in jbt("identify", *options, code=2)
    options += ["--covariates", "words", "--json", json_, "--out", tmp_path / "out"]
    shown = jbt("identify", *options)
    assert shown.startswith("c[log(words)] is identified by the verdicts: in 6 of 8 pools")
    content = json.loads(json_.read_text(), parse_constant=pytest.fail)
    assert content["pools"] == json.loads(json.dumps(found.record()))["pools"]
    table = pd.read_csv(tmp_path / "out" / "table.csv", index_col="pool")
    assert table["c_low"]["gaps"] == by_pool(found)["gaps"].c_interval[0]
