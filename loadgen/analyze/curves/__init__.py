"""Shapes of measured curves: knee, break-even, decay, best draft length, cost, and the draft-length advisor.

Pure numpy on repeated observations, (L,) levels and (L, R) values with NaN for absent ones; docs/sweeps.md, "Methods".
"""

from loadgen.analyze.curves.advisor import Advice, Predicted, advise, advise_from_positions
from loadgen.analyze.curves.breaks import Break, stops_paying
from loadgen.analyze.curves.costs import Cost, CostLine, Fitted, Split, fit_cost, split_round
from loadgen.analyze.curves.draft_length import BestK, best_k
from loadgen.analyze.curves.knees import Knee, knee
from loadgen.analyze.curves.replay import Replayed, RoundLists, replay
from loadgen.analyze.curves.slopes import Limit, Slope, decay, drafter_limit

__all__ = [
    "Advice",
    "BestK",
    "Break",
    "Cost",
    "CostLine",
    "Fitted",
    "Knee",
    "Limit",
    "Predicted",
    "Replayed",
    "RoundLists",
    "Slope",
    "Split",
    "advise",
    "advise_from_positions",
    "best_k",
    "decay",
    "drafter_limit",
    "fit_cost",
    "knee",
    "replay",
    "split_round",
    "stops_paying",
]
