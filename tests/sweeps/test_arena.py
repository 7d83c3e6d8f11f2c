"""The arena: rules of a user's file, and the table from known curves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.active import widest
from support.invented import invented, only

from jbt.acquisition import RULES, Rule
from jbt.acquisition.picks import Queries
from jbt.experiments.labelled_arrays import where
from jbt.experiments.run import table_of
from jbt.kernel import metrics
from jbt.kernel.fit import fit_map
from jbt.types import Comparisons, Design, Panel, Pool, Prior
from sweeps._shared.active import at_purses, task_of_two
from sweeps.arena import LOOKS, REFERENCE, Arena, own_rules

OWN = """
import jax.numpy as jnp
from jbt.acquisition import Rule
from jbt.acquisition.rules import lucb

def nearest(view, key):
    return -jnp.abs(view.probability - 0.5)

def _helper(view, key):
    return view.shown

def unlike(view):
    return view

steady = Rule(nearest, fresh=True)
"""


def test_rules_of_a_file(tmp_path, monkeypatch):
    file = tmp_path / "rule.py"
    file.write_text(OWN)
    assert set(own_rules(file)) == {"nearest", "steady"}
    assert own_rules(file)["steady"].fresh
    for name in ("nearest", "steady"):  # taken back at the end
        monkeypatch.setitem(RULES, name, Rule(widest))
    s = Arena.at("smoke", rule_file=str(file)).decided()
    assert s.rule[-2:] == ("nearest", "steady")
    first = s.digests()
    file.write_text(OWN + "\n")
    assert s.digests() != first  # or results of one rule would be taken for another's


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def broken(view, key:", "cannot be run: SyntaxError"),
        ("x = 1", "has no function"),
        ("def lucb(view, key):\n    return view.shown", "has a rule lucb, as jbt has"),
    ],
)
def test_a_file_without_a_rule_is_refused(tmp_path, text, message):
    file = tmp_path / "rule.py"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        own_rules(file)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return view.shown[0]", r"wrong must return scores \[10, 10\], got shape \(10,\)"),
        ("raise KeyError('theta')", "theta"),
    ],
)
def test_a_rule_that_cannot_score_is_named(tmp_path, monkeypatch, body, message):
    file = tmp_path / "rule.py"
    file.write_text(f"def wrong(view, key):\n    {body}\n")
    monkeypatch.setitem(RULES, "wrong", Rule(widest))  # taken back at the end
    with pytest.raises(ValueError, match=f"rule wrong fails on a trial problem: .*{message}"):
        Arena.at("smoke", rule_file=str(file)).decided().check()


def test_areas_leads_and_verdicts_to_a_share():
    """Curves that rise by a known step; every other pool is 0.05 above, the next as much below."""
    s = Arena.at("smoke", pools=40, rule=(REFERENCE, "random")).decided()
    rate = {REFERENCE: 0.1, "random": 0.05}
    swing = 0.05 * (-1) ** np.arange(s.pools)

    def recall(labels):
        of_rule = np.array([rate[rule] for rule in labels.rule])
        return of_rule[:, None, None] * np.arange(1, LOOKS + 1)[:, None] + swing

    table = table_of(s, invented(s, recall=recall, full=0.5))
    mean = (1 + LOOKS) / 2
    rows = where(table, scenario=s.scenario[0])
    random = where(rows, rule="random")
    for quantity, expected in (("area", 0.05 * mean), ("lead", -0.05 * mean)):
        assert only(random, quantity=quantity).estimate == pytest.approx(expected)
    # .9 of .5 is reached between the fourth and the fifth look, of 16 verdicts each.
    crossing = only(rows, quantity="crossing", rule=REFERENCE)
    assert crossing.estimate == pytest.approx(72, abs=0.1)
    assert np.isnan(only(random, quantity="crossing").estimate)


def test_a_purse_pays_the_first_verdicts_of_either_judge():
    """Against a fit of these verdicts alone; the fourth can be paid by no purse before."""
    n, prices = 4, jnp.array([1.0, 10.0])
    pool = Pool(jnp.arange(n) * 1.0, Design(jnp.zeros((n, 1)), None, jnp.ones(n, bool), n))
    condition = {"aware": jnp.zeros(())}
    answers = jnp.zeros((n, n, 2))
    task = task_of_two(pool, answers, condition, Prior(), 2.0, prices, 50.0)
    asked = [(0, 1, 0.0, 0), (1, 3, 0.0, 1), (2, 1, 1.0, 0), (3, 2, 1.0, 1), (-1, -1, 0.0, -1)]
    queries = Queries(*map(jnp.array, zip(*asked, strict=True)))
    found = jax.jit(lambda: at_purses(queries, task, (0.5, 11.0, 12.0, 50.0), 2))()
    assert found["reference_asked"].tolist() == [0, 1, 1, 2]
    for at, n_paid in enumerate([0, 2, 3, 4]):
        counts = np.zeros((2, n, n, 2))
        for i, j, share, g in asked[:n_paid]:
            counts[:, i, j, g] += 1, share
        panel = Panel(Comparisons(*jnp.asarray(counts)), jnp.array([1.0, 2.0]), jnp.eye(2))
        fit = jax.jit(fit_map)(panel, pool.design, Prior(), task.variant)
        recall = metrics.top_k_recall(fit.parameters.theta, pool.quality, 2)
        assert found["recall"][at] == pytest.approx(float(recall), abs=1e-6)
