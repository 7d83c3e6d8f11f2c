"""The paper's numbers: read from their file, and put beside the rows of their setting."""

import importlib
from types import SimpleNamespace

import pandas as pd
import pytest

from jbt.experiments import paper
from jbt.experiments.paper import PaperNumber
from sweeps.report import kept

SETTINGS = SimpleNamespace(k=5, judge=("llama", "phi"), sd=1.2, factor=None)


def number(setting):
    pairs = dict(part.split("=", 1) for part in setting.split())
    return PaperNumber("recall", pairs, 0.5, 10, None, 0.005, "reported")


def test_a_number_of_the_paper_stands_beside_its_setting_alone():
    row = {"rule": "a", "budget": 10, "lam": None, "lam_b": 0.1, "judge": "all"}
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
        "settings.judge=phi;llama": True,  # in any order
        "settings.judge=llama": False,
        "judge=llama;phi": False,
        "factor=": True,
        "rule=": False,
    }
    for setting, expected in matches.items():
        assert number(setting).stands_beside(row, SETTINGS) == expected, setting


HEADER = "sweep,quantity,setting,paper,rounding,pools,seeds,source,role\n"


def test_the_papers_numbers_are_read_with_what_holds_for_all(tmp_path):
    file = tmp_path / "paper.csv"
    file.write_text(
        HEADER
        + "mine,,k=5 judge=a;b,,,,,,\n"
        + 'mine,recall,rule=a,0.50,,10,8,"Table 5, left",reported\n'
        + "other,recall,,0.1,,3,,Table 1,reported\n"
        + "mine,share,,-1.25,0.02,3,,Table 1,derived\n"
    )
    one, two = paper.read_paper(file, "mine")
    setting = {"k": "5", "judge": "a;b", "rule": "a"}
    assert one == PaperNumber("recall", setting, 0.5, 10, 8, 0.005, "reported")
    assert paper.read_paper(tmp_path / "none.csv", "mine") == []
    assert (two.value, two.rounding, two.seeds) == (-1.25, 0.02, None)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("mine,recall,rule,0.5,,10,,T,reported", "line 2: "),
        ("mine,recall,,half,,10,,T,reported", "line 2: .*'half'"),
        ("mine,recall,,0.5,,ten,,T,reported", "line 2: .*'ten'"),
        ("mine,recall", "line 2: "),
    ],
)
def test_a_damaged_row_is_named(tmp_path, row, message):
    file = tmp_path / "paper.csv"
    file.write_text(HEADER + row + "\n")
    with pytest.raises(ValueError, match=message):
        paper.read_paper(file, "mine")


@pytest.mark.parametrize(
    "name",
    [
        *("crossing", "crossing_choices", "crossing_factors", "paired", "prior_sensitivity"),
        *("gate", "cost", "judges", "llmbar"),
    ],
)
def test_every_number_of_the_paper_stands_in_the_kept_results(name):
    """Of the sweeps whose runs are kept under all settings for which the paper has numbers."""
    files = [file for file in kept.KEPT.glob("*.csv") if file.stem.partition("-")[0] == name]
    rows = pd.concat([pd.read_csv(file) for file in files])
    found = set(zip(rows.quantity, rows.paper, strict=True))
    numbers = importlib.import_module(f"sweeps.{name}").SWEEP.paper()
    assert numbers
    assert [n for n in numbers if (n.quantity, n.value) not in found] == []
