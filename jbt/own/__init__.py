"""A user's own verdicts: from tables to fits.

    from jbt import own

    batch = own.load("verdicts.csv", "items.csv", ["words"], transform="log")
    for fit in own.fit(batch, k=1):
        print(fit.pool, fit.judge, fit.status.name, fit.c, fit.kappa)

`jbt fit` does the same on the command line. Everything is computed in float64, whatever JAX's own
setting. `tables` reads verdicts, `formats` the files of other tools; `report_card` counts;
`shared_coefficients` and `fits` estimate; `examine` says what can be estimated; `leaderboards`,
`gates` and `replays` rank, decide and rerun; `studies` ask a live judge. A name is imported when
it is first asked for.
"""

from typing import TYPE_CHECKING

from jbt import _lazy

if TYPE_CHECKING:
    from jbt.own.choices import Columns, Model, Position, Ties, Transform
    from jbt.own.examine.audit import Audit, audit
    from jbt.own.examine.doctor import Check, Checks, doctor
    from jbt.own.examine.identify import Identification, identify
    from jbt.own.fits.analysis import Analysis, analyse
    from jbt.own.fits.batch import Batch, Group, PoolTable, load
    from jbt.own.fits.judges import Judges
    from jbt.own.fits.pools import PoolFit, fit
    from jbt.own.fits.shared import SharedFit, fit_judges
    from jbt.own.fits.together import PanelFit, fit_panel
    from jbt.own.gates.decide import gate
    from jbt.own.gates.labelling import Labelling, labelling
    from jbt.own.gates.report import Gate
    from jbt.own.leaderboards.rank import leaderboard
    from jbt.own.leaderboards.report import Leaderboard, Leaderboards
    from jbt.own.replays.report import Replay
    from jbt.own.replays.run import replay
    from jbt.own.report_cards import ReportCards, report_card
    from jbt.own.studies.report import StudySummary
    from jbt.own.studies.settings import StudySettings
    from jbt.own.studies.study import Query, Study
    from jbt.own.tables.outcomes import Outcomes
    from jbt.own.tables.sheets import TableError
    from jbt.own.tables.tables import Tables, covariate_values, read

__getattr__ = _lazy.getter(__name__, __file__)

__all__ = [
    "Analysis",
    "Audit",
    "Batch",
    "Check",
    "Checks",
    "Columns",
    "Gate",
    "Group",
    "Identification",
    "Judges",
    "Labelling",
    "Leaderboard",
    "Leaderboards",
    "Model",
    "Outcomes",
    "PanelFit",
    "PoolFit",
    "PoolTable",
    "Position",
    "Query",
    "Replay",
    "ReportCards",
    "SharedFit",
    "Study",
    "StudySettings",
    "StudySummary",
    "TableError",
    "Tables",
    "Ties",
    "Transform",
    "analyse",
    "audit",
    "covariate_values",
    "doctor",
    "fit",
    "fit_judges",
    "fit_panel",
    "gate",
    "identify",
    "labelling",
    "leaderboard",
    "load",
    "read",
    "replay",
    "report_card",
]


def __dir__() -> list[str]:
    return __all__
