from . import SWEEP

raise SystemExit(SWEEP.main())
