"""Fits and intervals beside R's BradleyTerry2.

    apt-get install r-cran-bradleyterry2
    python -m benchmarks.bradley_terry2

Eight models, one verdict on each of 1,600 prompts in a random order: quality, c of a covariate of
the answers, and position. With priors that hold nearly nothing, `jbt leaderboard` and the maximum
likelihood of `BTm` are one fit. R's standard errors are those of the information, jbt's intervals
a jackknife over prompts: about as wide where, as here, verdicts are independent.
"""

from __future__ import annotations

import subprocess
import tempfile
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from jbt import own
from jbt.types import Prior

MODELS, PROMPTS = 8, 1600

SCRIPT = """
suppressMessages(library(BradleyTerry2))
d <- read.csv("verdicts.csv", stringsAsFactors = FALSE)
levels <- sort(unique(c(d$first, d$second)))
side <- function(model, x, first) data.frame(
  model = factor(model, levels = levels), x = x, first = first)
sides <- list(one = side(d$first, d$x_first, 1), two = side(d$second, d$x_second, 0))
fit <- BTm(d$won, one, two, ~ model + x + first, id = "model", data = sides)
write.csv(coef(summary(fit)))
"""


def drawn(rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Verdicts and items."""
    theta = np.linspace(1, -1, MODELS)
    first = rng.integers(0, MODELS, PROMPTS)
    second = (first + rng.integers(1, MODELS, PROMPTS)) % MODELS
    x = rng.normal(size=(2, PROMPTS))
    logit = theta[first] - theta[second] + 0.7 * (x[0] - x[1]) + 0.4
    won = (rng.random(PROMPTS) < expit(logit)) * 1
    names = np.array([f"m{i}" for i in range(MODELS)])
    sides = {"first": names[first], "second": names[second]}
    verdicts = pd.DataFrame({"pool": range(PROMPTS), **sides, "p_first": won * 1.0})
    verdicts = verdicts.assign(x_first=x[0], x_second=x[1], won=won)
    items = [
        pd.DataFrame({"pool": range(PROMPTS), "item": sides[side], "x": values})
        for side, values in zip(sides, x, strict=True)
    ]
    return verdicts, pd.concat(items, ignore_index=True)


def by_r(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Estimate and standard error of each coefficient; those of m0 are 0."""
    with tempfile.TemporaryDirectory() as folder:
        verdicts.to_csv(Path(folder, "verdicts.csv"), index=False)
        command = ["Rscript", "-e", SCRIPT]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    table = pd.read_csv(StringIO(done.stdout), index_col=0)
    return table.iloc[:, :2].set_axis(["estimate", "se"], axis=1)


def main() -> None:
    verdicts, items = drawn(np.random.default_rng(0))
    tables = own.read(verdicts[["pool", "first", "second", "p_first"]], items, covariates=["x"])
    (board,) = own.leaderboard(
        tables, ["x"], standardise=False, position="yes", prior=Prior(1e-9, 1e-9)
    )
    found, r = board.models.set_index("model"), by_r(verdicts)
    rows = [
        (name, found["theta"][name] - found["theta"]["m0"], r["estimate"][f"model{name}"])
        for name in sorted(found.index)[1:]
    ]
    half, errors = {}, {"c": r["se"]["x"], "kappa": r["se"]["first"]}
    for name, of_r in (("c", "x"), ("kappa", "first")):
        row = board.of_kind(name).iloc[0]
        rows.append((name, row["estimate"], r["estimate"][of_r]))
        half[name] = (row["high"] - row["low"]) / 2
    table = pd.DataFrame(rows, columns=pd.Index(["coefficient", "jbt", "BradleyTerry2"]))
    table["difference"] = table["jbt"] - table["BradleyTerry2"]
    print(table.to_string(index=False, float_format="%.6f"))
    for name, width in half.items():
        print(f"half-width of {name}: {width:.4f}, by R {1.96 * errors[name]:.4f}")


if __name__ == "__main__":
    main()
