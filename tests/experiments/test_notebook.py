"""What notebooks use: a sweep in memory, sliders, the size of runs."""

import io

import pandas as pd
import pytest

from jbt.experiments import notebook, plots
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
    assert set(shown.rows("benefit").quantity) == {"benefit"}
    assert shown.figure().axes
    with pytest.raises(ValueError, match="crossing has no setting colour"):
        notebook.run(crossing.SWEEP, colour="red")


def test_sliders_draw_the_first_setting_where_no_kernel_runs():
    drawn = []

    def draw(bias, k):
        drawn.append((bias, k))
        figure, ax = plots.new_figure()
        ax.plot([0, bias], [0, k])
        return figure

    sliders = notebook.Sliders(draw, {"bias": ((0.5, 1.0), 1.0, "c*"), "k": ((1, 5), 5, "k")})
    shown = sliders._repr_mimebundle_()
    assert drawn[0] == (1.0, 5)
    assert shown["image/png"]
    assert notebook.png(draw(1.0, 5)) == notebook.png(draw(1.0, 5))
    with pytest.raises(ValueError, match="bias begins at 3, which is not among its values"):
        notebook.Sliders(draw, {"bias": ((1, 2), 3, "c*")})


def test_a_moved_slider_draws_again():
    pytest.importorskip("ipywidgets")
    drawn = []

    def draw(k):
        drawn.append(k)
        return plots.new_figure()[0]

    box = notebook.Sliders(draw, {"k": ((1, 5), 5, "k")}).widget()
    box.children[0].value = 1
    assert drawn == [5, 1]


def test_an_unknown_size_is_refused(monkeypatch):
    monkeypatch.setenv("JBT_PRESET", "huge")
    with pytest.raises(ValueError, match="JBT_PRESET must be smoke or full, got 'huge'"):
        notebook.start()
