from jbt.experiments.run import main
from sweeps.gate import SWEEP

raise SystemExit(main(SWEEP))
