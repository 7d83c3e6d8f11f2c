import jax.numpy as jnp
import numpy as np
import pytest

from jbt.types import Comparisons, Design, Judge


def test_shapes_are_checked_when_built_by_hand():
    with pytest.raises(TypeError):
        Comparisons(jnp.zeros((3, 3)), jnp.zeros((2, 2)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0], [np.nan]],), "must be finite"),
        (([1.0, 2.0], [0, 5], None, 3), r"0\.\.2"),
    ],
)
def test_bad_designs(arguments, message):
    with pytest.raises(ValueError, match=message):
        Design.build(*arguments)


def test_bad_comparisons():
    with pytest.raises(ValueError, match="between 0 and shown"):
        Comparisons.build([[0, 1], [1, 0]], [[0, 2], [0, 0]])
    with pytest.raises(ValueError, match="with itself"):
        Comparisons.build([[1, 1], [1, 0]], [[0, 0], [0, 0]])


def test_a_judge_from_numbers():
    judge = Judge.of(1.5, 0.35)
    assert (judge.bias.tolist(), judge.position, judge.discrimination) == ([1.5], 0.35, 1.0)
    with pytest.raises(ValueError, match="position must be finite, got nan"):
        Judge.of(1.0, float("nan"))
