"""`python -m jbt`, where no `jbt` command is installed."""

from jbt.cli import main

raise SystemExit(main())
