import jax.numpy as jnp
import numpy as np
import pytest

from jbt.types import Comparisons, Design, Judge, Prior


def test_shapes_are_checked_when_built_by_hand():
    with pytest.raises(TypeError):
        Comparisons(jnp.zeros((3, 3)), jnp.zeros((2, 2)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0]],), "at least 2 items, got 1"),
        (([[1.0], [np.nan]],), "must be finite"),
        (([1.0, 2.0], [0, 1, 2]), "2 integers"),
        (([1.0, 2.0], [0, 5], None, 3), r"0\.\.2"),
    ],
)
def test_bad_designs(arguments, message):
    with pytest.raises(ValueError, match=message):
        Design.build(*arguments)


@pytest.mark.parametrize(
    ("shown", "wins", "message"),
    [
        ([[0, 1], [1, 0]], [[0, 2], [0, 0]], "between 0 and shown"),
        ([[1, 1], [1, 0]], [[0, 0], [0, 0]], "with itself"),
        ([[0, np.nan], [1, 0]], [[0, 0], [0, 0]], "finite"),
    ],
)
def test_bad_comparisons(shown, wins, message):
    with pytest.raises(ValueError, match=message):
        Comparisons.build(shown, wins)


def test_a_bad_prior():
    with pytest.raises(ValueError, match="lam must be finite and above 0"):
        Prior(lam=0.0)
    with pytest.raises(ValueError, match="lam_b"):
        Prior(lam_b=float("inf"))


def test_a_judge_from_numbers():
    judge = Judge.of(1.5, 0.35)
    assert judge.bias.tolist() == [1.5]
    assert (judge.position, judge.discrimination) == (0.35, 1.0)
    assert Judge.of([1, -2]).bias.tolist() == [1.0, -2.0]
    with pytest.raises(ValueError, match="position must be finite, got nan"):
        Judge.of(1.0, float("nan"))
