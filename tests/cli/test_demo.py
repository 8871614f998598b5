"""`tombola demo`: what it says for good and bad outcomes, and what it writes."""

import csv
import re

import numpy as np
import pytest

from tombola.cli import demo
from tombola.cli.main import Parser, main
from tombola.demo import clusters, linear, timesteps
from tombola.demo.page import headline, not_seen, page, summary
from tombola.demo.parts import FULL, Size, ratio, spread

TINY = Size(
    seeds=2, linear_thin=8, clusters=8, thin=8, steps=40,
)  # fmt: skip


def linear_rows(factors, seeds=4):
    """Rows in which shuffling needs `factors[name]` times the work of adaptive draws."""
    random = np.random.default_rng(0)
    return [
        {"part": "linear", "data": name, "rows": 100, "columns": 3, "seed": seed, "method": method,
         "gap": gap, "epochs": work * random.uniform(0.99, 1.01), "seconds": work}
        for name, factor in factors.items() for seed in range(seeds) for gap in linear.GAPS
        for method in linear.METHODS
        for work in [-10 * np.log10(gap) * (factor if method == "shuffled" else 1.0)]
    ]  # fmt: skip


def cluster_rows(sooner, dearer, seeds=4):
    random = np.random.default_rng(0)
    fits = {"scikit-learn": (sooner, 1.0), "uniform sample": (0.4 * sooner, 1.1 * dearer),
            "tombola": (1.0, dearer)}  # fmt: skip
    return [
        {"part": "clusters", "rows": 1000, "clusters": 64, "seed": seed, "method": method,
         "seconds": seconds * random.uniform(0.99, 1.01),
         "cost": 50 * cost * random.uniform(0.9999, 1.0001)}
        for seed in range(seeds) for method, (seconds, cost) in fits.items()
    ]  # fmt: skip


def timestep_rows(sooner, seeds=4):
    """Rows in which adaptive timesteps are `sooner` times as far as uniform ones at each step."""
    random = np.random.default_rng(0)
    return [
        {"part": "timesteps", "rows": 1000, "seed": seed, "method": method, "step": step,
         "seconds": step / 100, "largest": 0.1, "first_tenth": 0.5,
         "bits": 1000 / (step * (sooner if method == "adaptive" else 1.0)) + seed
         + random.uniform(-1e-3, 1e-3)}
        for seed in range(seeds) for method in timesteps.METHODS
        for step in range(50, 1001, 50)
    ]  # fmt: skip


def sections(factors, sooner, dearer, fewer):
    return [
        linear.show(linear_rows(factors), {}),
        clusters.show(cluster_rows(sooner, dearer), {}),
        timesteps.show(timestep_rows(fewer), {}),
    ]


ALL_GOOD = {"breast cancer": 3.0, "digits": 4.0, "photographs": 2.0}
ALL_BAD = {"breast cancer": 0.5, "digits": 0.5, "photographs": 0.5}
SOME = {"breast cancer": 3.0, "digits": 1.0, "photographs": 0.5}


def test_the_sentence_when_all_is_gained():
    shown = sections(ALL_GOOD, 5.0, 0.98, 2.1)
    assert headline(shown) == (
        "On real data, in this run, tombola trained the same linear classifier with 2.0 to 4.0 "
        "times less work than shuffling (2.0 to 4.0 times less time) on all 3 data sets, found "
        "the 64 main colours of a photograph of 1,000 pixels 5.0 times sooner than scikit-learn "
        "at a 2.0% lower cost and trained a diffusion model for likelihood with 2.0 times fewer "
        "steps than uniform timesteps."
    )
    assert not_seen(shown) == []
    assert "Every claim of this page was seen" in page(shown, FULL, 1.0).html()


def test_the_sentence_when_nothing_is_gained():
    shown = sections(ALL_BAD, 0.5, 1.02, 0.5)
    assert headline(shown) == (
        "On real data, in this run, tombola gained nothing: it needed no less work than shuffling "
        "to train a linear classifier, and more on breast cancer, digits and photographs, found "
        "the 64 main colours of a photograph of 1,000 pixels later than scikit-learn, at a 2.0% "
        "higher cost and trained a diffusion model for likelihood with no fewer steps than uniform "
        "timesteps."
    )
    assert all(f.confirmed is False for f in not_seen(shown) if "uniform sample" not in f.claim)
    assert not any(line.startswith("Seen: Adaptive") for line in summary(shown))


def test_the_sentence_when_some_is_gained():
    shown = sections(SOME, 5.0, 1.02, 0.99)
    assert headline(shown) == (
        "On real data, in this run, tombola trained the same linear classifier with 3.0 times less "
        "work than shuffling (3.0 times less time) on 1 of 3 data sets (no less on digits; more on "
        "photographs) and "
        "found the 64 main colours of a photograph of 1,000 pixels 5.0 times sooner than "
        "scikit-learn at a 2.0% higher cost, but trained a diffusion model for likelihood with no "
        "fewer steps than uniform timesteps."
    )
    open_ = {f.claim: f.confirmed for f in not_seen(shown)}
    assert [v for k, v in open_.items() if "epochs" in k and "digits" in k] == [None]
    assert [v for k, v in open_.items() if "epochs" in k and "photographs" in k] == [False]
    assert open_["Its cost is lower than that over all pixels."] is False


def test_less_work_without_less_time_is_told():
    rows = linear_rows({"digits": 3.0})
    for row in rows:
        row["seconds"] = 1.0 + 0.1 * (row["seed"] % 2) * (row["method"] == "adaptive")
    assert "(not certainly less time on each)" in linear.show(rows, {}).lead


def test_a_cost_that_may_be_higher_or_lower_is_not_called_the_same():
    rows = cluster_rows(5.0, 1.0)
    for row in rows:
        row["cost"] *= 1 + 0.01 * (row["seed"] - 1.5) * (row["method"] == "tombola")
    lead = clusters.show(rows, {}).lead
    assert re.search(r"at a cost within [12]\.\d% of its$", lead)


def test_longer_steps_are_shown():
    rows = timestep_rows(2.1)
    for row in rows:
        row["seconds"] *= 2 if row["method"] == "adaptive" else 1
    (finding,) = timesteps.show(rows, {}).findings
    assert finding.confirmed
    assert finding.evidence.endswith("each step takes 2.00 [2.00, 2.00] times as long.")


def test_a_goal_that_is_never_reached_decides_nothing():
    rows = linear_rows({"digits": 3.0})
    for row in rows:
        if row["gap"] == linear.GOAL and row["seed"] == 0:
            row["epochs"] = np.inf
    section = linear.show(rows, {})
    assert section.findings[0].confirmed is None
    assert "was not reached" in section.findings[0].evidence
    assert "nan" not in str(section.tables)


def test_one_seed_decides_nothing():
    section = linear.show(linear_rows({"digits": 3.0}, seeds=1), {})
    assert [finding.confirmed for finding in section.findings] == [None, None]
    assert "inf" not in str(section.tables)
    assert not section.gained


def test_ratios_are_paired_and_geometric():
    found = ratio([2.0, 8.0], [1.0, 1.0])
    assert found.value == pytest.approx(4.0)
    assert found.low < 1 < found.high
    assert ratio([10.0, 1000.0], [5.0, 500.0]).low == pytest.approx(2.0)  # pairs agree
    assert spread([np.inf, 1.0]) == "never"


def test_gradients_of_the_network_are_those_of_finite_differences():
    random = np.random.default_rng(0)
    network = timesteps.Network(random, 1e-3, (6, 5, 4, 3))
    network.weights = [values.astype(np.float64) for values in network.weights]
    x, slopes = random.normal(size=(7, 6)), random.normal(size=(7, 3))
    seen = []

    def value():
        return float((network.layers(x, network.weights)[0][-1] * slopes).sum())

    for place, it in enumerate(network.weights):
        at = tuple(random.integers(side) for side in it.shape)
        kept, h = it[at], 1e-6
        it[at] = kept + h
        above = value()
        it[at] = kept - h
        seen.append((place, at, (above - value()) / (2 * h)))
        it[at] = kept
    network.step(*network.layers(x, network.weights), slopes)
    for place, at, expected in seen:  # after one step the mean is a tenth of the gradient
        assert 10 * network.means[place][at] == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_the_weights_of_timesteps_are_those_of_the_variational_bound():
    noise, t = timesteps._noise(), np.arange(1, timesteps.TIMESTEPS)
    signal, noisy = (values.astype(np.float64) ** 2 for values in (noise.signal, noise.spread))
    snr = signal / noisy  # Kingma et al. (2021): half the fall of the signal-to-noise ratio ...
    of_x = 0.5 * (snr[t - 1] - snr[t]) * timesteps.TIMESTEPS / np.log(2)
    of_v = of_x * noisy[t]  # ... times the error of x, which is that of v times the noise
    assert noise.weights[0] == 0
    np.testing.assert_allclose(noise.weights[t], of_v, rtol=1e-4)


# --- the whole command, tiny --------------------------------------------------------------------


def run_tiny(out):
    parser = Parser()
    demo.add_arguments(parser)
    return demo.run(parser.parse_args(["--out", str(out)]), TINY)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "out"
    assert run_tiny(out) == 0
    return out


def test_it_writes_a_page_a_picture_and_rows(written):
    assert {path.name for path in written.iterdir()} == {
        "about.json", "demo.png", "report.html", "rows.csv",
    }  # fmt: skip
    assert (written / "demo.png").stat().st_size > 10_000
    text = (written / "report.html").read_text()
    headings = re.findall(r"<h2>(.*?)</h2>", text)
    assert headings[3:] == ["Not seen", "How it was run"]
    assert len(headings) == 5
    assert text.index('class="lead"') < text.index("<h2>")
    for name in ("breast cancer", "digits", "china.jpg", "flower.jpg", "scikit-learn"):
        assert name in text
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:image)|url\((?!#)|https?://""", text)
    assert "nan" not in re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL)


def test_the_same_figures_again(written, tmp_path):
    run_tiny(tmp_path / "again")
    both = []
    for folder in (written, tmp_path / "again"):
        with (folder / "rows.csv").open() as file:
            both.append([{**row, "seconds": None} for row in csv.DictReader(file)])
    for one, other in zip(*both, strict=True):  # k-means sums in the order of its threads
        costs = [float(row.pop("cost") or 0) for row in (one, other)]
        assert one == other
        assert costs[0] == pytest.approx(costs[1], rel=1e-6)


def test_it_overwrites_nothing(written, capsys):
    before = (written / "report.html").read_bytes()
    assert main(["demo", "--out", str(written)]) == 2
    said = capsys.readouterr().err
    assert "exists and is not empty" in said
    assert "--resume" not in said
    assert (written / "report.html").read_bytes() == before
