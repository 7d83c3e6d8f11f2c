from jbt.experiments.run import main
from sweeps.judges import SWEEP

raise SystemExit(main(SWEEP))
