"""The paper's numbers: read from their file, and put beside the rows of their setting."""

import dataclasses
import functools
import importlib
from types import SimpleNamespace

import numpy as np
import pytest
from support.marks import heavy, nightly

from jbt import stats, twins
from jbt.acquisition import rules
from jbt.experiments import paper, run, store
from jbt.experiments.paper import PaperNumber
from jbt.simulation import pools
from jbt.simulation.judges import GATED
from sweeps import paired

SETTINGS = SimpleNamespace(k=5, lam=(0.2, 1.0), sd=1.2, factor=None)


def number(setting):
    pairs = dict(part.split("=", 1) for part in setting.split())
    return PaperNumber("recall", pairs, "0.50", 10, None, 0.005, "reported")


def test_a_number_of_the_paper_stands_beside_its_setting_alone():
    row = {"rule": "a", "budget": 10, "lam": None, "lam_b": 0.1}
    matches = {
        "": True,
        "rule=a budget=10": True,
        "rule=b": False,
        "budget=20": False,
        "lam=": True,
        "lam=1": False,
        "lam_b=0.1": True,
        "k=5": True,  # no column: a field of the settings
        "k=4": False,
        "settings.lam=0.2;1": True,
        "settings.lam=1;0.2": True,  # in any order
        "settings.lam=0.2;1;5": False,
        "settings.lam=1": False,
        "factor=": True,
        "rule=": False,
        "budget=ten": False,
    }
    for setting, expected in matches.items():
        assert number(setting).stands_beside(row, SETTINGS) == expected, setting


HEADER = "sweep,quantity,setting,paper,rounding,pools,seeds,source,role\n"


def test_the_papers_numbers_are_read_with_what_holds_for_all(tmp_path):
    file = tmp_path / "paper.csv"
    file.write_text(
        HEADER
        + "mine,,k=5 lam=0.2;1,,,,,,\n"
        + 'mine,recall,rule=a,0.50,,10,8,"Table 5, left",reported\n'
        + "other,recall,,0.1,,3,,Table 1,reported\n"
        + "mine,share,,-1.25,0.02,3,,Table 1,derived\n"
    )
    one, two = paper.read_paper(file, "mine")
    setting = {"k": "5", "lam": "0.2;1", "rule": "a"}
    study = 10, 8, 0.005
    assert one == PaperNumber("recall", setting, "0.50", *study, "reported", "Table 5, left")
    assert (one.value, one.rounding) == (0.5, pytest.approx(0.005))
    assert (two.value, two.rounding, two.seeds) == (-1.25, 0.02, None)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("mine,recall,rule,0.5,,10,,T,reported", "line 2: setting must be name=value pairs"),
        ("mine,recall,,half,,10,,T,reported", "paper must be a number, got 'half'"),
        ("mine,recall,,0.5,,,,T,reported", "pools must be a whole number from 1, got ''"),
        ("mine,recall,,0.5,,0,,T,reported", "pools must be a whole number from 1, got '0'"),
        ("mine,recall,,0.5,,10,zz,T,reported", "seeds must be a whole number from 1, got 'zz'"),
        ("mine,recall,,0.5,-1,10,,T,reported", "rounding must be at least 0, got -1"),
        ("mine,recall,,0.5,,10,,T,guessed", "role must be one of reported, calibrated, derived"),
        ("mine,recall,,nan,,10,,T,reported", "paper must be a number, got 'nan'"),
        ("mine,recall,,0.5,,10,,T, page 3,reported", "needs 9 fields; a comma in one needs quotes"),
        ("mine,recall,,0.5", "needs 9 fields"),
    ],
)
def test_a_damaged_row_is_named(tmp_path, row, message):
    file = tmp_path / "paper.csv"
    file.write_text(HEADER + row + "\n")
    with pytest.raises(ValueError, match=message):
        paper.read_paper(file, "mine")


def test_missing_columns_are_named(tmp_path):
    file = tmp_path / "paper.csv"
    file.write_text("sweep,quantity,setting,paper,pools,seeds,source\n")
    with pytest.raises(ValueError, match=r"paper.csv: no column rounding, role"):
        paper.read_paper(file, "mine")


def test_a_table_as_a_spreadsheet_saves_it(tmp_path):
    file = tmp_path / "paper.csv"
    file.write_text("\ufeff" + HEADER + "mine,recall,,0.5,,10,,T,reported\r\n")
    assert len(paper.read_paper(file, "mine")) == 1
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"paper.csv: not a table: needs CSV in UTF-8"):
        paper.read_paper(file, "mine")


def test_a_setting_that_is_none_is_refused():
    from jbt.experiments.table import Table

    with pytest.raises(ValueError, match="'rhoo' of recall is neither a column nor a setting"):
        Table(("rho",), SETTINGS, [number("rhoo=0.4")])


METRICS = {
    "acquisition": ("recall", "allocation", "targets", "steps"),
    "judge_regions": ("recall", "share_at_boundary"),
    "stochastic_judge": ("recall", "allocation", "uncertain", "targets", "steps"),
    "crossing": ("naive_recall", "bias_aware_recall", "realised_corr"),
    "crossing_factors": ("naive_recall", "bias_aware_recall"),
    "paired": (*paired.WHAT_C_COSTS, "c_map"),
    "prior_sensitivity": ("c_hat", "tau2", "recall", "naive_recall", "profile_range"),
    "gate": (
        *("enable_rate", "many_enable_rate", "half_enable_rate", "census_rate"),
        *("labels_used", "many_labels_used", "census_used"),
        *("naive_recall", "bias_aware_recall", "right", "wrong", "right_member", "wrong_member"),
    ),
}
"""What the tables of the sweeps with numbers of the paper are made of."""


RULES = ("top_k_aware", *rules.families()["baselines"])
VARIANTS: dict[str, list[dict]] = {
    # its other rows take long, and the paper has none for them
    "crossing_factors": [
        {"covariate": ("continuous",), "collapse_bias": (1.0,), "collapse_n_items": (30,)}
    ],
    "acquisition": [
        {"judge": judge, "n_seeds": 1} | ({} if judge == "llama" else {"rule": RULES})
        for judge in GATED
    ],
    "stochastic_judge": [{"judge": "llama", "oracle": oracle} for oracle in twins.ORACLES],
    "judge_regions": [
        {"members": 1},
        {"members": 1, "protocol": "stochastic", "refit_every": 2, "budget": (60, 120, 200, 320)},
    ],
    "gate": [
        {},
        *({"legitimate": "covariate", "pool": kind} for kind in ("gaussian", "statement_bank")),
    ],
}
"""Settings, beside those of the full preset, under which every number of the paper has its row."""


LARGE = (
    *("gate", "acquisition", "stochastic_judge", "paired", "prior_sensitivity"),
    *("judge_regions", "crossing_factors"),
)
"""Sweeps whose table of the full preset takes seconds."""


@pytest.mark.parametrize(
    "name",
    [
        *(name for name in METRICS if name not in LARGE),
        *((nightly if name == "gate" else heavy)(name) for name in LARGE),
    ],
)
def test_every_number_of_the_paper_finds_a_row(name, monkeypatch):
    """Of the full preset, whatever its results are, under all variants."""
    monkeypatch.setattr(pools, "check_balance", lambda *args, **options: None)  # it compiles
    monkeypatch.setattr(stats, "count_interval", functools.cache(stats.count_interval))
    sweep = importlib.import_module(f"sweeps.{name}").SWEEP
    numbers, found = sweep.paper(), []
    assert numbers
    for options in VARIANTS.get(name, [{}]):
        settings = sweep.at(pools=2, **options).decided()
        table = table_of_noise(name, sweep, settings)
        beside = table[table.paper.notna() & (table.quantity != "crossing_same_pools")]
        of_these = [n for n in numbers if n.is_of(sweep.columns, settings)]
        assert sorted(beside.paper) == sorted(n.value for n in of_these)
        found += of_these
    assert all(number in found for number in numbers)
    fields = {f.name for f in dataclasses.fields(sweep)}
    for number in numbers:
        for key in number.setting:
            if key.startswith(paper.SETTINGS):
                assert key.removeprefix(paper.SETTINGS) in fields, number


def table_of_noise(name, sweep, settings):
    """The table of two pools with random results."""
    groups, rng = settings.groups(), np.random.default_rng(0)
    datasets = [store._labels(settings, group) for group in groups]
    for group, ds in zip(groups, datasets, strict=True):
        for metric in METRICS[name]:
            dims = [sweep.index or "condition", *group.axes.get(metric, {}), "pool"]
            ds[metric] = dims, rng.uniform(0.4, 0.6, [ds.sizes[dim] for dim in dims])
    return run.table_of(settings, store._joined(datasets))
