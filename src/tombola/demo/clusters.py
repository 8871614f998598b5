"""Second part of the demo: the colours of a photograph, by k-means on coresets and on all pixels.

64 colours for china.jpg, as in scikit-learn's example "Color Quantization using K-Means", with all
273,280 pixels as rows. Rivals are scikit-learn's `KMeans` over all pixels, and the same over a
uniform sample of as many pixels as a coreset has draws, followed by as many steps over all pixels
as tombola takes at most: what is gained over the first is gained by few rows, what is gained over
the second by coresets. All start once from k-means++. Seconds are those until every pixel has its
colour.
"""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from tombola.demo.parts import LOOKS, Pictures, Section, Size, gallery, panel, ratio, spread, times
from tombola.ledger import Estimate
from tombola.report.rows import Row, column

__all__ = ["draw_panel", "play", "show", "units"]

POLISH = 10  # steps over all rows, as tombola's `KMeans` takes at most
METHODS = ("scikit-learn", "uniform sample", "tombola")


def units(size: Size) -> int:
    """Return the number of times that `play` yields."""
    return size.seeds * len(METHODS)


def play(size: Size, pictures: Pictures) -> Iterator[list[Row]]:
    """Yield the row of one fit at a time; put the photograph and its versions into `pictures`."""
    from sklearn.datasets import load_sample_image

    from tombola.estimators import KMeans

    image = np.asarray(load_sample_image("china.jpg"))[:: size.thin, :: size.thin] / 255
    X = image.reshape(-1, 3)
    KMeans(size.clusters, coreset_size=len(X) // 100, random_state=0).fit(X[::10])  # compiles
    pictures["the photograph"] = image
    for seed in range(size.seeds):
        for method in METHODS if seed % 2 else METHODS[::-1]:
            start = time.perf_counter()
            centres, labels = _fit(method, X, size.clusters, seed)
            seconds = time.perf_counter() - start
            if seed == 0:
                pictures[method] = centres[labels].reshape(image.shape)
            cost = float(((X - centres[labels]) ** 2).sum())
            yield [{
                "part": "clusters", "data": "china.jpg", "rows": len(X), "columns": 3,
                "clusters": size.clusters, "seed": seed, "method": method, "cost": cost,
                "seconds": seconds,
            }]  # fmt: skip


def _fit(method: str, X: Any, clusters: int, seed: int) -> tuple[Any, Any]:
    """Return the centres and the nearest one of each row."""
    from sklearn import cluster

    from tombola.estimators import KMeans

    if method == "tombola":
        ours = KMeans(clusters, random_state=seed).fit(X)
        return ours.cluster_centers_, ours.labels_
    model = cluster.KMeans(clusters, n_init=1, random_state=seed)
    if method == "scikit-learn":
        model.fit(X)
        return model.cluster_centers_, model.labels_
    few = np.random.default_rng(seed).choice(len(X), 100 * clusters, replace=False)
    model.set_params(init=model.fit(X[few]).cluster_centers_, max_iter=POLISH).fit(X)
    return model.cluster_centers_, model.labels_


# --- results ------------------------------------------------------------------------------------


def show(rows: list[Row], pictures: Pictures) -> Section:
    """Return the section: seconds and cost."""
    seconds, cost = (
        {m: column(rows, what, method=m) for m in METHODS} for what in ("seconds", "cost")
    )
    n, clusters = rows[0]["rows"], rows[0]["clusters"]
    sooner = ratio(seconds["scikit-learn"], seconds["tombola"])
    dearer = ratio(cost["tombola"], cost["scikit-learn"])
    better = ratio(cost["uniform sample"], cost["tombola"])
    quicker = ratio(seconds["uniform sample"], seconds["tombola"])
    lead, gained = _lead(sooner, dearer, n, clusters)
    section = Section(f"{clusters} colours for {n:,} pixels", lead, gained=gained)
    if pictures:
        caption = f"The photograph, and the same in {clusters} colours by each method."
        section.figure(gallery(pictures, ("the photograph", *METHODS)), caption)
    caption = "Each point is a fit: further left is sooner, lower is better."
    section.figure(panel(draw_panel, rows), caption)
    section.notes = (
        "The rival is scikit-learn's `KMeans` over all pixels of its photograph china.jpg; ours is "
        "`tombola.estimators.KMeans`, which clusters few pixels and polishes over all of them. The "
        f"uniform sample is scikit-learn's on {100 * clusters:,} pixels, as many as a coreset has "
        f"draws, and then at most {POLISH} steps over all pixels, as ours takes. "
        f"{len(seconds['tombola'])} seeds; each method starts once."
    )
    section.table(
        "Seconds and cost (sum of squared distances): geometric means over seeds, 95% intervals",
        ["method", "seconds", "cost", "times the seconds of tombola", "times the cost of tombola"],
        [
            [
                method,
                spread(seconds[method], 2),
                spread(cost[method]),
                times(ratio(seconds[method], seconds["tombola"])),
                times(ratio(cost[method], cost["tombola"]), 3),
            ]
            for method in METHODS
        ],
    )
    section.judge(
        "k-means on coresets takes less time than scikit-learn's over all pixels.",
        sooner,
        f"Times less: {times(sooner)}.",
    )
    section.judge(
        "Its cost is lower than that over all pixels.",
        Estimate(1 / dearer.value, 1 / dearer.high, 1 / dearer.low),
        f"Times the cost of scikit-learn: {times(dearer, 3)}.",
    )
    section.judge(
        "It costs less than a uniform sample of as many pixels, polished as much.",
        better,
        f"The sample costs {times(better, 3)} times as much.",
    )
    section.judge(
        "It takes less time than a uniform sample of as many pixels, polished as much.",
        quicker,
        f"Times less: {times(quicker)}.",
    )
    return section


def draw_panel(axis: Any, rows: list[Row]) -> None:
    """Draw cost against seconds, one point for each fit."""
    least = min(column(rows, "cost"))
    for method in METHODS:
        colour, _, mark = LOOKS[method]
        seconds, cost = (
            np.array(column(rows, what, method=method)) for what in ("seconds", "cost")
        )
        axis.plot(seconds, 100 * (cost / least - 1), mark, color=colour, alpha=0.8, label=method)
    axis.set(xlabel="seconds", ylabel="cost above the least, %", title="k-means")
    axis.set_xlim(left=0)
    axis.set_ylim(bottom=-0.3)


def _lead(sooner: Estimate, dearer: Estimate, n: int, clusters: int) -> tuple[str, bool]:
    """Return what happened in words, and whether something was gained."""
    percent = [100 * (number - 1) for number in dearer]
    if dearer.low <= 1 <= dearer.high:
        cost = f"at a cost within {max(map(abs, percent)):.1f}% of its"
    else:
        cost = f"at a {abs(percent[0]):.1f}% {'higher' if percent[0] > 0 else 'lower'} cost"
    what = f"the {clusters} main colours of a photograph of {n:,} pixels"
    if sooner.low > 1:
        return f"found {what} {sooner.value:.1f} times sooner than scikit-learn {cost}", True
    slower = "later" if sooner.high < 1 else "no sooner"
    return f"found {what} {slower} than scikit-learn, {cost}", False
