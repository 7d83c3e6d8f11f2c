"""What notebooks use: a sweep in memory."""

import io

import pandas as pd
import pytest

from jbt.experiments import notebook
from jbt.experiments.run import main
from sweeps import crossing

RUN = {"preset": "smoke", "pools": 8, "rho": (0.0, 0.6)}


@pytest.mark.heavy
def test_a_run_in_memory_has_the_numbers_of_the_command(tmp_path, capsys):
    shown = notebook.run(crossing.SWEEP, **RUN)
    words = ["--preset", "smoke", "--pools", "8", "--rho", "0", "0.6", "--out", str(tmp_path)]
    assert main(crossing.SWEEP, words) == 0
    capsys.readouterr()
    written = pd.read_csv(tmp_path / "crossing" / "table.csv")
    same = pd.read_csv(io.StringIO(shown.table.to_csv(index=False, float_format="%.6g")))
    pd.testing.assert_frame_equal(same, written)
    assert shown.figure().axes
    with pytest.raises(ValueError, match="crossing has no setting colour"):
        notebook.run(crossing.SWEEP, colour="red")
