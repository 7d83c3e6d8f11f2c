"""Davidson's ties on a leaderboard: against a plain reference, and what they refuse."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import t as student

from jbt import cli, own, runtime
from jbt.own.leaderboards.davidson import DavidsonProblem, problem_of
from jbt.own.leaderboards.intervals import intervals
from jbt.own.leaderboards.problem import Settings, Setup
from jbt.types import Prior, Status

LAM, LAM_B = 0.5, 0.2
MODELS = "ABCD"
N_PROMPTS = 24


def written(seed=0, log_nu=0.3):
    """Verdicts with ties, shown in either order, one row standing for several verdicts."""
    rng = np.random.default_rng(seed)
    quality = dict(zip(MODELS, (0.8, 0.2, -0.3, -0.7), strict=True))
    verdicts, items = [], []
    for prompt in range(N_PROMPTS):
        words = {m: rng.normal(100, 30) for m in MODELS}
        items += [(f"p{prompt}", m, w) for m, w in words.items()]
        for a in MODELS:
            for b in MODELS:
                if a == b or rng.random() < 0.3:
                    continue
                eta = quality[a] - quality[b] + 0.02 * (words[a] - words[b]) + 0.4
                weights = np.exp([eta / 2, log_nu, -eta / 2])
                won = rng.choice(["first", "tie", "second"], p=weights / weights.sum())
                verdicts.append((f"p{prompt}", a, b, won, 1 + prompt % 2))
    columns = pd.Index(["pool", "first", "second", "winner", "count"])
    return (
        pd.DataFrame(verdicts, columns=columns),
        pd.DataFrame(items, columns=pd.Index(["pool", "item", "words"])),
    )


def board_of(verdicts, items, ties="davidson", **options):
    tables = own.read(verdicts, items, covariates=["words"], ties=ties)
    return own.leaderboard(tables, ["words"], prior=Prior(LAM, LAM_B), **options)[0]


class Reference:
    """Davidson's model with an explicit design matrix, outcomes one by one; parameters are theta,
    c, log nu, kappa."""

    def __init__(self, verdicts, items, naive=False):
        x = (items["words"] - items["words"].mean()) / items["words"].std(ddof=0)
        words = dict(zip(zip(items["pool"], items["item"], strict=True), x, strict=True))
        z, self.outcome, self.pool, self.w = [], [], [], []
        for r in verdicts.itertuples():
            sides = [(m == r.first) - (m == r.second) for m in MODELS]
            z.append([*sides, words[r.pool, r.first] - words[r.pool, r.second], 0.0, 1.0])
            self.outcome.append(("first", "tie", "second").index(r.winner))
            self.pool.append(r.pool)
            self.w.append(r.count)
        z = np.array(z, float)
        if naive:
            z[:, [4, 6]] = 0
        nu = np.zeros_like(z)
        nu[:, 5] = 1
        self.statistics = np.stack([z / 2, nu, -z / 2], axis=1)  # [verdicts, outcomes, parameters]
        self.precision = np.r_[np.full(4, LAM), np.full(3, LAM_B)]
        self.outcome, self.w, self.pool = map(np.array, (self.outcome, self.w, self.pool))

    def probabilities(self, b):
        utility = self.statistics @ b
        return np.exp(utility - logsumexp(utility, axis=1, keepdims=True))

    def objective(self, b):
        utility = self.statistics @ b
        chosen = utility[np.arange(len(utility)), self.outcome]
        return self.precision @ b**2 / 2 - self.w @ (chosen - logsumexp(utility, axis=1))

    def scores(self, b):
        mean = np.einsum("ro,rop->rp", self.probabilities(b), self.statistics)
        chosen = self.statistics[np.arange(len(mean)), self.outcome]
        return self.w[:, None] * (chosen - mean)

    def informations(self, b):
        p = self.probabilities(b)
        mean = np.einsum("ro,rop->rp", p, self.statistics)
        square = np.einsum("ro,rop,roq->rpq", p, self.statistics, self.statistics)
        return self.w[:, None, None] * (square - mean[:, :, None] * mean[:, None])

    def hessian(self, b):
        return self.informations(b).sum(0) + np.diag(self.precision)

    def gradient(self, b):
        return self.precision * b - self.scores(b).sum(0)

    def mode(self):
        start = np.zeros(len(self.precision))
        how = {"jac": self.gradient, "hess": self.hessian, "method": "trust-exact"}
        b = minimize(self.objective, start, options={"gtol": 1e-9}, **how).x
        for _ in range(3):
            b = b - np.linalg.solve(self.hessian(b), self.gradient(b))
        assert np.abs(self.gradient(b)).max() < 1e-10
        return b

    def errors(self, b):
        """Standard errors of the estimates without the prior's pull, by leaving out prompts."""
        hessian, scores, informations = self.hessian(b), self.scores(b), self.informations(b)
        names = sorted(set(self.pool))
        moves = np.array(
            [
                np.linalg.solve(hessian - informations[at].sum(0), scores[at].sum(0))
                for at in (self.pool == name for name in names)
            ]
        )
        g = len(names)
        pushed = np.eye(len(b)) + np.linalg.inv(hessian) * self.precision
        moves = moves @ pushed.T
        return np.sqrt((g - 1) / g * np.square(moves).sum(0))


@pytest.fixture(scope="module")
def example():
    verdicts, items = written()
    return verdicts, items, board_of(verdicts, items)


def test_it_equals_a_plain_reference():
    verdicts, items = written()
    tables = own.read(verdicts, items, covariates=["words"], ties="davidson")
    with runtime.precision("float64"):
        setup = Setup.of(tables, Settings(covariates=("words",), prior=Prior(LAM, LAM_B)))
        problem = problem_of(setup, 0)
        fits = [problem.fit(variant) for variant in (problem.variant, problem.naive)]
    modes = [Reference(verdicts, items, naive=naive).mode() for naive in (False, True)]
    for fit, mode in zip(fits, modes, strict=True):
        assert int(fit.status) == Status.CONVERGED
        np.testing.assert_allclose(fit.beta, mode, atol=1e-8)


@pytest.mark.heavy
def test_the_leaderboard_has_the_fits_numbers(example):
    verdicts, items, board = example
    at = [MODELS.index(m) for m in board.models["model"]]
    b, naive = (Reference(verdicts, items, naive=naive).mode() for naive in (False, True))
    np.testing.assert_allclose(board.models["theta"], b[at], atol=1e-8)
    found = (
        board.of_kind("c").iloc[0].estimate,
        board.of_kind("log nu").iloc[0].estimate,
        board.of_kind("kappa").iloc[0].estimate,
    )
    np.testing.assert_allclose(found, b[4:], atol=1e-8)
    np.testing.assert_allclose(board.models["theta_naive"], naive[at], atol=1e-8)
    assert board.status == Status.CONVERGED
    assert not board.reasons()


@pytest.mark.heavy
def test_its_intervals_are_the_jackknife_written_out(example):
    verdicts, items, board = example
    reference = Reference(verdicts, items)
    b = reference.mode()
    errors, pushed = reference.errors(b), np.linalg.inv(reference.hessian(b)) * reference.precision
    about = b + pushed @ b
    for place, c in (
        (4, board.of_kind("c").iloc[0]),
        (5, board.of_kind("log nu").iloc[0]),
        (6, board.of_kind("kappa").iloc[0]),
    ):
        half = student.ppf(0.975, c.degrees) * errors[place]
        ends = [about[place] - half, about[place] + half]
        np.testing.assert_allclose([c.low, c.high], ends, atol=1e-8)
    assert (board.models["rank_low"] <= board.models["rank"]).all()


@pytest.mark.heavy
def test_a_win_rate_counts_a_tie_as_half(example):
    board = example[2]
    nu = np.exp(board.of_kind("log nu").iloc[0].estimate)
    for i, model in enumerate(board.models["model"]):
        eta = np.delete(board.models["theta"][i] - board.models["theta"], i)
        total = np.exp(eta / 2) + np.exp(-eta / 2) + nu
        expected = ((np.exp(eta / 2) + nu / 2) / total).mean()
        assert board.win_rates()[i] == pytest.approx(expected, abs=1e-12), model


@pytest.mark.heavy
def test_turning_every_verdict_turns_kappa(example):
    verdicts, items, board = example
    other = {"first": "second", "second": "first", "tie": "tie"}
    turned = verdicts.rename(columns={"first": "second", "second": "first"})
    turned["winner"] = [other[won] for won in turned["winner"]]
    after = board_of(turned, items)
    np.testing.assert_allclose(after.models["theta"], board.models["theta"], atol=1e-8)
    assert after.of_kind("kappa").iloc[0].estimate == pytest.approx(
        -board.of_kind("kappa").iloc[0].estimate, abs=1e-8
    )
    assert after.of_kind("log nu").iloc[0].estimate == pytest.approx(
        board.of_kind("log nu").iloc[0].estimate, abs=1e-8
    )


@pytest.mark.heavy
def test_a_judge_without_ties_has_bradley_terrys_leaderboard(example):
    """Beside a judge with ties, in the shapes that are compiled already."""
    verdicts, items, board = example
    decided = verdicts.assign(winner=verdicts["winner"].replace("tie", "first"), judge="decided")
    both = pd.concat([verdicts.assign(judge="ties"), decided], ignore_index=True)
    tables = own.read(both, items, covariates=["words"], ties="davidson")
    boards = own.leaderboard(tables, ["words"], prior=Prior(LAM, LAM_B))
    np.testing.assert_allclose(boards[0].models["theta"], board.models["theta"], atol=1e-10)
    assert boards[1].of_kind("log nu").iloc[0].status == "no_ties"
    assert boards[1].reasons() == [
        "log nu: no_ties, no ties: nu is 0, and the model Bradley-Terry's"
    ]
    halves = board_of(decided, items, ties="half")
    np.testing.assert_allclose(boards[1].models["theta"], halves.models["theta"], atol=1e-10)
    assert boards[1].record()["log_nu"]["estimate"] is None
    assert "two equal answers tie in" in boards.report("Board", []).text()
    assert halves.of_kind("log nu").empty


@pytest.mark.heavy
def test_where_every_decided_verdict_agrees_nothing_is_known():
    """The likelihood rises to infinity with theta and nu, which half wins would hide."""
    rows = [(f"p{i}", "A", "B", "tie" if i % 3 == 0 else "first") for i in range(30)]
    verdicts = pd.DataFrame(rows, columns=pd.Index(["pool", "first", "second", "winner"]))
    tables = own.read(verdicts, ties="davidson")
    with runtime.precision("float64"):
        setup = Setup.of(tables, Settings(position="no", prior=Prior(1e-4, 1e-4)))
        problem = problem_of(setup, 0)
        assert isinstance(problem, DavidsonProblem)
        fit = problem.fit()
        assert int(fit.status) == Status.CONVERGED
        status = intervals(fit).parameters["status"]
    assert list(status[:3]) == ["separated"] * 3


@pytest.mark.heavy
def test_few_prompts_have_no_interval():
    verdicts, items = written()
    few = verdicts[verdicts["pool"].isin(["p0", "p1", "p2"])]
    board = board_of(few, items)
    assert "few_clusters" in set(board.coefficients["status"])


def test_wrong_input_is_one_line(tmp_path, capsys):
    verdicts, items = written()
    paths = tmp_path / "verdicts.csv", tmp_path / "items.csv", tmp_path / "graded.csv"
    graded = verdicts.drop(columns="winner").assign(p_first=[0.3] + [1.0] * (len(verdicts) - 1))
    for frame, path in zip((verdicts, items, graded), paths, strict=True):
        frame.to_csv(path, index=False)
    together = "--ties davidson does not go with --joint or --interaction"
    words = ["--items", str(paths[1]), "--covariates", "words"]
    for command, path, options, message in (
        ("leaderboard", paths[2], [], "line 2: p_first 0.3 is graded: Davidson's ties need 0, 0.5"),
        ("leaderboard", paths[0], [*words, "--interaction"], together),
        ("fit", paths[0], [], "--ties davidson is for jbt leaderboard only: half or drop"),
        ("identify", paths[0], words, "--ties davidson is for jbt leaderboard only: half or drop"),
    ):
        options = ["--verdicts", str(path), "--ties", "davidson", *options]
        assert cli.main([command, *options]) == 2
        (line,) = (s for s in capsys.readouterr().err.splitlines() if s.startswith("error: "))
        assert message in line


def test_the_doctor_names_no_command_that_would_refuse(tmp_path, capsys):
    verdicts, _ = written()
    path = tmp_path / "verdicts.csv"
    verdicts.to_csv(path, index=False)
    assert cli.main(["doctor", "--verdicts", str(path), "--ties", "davidson"]) == 0
    printed = capsys.readouterr().out
    assert "--ties davidson" not in printed


@pytest.mark.heavy
def test_ties_of_prd_move_c_and_no_rank(data, tmp_path):
    folder, file = data / "prd", tmp_path / "board.json"
    table = ["--verdicts", str(folder / "verdicts.csv"), "--items", str(folder / "items.csv")]
    table += ["--covariates", "words", "--transform", "log1p", "--judge", "gpt4"]
    records = []
    for ties in ("half", "davidson"):
        assert cli.main(["leaderboard", *table, "--ties", ties, "--json", str(file)]) == 0
        records += json.loads(file.read_text())["leaderboards"]
    half, davidson = records
    assert davidson["c"][0]["estimate"] - half["c"][0]["estimate"] == pytest.approx(0.40, abs=0.02)
    names = [[m["model"] for m in r["models"]] for r in records]
    assert names[0] == names[1]
    rates = np.array([[m["win_rate"] for m in r["models"]] for r in records])
    assert np.abs(rates[0] - rates[1]).max() < 0.015
