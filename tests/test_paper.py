"""The paper's numbers: read from their file, and put beside the rows of their setting."""

import dataclasses
from types import SimpleNamespace

import pytest

from jbt import paper, study
from jbt.paper import PaperNumber

SETTINGS = SimpleNamespace(k=5, lam=(0.2, 1.0), sd=1.2, factor=None)


def number(setting):
    pairs = dict(part.split("=", 1) for part in setting.split())
    return PaperNumber("recall", pairs, "0.50", 10, None, "reported")


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
        "settings.lam=0.2;1;5": False,
        "settings.lam=1": False,
        "factor=": True,
        "rule=": False,
        "budget=ten": False,
    }
    for setting, expected in matches.items():
        assert number(setting).stands_beside(row, SETTINGS) == expected, setting


HEADER = "sweep,quantity,setting,paper,pools,seeds,source,role\n"


def test_the_papers_numbers_are_read_with_what_holds_for_all(tmp_path):
    file = tmp_path / "paper.csv"
    file.write_text(
        HEADER
        + "mine,,k=5 lam=0.2;1,,,,,\n"
        + 'mine,recall,rule=a,0.50,10,8,"Table 5, left",reported\n'
        + "other,recall,,0.1,3,,Table 1,reported\n"
        + "mine,share,,-1.25,3,,Table 1,derived\n"
    )
    one, two = paper.read_paper(file, "mine")
    assert one == PaperNumber(
        "recall", {"k": "5", "lam": "0.2;1", "rule": "a"}, "0.50", 10, 8, "reported"
    )
    assert (one.value, one.rounding) == (0.5, pytest.approx(0.005))
    assert (two.value, two.rounding, two.seeds) == (-1.25, pytest.approx(0.01), None)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("mine,recall,rule,0.5,10,,T,reported", "line 2"),
        ("mine,recall,,half,10,,T,reported", "half"),
        ("mine,recall,,0.5,,,T,reported", "line 2"),
        ("mine,recall,,0.5,10,,T,guessed", "role must be one of reported, calibrated, derived"),
        ("mine,recall,,nan,10,,T,reported", "paper must be a number, got 'nan'"),
    ],
)
def test_a_damaged_row_is_named(tmp_path, row, message):
    file = tmp_path / "paper.csv"
    file.write_text(HEADER + row + "\n")
    with pytest.raises(ValueError, match=message):
        paper.read_paper(file, "mine")


def test_the_file_of_the_sweeps_is_well_formed():
    from sweeps import (
        acquisition,
        crossing,
        crossing_factors,
        paired,
        prior_sensitivity,
        stochastic_judge,
    )

    every = 0
    for module in (
        acquisition,
        crossing,
        crossing_factors,
        paired,
        prior_sensitivity,
        stochastic_judge,
    ):
        numbers = study.paper_of(module.SWEEP)
        every += len(numbers)
        fields = {f.name for f in dataclasses.fields(module.Settings)}
        for n in numbers:
            for name in n.setting:
                if not name.startswith(paper.SETTINGS):
                    assert name in (*module.SWEEP.columns, *fields), (n, name)
                else:
                    assert name.removeprefix(paper.SETTINGS) in fields, (n, name)
    assert every > 70
