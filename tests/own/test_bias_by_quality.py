"""A bias that changes with quality, on a leaderboard: against SciPy, and where nothing identifies
it."""

import csv
import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit, log_expit

from benchmarks.calibration.leaderboard_quality import Setting
from jbt import cli, own
from jbt.own.leaderboards.growth import Slopes, bias_by_quality, fit_growth, fit_halves
from jbt.own.leaderboards.problem import Settings, Setup
from jbt.types import Prior, Status

pytestmark = pytest.mark.heavy

QUALITY = {"A": 1.2, "B": 0.4, "C": -0.5, "D": -1.1}
C, GAMMA = 0.7, 0.4


def simulated(n_pools=60, *, models=QUALITY, words=None, rename=None, seed=0):
    """Verdicts and items: every model answers every prompt, all ordered pairs are judged.

    Args:
      words: of an answer, from (rng, model); default varies within a model.
      rename: new names of the models.
    """
    rng = np.random.default_rng(seed)
    words = words or (lambda rng, _: rng.normal())
    rename = rename or {m: m for m in models}
    verdicts, items = ["pool,first,second,winner"], ["pool,item,content,words"]
    for pool in range(n_pools):
        x = {m: words(rng, m) for m in models}
        items += [f"p{pool},{rename[m]},{rename[m]},{x[m]:.4f}" for m in models]
        phi = {m: models[m] + (C + GAMMA * models[m]) * x[m] for m in models}
        for a in models:
            for b in models:
                if a != b:
                    won = "first" if rng.random() < expit(phi[a] - phi[b] + 0.2) else "second"
                    verdicts.append(f"p{pool},{rename[a]},{rename[b]},{won}")
    return "\n".join(verdicts) + "\n", "\n".join(items) + "\n"


def ranked(written, *, covariates=("words",), **options):
    """The leaderboard of two files."""
    (board,) = own.leaderboard(own.read(*written, covariates=covariates), covariates, **options)
    return board


def scipy_fit(written, lam, lam_b):
    """theta, c, gamma, kappa: the MAP by SciPy, from the files."""
    with written[1].open() as f:
        items = list(csv.DictReader(f))
    raw = np.array([float(row["words"]) for row in items])
    z = (raw - raw.mean()) / raw.std()
    pool = np.array([row["pool"] for row in items])
    z = z - np.array([z[pool == p].mean() for p in pool])
    x = {(row["pool"], row["item"]): v for row, v in zip(items, z, strict=True)}
    models = sorted({row["content"] for row in items})
    with written[0].open() as f:
        rows = list(csv.DictReader(f))
    i, j = (np.array([models.index(row[side]) for row in rows]) for side in ("first", "second"))
    xi, xj = (np.array([x[row["pool"], row[side]] for row in rows]) for side in ("first", "second"))
    won = np.array([row["winner"] == "first" for row in rows], float)
    m = len(models)
    precision = np.r_[np.full(m, lam), np.full(3, lam_b)]

    def objective(beta):
        theta, (c, gamma, kappa) = beta[:m] - beta[:m].mean(), beta[m:]
        phi = theta[i] + (c + gamma * theta[i]) * xi, theta[j] + (c + gamma * theta[j]) * xj
        logit = phi[0] - phi[1] + kappa
        r = won - expit(logit)
        of_theta = np.bincount(i, r * (1 + gamma * xi), m) - np.bincount(j, r * (1 + gamma * xj), m)
        rest = (r * (xi - xj)).sum(), (r * (theta[i] * xi - theta[j] * xj)).sum(), r.sum()
        value = -(won * log_expit(logit) + (1 - won) * log_expit(-logit)).sum()
        slope = -np.r_[of_theta - of_theta.mean(), rest]
        return value + precision @ beta**2 / 2, slope + precision * beta

    options = {"gtol": 1e-9, "maxiter": 2000}
    found = minimize(objective, np.zeros(m + 3), jac=True, method="BFGS", options=options)
    assert np.abs(found.jac).max() < 1e-5
    return models, found.x


def test_it_equals_scipy(tables):
    written = tables(*simulated())
    board = ranked(written, prior=Prior(0.5, 0.2), interaction=True)
    models, expected = scipy_fit(written, 0.5, 0.2)
    at = [models.index(m) for m in board.models["model"]]
    np.testing.assert_allclose(board.models["theta"], expected[at], atol=1e-6)
    (entry,) = board.by_quality
    gamma = entry.parts.loc["gamma"]
    estimates = (
        board.of_kind("c").iloc[0].estimate,
        gamma.estimate,
        board.of_kind("kappa").iloc[0].estimate,
    )
    np.testing.assert_allclose(estimates, expected[4:], atol=1e-6)
    assert entry.parts.loc["c"].estimate == board.of_kind("c").iloc[0].estimate
    assert gamma.low > 0
    assert entry.parts["estimate"]["stronger"] > entry.parts["estimate"]["weaker"]
    text = list(entry.sentences("!"))
    assert text[1] == "one constant c corrects weak models too much and strong ones too little!"
    # The ranking without it has the same entry, but one constant c.
    plain = ranked(written, prior=Prior(0.5, 0.2))
    assert plain.by_quality[0].record() == entry.record()
    assert plain.of_kind("c").iloc[0].estimate != board.of_kind("c").iloc[0].estimate
    assert (board.models["low"] < board.models["theta"]).all()
    assert (board.models["theta"] < board.models["high"]).all()


def test_its_derivatives_equal_finite_differences(x64):
    rng = np.random.default_rng(1)
    problem = Setting(0.3, 20, 5).draw(rng, 20)
    slopes = Slopes.of(problem)
    maximum = slopes.fit(np.zeros(8))
    assert maximum.status == Status.CONVERGED
    for scale in (0.1, 1.0):
        beta = maximum.beta + scale * rng.normal(size=8)
        _, gradient, hessian, convex = slopes.derivatives(beta)
        assert convex or scale == 1
        np.testing.assert_allclose(
            -gradient,
            approx_fprime(beta, lambda b: slopes.derivatives(b)[0], 1e-7),
            rtol=1e-4,
            atol=1e-3,
        )
        if convex:
            second = approx_fprime(beta, lambda b: -slopes.derivatives(b)[1], 1e-7)
            np.testing.assert_allclose(hessian, second, rtol=1e-4, atol=1e-3)


def test_halves_are_unbiased(x64):
    """A judge with one c in the stronger half and another in the weaker."""
    estimates = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        problem = Setting(0.0, 80, 4, sd=1.5, sd_x=0.0).draw(rng, 80)
        rows, sides = problem.rows, problem.sides
        strong = np.array([1.0, 1.0, 0.0, 0.0])
        theta = Setting(0.0, models=4, sd=1.5).theta
        first, second = np.asarray(rows.first), np.asarray(rows.second)
        c = np.where(strong > 0, 1.0, 0.2)
        logit = theta[first] + c[first] * sides[0, :, 0]
        logit = logit - theta[second] - c[second] * sides[1, :, 0]
        shown = np.asarray(rows.shown)
        wins = shown * (rng.random(len(logit)) < expit(logit))
        rows = dataclasses.replace(rows, wins=jnp.asarray(wins))
        problem = dataclasses.replace(problem, rows=rows)
        halves = fit_halves(problem.fit())
        at = halves.problem.at
        estimates.append(halves.beta[np.r_[at["stronger"], at["weaker"]]])
    mean, error = np.mean(estimates, 0), np.std(estimates, 0) / np.sqrt(len(estimates))
    assert (np.abs(mean - [1.0, 0.2]) < 3 * error).all(), (mean, error)


def test_names_and_order_of_models_do_not_matter(tables):
    """Models are numbered as they come in the file, so that its rows are turned round, too."""
    names = {"A": "delta", "B": "beta", "C": "alpha", "D": "gamma"}
    one = ranked(tables(*simulated()), interaction=True)
    files = [text.splitlines() for text in simulated(rename=names)]
    turned = ["\n".join([head, *rows[::-1]]) + "\n" for head, *rows in files]
    other = ranked(tables(*turned), interaction=True)
    assert [names[m] for m in one.models["model"]] == list(other.models["model"])
    np.testing.assert_allclose(other.models["theta"], one.models["theta"], atol=1e-9)
    for a, b in zip(one.by_quality, other.by_quality, strict=True):
        for name in ("c", "stronger", "weaker", "gamma"):
            ends = [e.parts.loc[name, ["low", "high"]].astype(float) for e in (a, b)]
            np.testing.assert_allclose(*ends, atol=1e-7)


@pytest.mark.parametrize(
    "options",
    [
        {"words": lambda rng, model: {"A": 2.0, "B": 0.0, "C": 1.0, "D": 3.0}[model]},
        {"models": {"A": 0.5, "B": -0.5}},
    ],
    ids=["constant within models", "two models"],
)
def test_where_gamma_is_not_identified_there_is_no_ranking(tables, options, tmp_path, capsys):
    """About the mean of two answers, a covariate says how they differ and nothing of either."""
    written = tables(*simulated(20, **options))
    board = ranked(written, interaction=True)
    plain = ranked(written)
    assert board.status == Status.FLAT
    assert np.isnan(board.models["theta"]).all()
    assert plain.status == Status.CONVERGED
    assert not plain.by_quality
    arguments = ["--verdicts", str(written[0]), "--items", str(written[1]), "--covariates", "words"]
    assert cli.main(["leaderboard", *arguments, "--interaction"]) == 0
    assert "no ranking: flat: the verdicts do not identify gamma" in capsys.readouterr().out
    assert cli.main(["leaderboard", *arguments]) == 0
    printed = capsys.readouterr().out
    assert "(gamma)" not in printed
    assert "by quality" not in printed


def test_only_some_covariates_identify_it(tables):
    """Halves and gamma of the covariate that varies within prompts; the other's gamma is 0."""
    verdicts, items = simulated()
    lines = items.splitlines()
    flags = [f"{line},{int(line[1 : line.index(',')]) % 2}" for line in lines[1:]]
    table = "\n".join([f"{lines[0]},flag", *flags])
    board = ranked(tables(verdicts, table), covariates=("words", "flag"), interaction=True)
    alone = ranked(tables(verdicts, items), interaction=True)
    assert board.status == Status.CONVERGED
    np.testing.assert_allclose(board.models["theta"], alone.models["theta"], atol=1e-7)
    words, flag = board.by_quality
    gammas = [entry.parts.loc["gamma"] for entry in (words, alone.by_quality[0], flag)]
    assert gammas[0].estimate == pytest.approx(gammas[1].estimate, abs=1e-7)
    assert (gammas[2].estimate, gammas[2].status) == (0, "flat")
    assert [line[:34] for line in flag.sentences()] == ["no interval: c[flag] by quality: n"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"covariates": ()}, "needs a covariate"),
        ({"robust": True}, "not go with --joint"),
        ({"difference": "relative"}, "not go with --joint"),
    ],
)
def test_what_it_does_not_go_with(tables, options, message):
    with pytest.raises(ValueError, match=message):
        ranked(tables(*simulated(10)), interaction=True, **options)


def test_relative_differences_have_no_halves(tables):
    written = tables(*simulated(20, words=lambda rng, _: rng.uniform(1, 2)))
    assert ranked(written, difference="relative").by_quality == []


def test_identify_says_the_same(tables):
    written = tables(*simulated())
    options = {"covariates": ["words"], "merge_pools": True}
    batch = own.Batch.of(own.read(*written, **options), ["words"])
    (coefficient,) = own.identify(batch).record()["pools"]
    board = ranked(written)
    for name, expected in board.by_quality[0].record().items():
        found = coefficient["by_quality"][name]
        assert found == (pytest.approx(expected) if name != "covariate" else expected)
    assert coefficient["by_quality"]["gamma"]["low"] > 0


def test_alpaca_eval_agrees_with_the_sweep(data, x64):
    """About the baseline's length in place of the prompt's mean, the model is that of
    `sweeps.bias_by_quality`, whose gamma is 0.19 [0.08, 0.31] per e-fold."""
    folder = data / "alpaca_eval"
    tables = own.read(folder / "verdicts.csv", folder / "items.csv", covariates=["words"])
    settings = Settings(covariates=("words",), transform="log1p", standardise=False)
    fit = Setup.of(tables, settings).problem(0).fit()
    assert bias_by_quality(fit, ["words"])[0][0].parts["low"]["gamma"] > 0
    problem = fit.problem
    problem = dataclasses.replace(problem, sides=problem.sides - problem.sides[:1])
    fit = dataclasses.replace(fit, problem=problem)
    gamma = bias_by_quality(fit, ["words"])[0][0].parts.loc["gamma"]
    assert (gamma.estimate, gamma.low, gamma.high) == pytest.approx((0.19, 0.08, 0.31), abs=0.025)


def test_two_items_a_prompt_identify_no_gamma(data, x64):
    """Pairs of LLMBar: what rounding leaves of the column of gamma does not count."""
    folder = data / "llmbar"
    tables = own.read(folder / "verdicts.csv", folder / "items.csv", covariates=["words"])
    settings = Settings(covariates=("words",), transform="log1p", standardise=False)
    setup = Setup.of(tables, settings)
    for judge in range(len(tables.judges)):
        assert fit_growth(setup.problem(judge).fit()).status == Status.FLAT


def test_a_covariate_that_is_not_finite_is_refused(tables):
    verdicts, items = simulated(5)
    lines = items.splitlines()
    lines[3] = lines[3].rsplit(",", 1)[0] + ",inf"
    with pytest.raises(ValueError, match="words"):
        ranked(tables(verdicts, "\n".join(lines) + "\n"), interaction=True)
