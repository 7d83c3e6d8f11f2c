"""Labels at the ends of lines, and what a figure says of its settings."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from jbt.experiments import plots
from jbt.experiments.declare import Sweep

EMPTY = pd.DataFrame({"estimate": []})


def labels_of(ax):
    return {text.get_text(): text for text in ax.texts}


def test_lines_are_named_where_they_end_in_their_colours():
    _, ax = plots.new_figure()
    plots.band(ax, [0, 1], [0, 1], [0, 0.9], [0, 1.1], colour="blue", label="rising")
    plots.band(ax, [0, 1], [1, 0], [1, 0], [1, 0], colour="orange", label="falling")
    ax.plot([0, 0.2], [0.5, 0.5], label="short")
    ax.axhline(0.5, color="black", label="half")
    ax.axhline(0.3, color="black")
    plots.label_ends(ax)
    found = labels_of(ax)
    assert set(found) == {"rising", "falling", "short", "half"}
    assert to_hex(found["rising"].get_color()).upper() == plots.COLOURS["blue"]
    low, high = ax.get_ylim()
    for name, y in (("rising", 1), ("falling", 0), ("half", 0.5)):
        assert found[name].xyann == pytest.approx((1.03, (y - low) / (high - low)))
    assert found["short"].anncoords == "offset points"
    assert ax.get_legend_handles_labels() == ([], [])


def test_labels_that_would_touch_move_apart():
    _, ax = plots.new_figure()
    for height in (0.5, 0.501, 0.502):
        ax.plot([0, 1], [0, height], label=str(height))
    plots.label_ends(ax)
    places = [labels_of(ax)[str(height)].xyann[1] for height in (0.5, 0.501, 0.502)]
    gap = 1.25 * plots.LABEL_SIZE / (72 * 0.75 * 4.4)
    np.testing.assert_allclose(np.diff(places), gap)


@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        ([], []),
        ([0.2, 0.5, 0.5, 0.8], [0.2, 0.45, 0.55, 0.8]),
        ([0.1, 0.5, 0.52, 0.54], [0.1, 0.42, 0.52, 0.62]),
        ([0.4, 0.42, 0.5], [0.34, 0.44, 0.54]),  # the second pushes the third
        ([0.99, 1.0, 1.0], [0.8, 0.9, 1.0]),  # within the panel, where there is room
        ([0.0, 0.0], [0.0, 0.1]),
        ([0.5] * 12, [0.1 * i for i in range(12)]),
    ],
)
def test_places_are_the_nearest_that_are_apart(wanted, places):
    assert plots._apart(wanted, 0.1) == pytest.approx(places)


def test_a_figure_of_other_settings_says_that_titles_are_of_the_defaults():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Titled(Sweep):
        """A sweep."""

        name = "titled"
        columns = ()
        bias: float = 1.0

        def panels(self, table):
            return [plots.Panel(labels=("", "", "Bias 1 hurts"), after=lambda ax: None)]

    def note(**changes):
        return Titled(**changes).figure(None, EMPTY).get_suptitle()

    assert note() == note(pools=7, seed=3) == ""
    assert "these differ" in note(bias=2.0)


@pytest.mark.parametrize(
    ("end", "down", "above"), [("left", False, (0.02, 0.5)), ("top", True, (0.5, 0.98))]
)
def test_the_two_sides_of_a_level_are_named_beside_it(end, down, above):
    panel = plots.Panel(level=0.5, sides=("helps", "hurts"), sides_end=end, down=down)
    (ax,) = plots.draw([panel], EMPTY).axes
    found = labels_of(ax)
    assert found["helps"].xy == found["hurts"].xy == above
    assert np.argmax(np.abs(found["helps"].xyann)) == (0 if down else 1)
    assert sum(found["helps"].xyann) > 0 > sum(found["hurts"].xyann)
    colours = [to_hex(found[name].get_color()).upper() for name in ("helps", "hurts")]
    assert colours == [plots.COLOURS["green"], plots.COLOURS["vermilion"]]
    assert len(plots.sides(ax, 7.0, "beyond", "the axes", end=end).texts) == 2
