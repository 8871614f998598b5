"""Findings follow from the rows: they are confirmed or refuted by made-up ones."""

import numpy as np
import pytest
from experiments.one_vs_all import MARKS

from experiments import coordinates, hyper, kmeans, regret, voc


def noisy(value, seed):
    return value * (1 + 1e-3 * np.random.default_rng(seed).normal())


def kmeans_rows(factors, name="kdd"):
    """Costs that fall as 1 + 100 / (rounds + 1), times a factor for each method."""
    return [
        {"data": name, "start": start, "seed": seed, "method": method, "rounds": mark,
         "seconds": 1e-4 * mark + 0.01,
         "cost": noisy(factors.get(method, 1.0) * (1 + 100 / (mark + 1)), [start, seed, mark]),
         **({} if method != "uniform" or start or seed else {"entropy": 0.995, "possible": 0.9})}
        for start in range(3) for seed in range(2) for method in kmeans.METHODS
        for mark in kmeans.MARKS
    ]  # fmt: skip


def verdicts(exhibit, words):
    found = [finding for finding in exhibit.findings if words in finding.claim]
    assert found, [finding.claim for finding in exhibit.findings]
    return [finding.confirmed for finding in found]


def test_kmeans_says_whether_a_tenth_of_the_rounds_is_enough():
    assert verdicts(kmeans.show(kmeans_rows({"VRB": 0.5})), "a tenth of the rounds") == [True]
    assert verdicts(kmeans.show(kmeans_rows({"VRB": 0.99})), "a tenth of the rounds") == [False]
    assert verdicts(kmeans.show(kmeans_rows({"VRB": 1.5})), "a tenth of the rounds") == [False]


def test_kmeans_says_whether_it_is_worse_than_uniform():
    assert verdicts(kmeans.show(kmeans_rows({}, "mnist")), "not worse than uniform") == [True]
    assert verdicts(kmeans.show(kmeans_rows({"VRB": 1.02}, "mnist")), "not worse") == [False]
    assert verdicts(kmeans.show(kmeans_rows({"MABS": 0.9}, "mnist")), "do not help") == [False]
    assert verdicts(kmeans.show(kmeans_rows({}, "mnist")), "near uniform") == [True]
    assert verdicts(kmeans.show(kmeans_rows({"VRB": 0.9}, "hapt")), "data set replaces") == [True]


def voc_rows(speed_of):
    """Precision 1 - 1 / (1 + speed * draws), with a speed for each method."""
    rows = []
    for features in voc.FEATURES:
        for name, (_, settings) in voc.METHODS.items():
            rows += [
                {"part": "settings", "features": features, "method": name, "rate": 0.1,
                 "setting": place, "score": -abs(place - 1.0)}
                for place in range(len(settings))
            ]  # fmt: skip
            best = min(1, len(settings) - 1)
            rows += [
                {"part": "rates", "features": features, "method": name, "rate": rate,
                 "setting": best, "score": rate}
                for rate in voc.RATES
            ]  # fmt: skip
            for run in range(3):
                for kind in ("paper", "best"):
                    for mark in MARKS:
                        done = speed_of.get(name, 1.0) * mark / 1000
                        rows.append(
                            {"part": "race", "features": features, "run": run, "method": name,
                             "rate": kind, "draws": mark, "seconds": 1e-5 * mark,
                             "eleven": 1 - 1 / (1 + done), "area": 1 - 1 / (1 + done),
                             "objective": noisy(1 / (1 + done), [run, mark]), "moment": 0.5}
                        )  # fmt: skip
    return rows


def test_voc_says_whether_a_tenth_and_a_third_were_confirmed():
    slow, quick = voc.show(voc_rows({})), voc.show(voc_rows({"VRB as printed": 12, "GroupVRB": 4}))
    assert not any(verdicts(slow, "a tenth of uniform's draws"))
    assert not any(verdicts(slow, "a third of uniform's draws"))
    assert all(verdicts(quick, "a tenth of uniform's draws"))
    assert all(verdicts(quick, "a third of uniform's draws"))
    half = voc.show(voc_rows({"VRB as printed": 5, "GroupVRB": 2}))
    assert not any(verdicts(half, "a tenth of uniform's draws"))
    assert not any(verdicts(half, "a third of uniform's draws"))


def test_voc_takes_the_setting_and_the_rate_that_were_best():
    rows = [row for row in voc_rows({}) if row["features"] == "vgg19" and row["part"] != "race"]
    chosen = voc.choices(rows)
    assert chosen["AW"] == (1, max(voc.RATES))
    assert chosen["uniform"] == (0, max(voc.RATES))


def hyper_rows(best, free):
    """Precision that grows with the draws; the objective is 1 minus it."""
    rows = []
    for run in range(2):
        for mark in MARKS:
            share = mark / MARKS[-1]
            cells = [
                {"method": "VRB as printed", "bound": b, "mixing": m,
                 "eleven": share * (best if (b, m) == (1.0, 0.4) else 0.5)}
                for b in hyper.BOUNDS for m in hyper.MIXINGS
            ]  # fmt: skip
            cells += [{"method": name, "eleven": share * free} for name in hyper.FREE]
            rows += [{"run": run, "draws": mark, "objective": 1 - c["eleven"], **c} for c in cells]
    return rows


def test_hyper_says_whether_no_parameters_are_as_good_as_the_best():
    words = "within 5% of the grid's best cell"
    assert verdicts(hyper.show(hyper_rows(0.8, 0.795)), words) == [True, True]
    assert verdicts(hyper.show(hyper_rows(0.8, 0.75)), words) == [False, False]
    assert verdicts(hyper.show(hyper_rows(0.8, 0.75)), "the early stage only") == [False]
    assert verdicts(hyper.show(hyper_rows(0.8, 0.795)), "the early stage only") == [None]


def regret_rows(panel, growth, factor=1e-3):
    names = {"a": ("FTRL", "uniform"), "b": ("VRB", regret.FROZEN.name), "c": ("VRB",),
             "d": (regret.PRINTED, regret.FREE, "uniform")}  # fmt: skip
    kind = regret.PANELS[panel].kind
    return [
        {"panel": panel, "run": run, "player": player, "rounds": T, "bound": T**0.6,
         "regret": noisy((factor if place == 0 or kind == "d" else 10) * T**growth, [run, T])}
        for run in range(1 if kind == "a" else 3)
        for place, player in enumerate(names[kind])
        for T in regret.HORIZONS[kind]
    ]  # fmt: skip


@pytest.mark.parametrize("panel", ["a", "b2"])
def test_regret_says_whether_a_bound_holds(panel):
    held, broken = (regret.show(regret_rows(panel, 0.6, factor)) for factor in (0.1, 2.0))
    assert verdicts(held, " holds") == [True]
    assert verdicts(broken, " holds") == [False]
    assert verdicts(held, "could have failed") == [True]


@pytest.mark.parametrize(("panel", "words"), [("c10", "sees p"), ("d10", "without parameters")])
def test_regret_says_how_it_grows(panel, words):
    assert verdicts(regret.show(regret_rows(panel, 0.4)), words) == [True]
    assert verdicts(regret.show(regret_rows(panel, 0.9)), words) == [False]


def test_coordinates_compare_epochs():
    def rows(rate):
        return [
            {"problem": "lasso", "run": run, "method": method, "epochs": float(mark),
             "gap": float(np.exp(-mark * (rate if method == "VRB" else 1.0)))}
            for run in range(3) for method in coordinates.SAMPLERS for mark in coordinates.MARKS
            if method != "cyclic" or run == 0
        ]  # fmt: skip

    assert verdicts(coordinates.show(rows(3.0)), "fewer epochs") == [True]
    assert verdicts(coordinates.show(rows(0.5)), "fewer epochs") == [False]


def test_one_run_is_enough_for_a_figure():
    rows = [row for row in kmeans_rows({"VRB": 0.5}) if row["start"] == row["seed"] == 0]
    exhibit = kmeans.show(rows)
    assert verdicts(exhibit, "lowers the spread") == [None]
    assert not any(
        "nan" in str(cell) for _, _, lines in exhibit.tables for row in lines for cell in row
    )
