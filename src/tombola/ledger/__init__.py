"""Exact costs and regret, for when the losses of all items are known."""

from tombola.ledger.accounting import Ledger, Sheet, account, new_sheet
from tombola.ledger.hindsight import best_fixed
from tombola.ledger.repetitions import Estimate, mean_estimate, pseudo_regret, student

__all__ = [
    "Estimate",
    "Ledger",
    "Sheet",
    "account",
    "best_fixed",
    "mean_estimate",
    "new_sheet",
    "pseudo_regret",
    "student",
]
