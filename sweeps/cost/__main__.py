from jbt.experiments.run import main

from . import SWEEP

raise SystemExit(main(SWEEP))
