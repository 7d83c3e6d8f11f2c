"""How often a judge contradicts itself between the two orders."""

import numpy as np
import pytest

from jbt import own
from jbt.own.tables.pairs import flips

VERDICTS = """pool,judge,first,second,winner,count,order
p,x,a,b,first,1,shown
p,x,b,a,first,1,shown
p,x,a,c,first,1,shown
p,x,c,a,tie,1,shown
p,x,b,c,second,1,shown
p,x,c,b,first,1,shown
p,y,a,b,first,3,shown
p,y,a,b,second,1,shown
p,y,b,a,second,2,shown
p,y,c,a,first,1,shown
p,y,a,c,first,1,unknown
q,x,a,b,first,1,shown
"""


@pytest.mark.heavy
def test_a_flip_is_a_pair_with_another_winner_in_the_other_order(tables):
    """Judge x: one flip, a half against a tie, one pair agreed on. Judge y: repeats count by their
    mean; a pair whose second order is unknown does not count."""
    v, _ = tables(VERDICTS)
    n_pairs, n_flips = flips(own.read(v))
    np.testing.assert_array_equal(n_pairs, [3, 1, 0, 0])
    np.testing.assert_allclose(n_flips, [1.5, 0.25, 0, 0])
    fits = own.fit(own.load(v), intervals=False)
    assert [f.flip_rate for f in fits[:2]] == [0.5, 0.25]
    assert np.isnan(fits[2].flip_rate)
    assert [f.n_both_orders for f in fits] == [3, 1, 0, 0]
