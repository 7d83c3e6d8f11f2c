from jbt.experiments.run import main
from sweeps.cost import SWEEP

raise SystemExit(main(SWEEP))
