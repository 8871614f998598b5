"""The example on diffusion: each way to draw runs, small, and its figures are right."""

import csv
import importlib.util
import io
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "diffusion.py"


@pytest.fixture
def example(monkeypatch):
    spec = importlib.util.spec_from_file_location("diffusion", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    small = {"T": 20, "MARKS": 3, "ROUNDS": 2, "TURNS": 2, "TIMED": 1, "RATES": (1e-3,)}
    small |= {"LAYERS": 1, "WIDTH": 16, "HEADS": 2, "SAMPLES": 20, "DENOISINGS": 5}
    for name, value in small.items():
        monkeypatch.setattr(module, name, value)
    threads = torch.get_num_threads()
    yield module
    torch.set_num_threads(threads)


def images(path):
    """A file like that of CIFAR-10, with images of one colour."""
    parts = []
    for k in range(12):
        buffer = io.BytesIO()
        Image.new("RGB", (32, 32), (20 * k, 0, 255)).save(buffer, "JPEG")
        parts.append(np.frombuffer(buffer.getvalue(), dtype=np.uint8))
    ends = np.cumsum([0, *map(len, parts)])
    np.savez(path, blob=np.concatenate(parts), off=ends, tr=np.arange(12) < 8)
    return path


@pytest.mark.parametrize("data", ["digits", "images", "text"])
def test_it_runs_and_prints_every_way(example, data, tmp_path, capsys):
    rows = tmp_path / "rows.csv"
    options = ["--steps", "8", "--batch", "8", "--seeds", "1", "--rows", str(rows)]
    if data == "images":
        options += ["--full", "--data", str(images(tmp_path / "images.npz")), "--setting", "noise"]
    if data == "text":
        options += ["--full", "--setting", "text"]
    if data != "digits":
        options += ["--images", "64", "--processes", "1"]
    example.main(options)
    printed, ways = capsys.readouterr().out, example.WAYS if data == "digits" else example.FEW
    assert all(f"\n| {way} | " in printed for way in ways)
    assert printed.count("share of each tenth") == (3 if data == "digits" else 1)
    lines = rows.read_text().splitlines()
    assert lines[0] == ",".join(example.COLUMNS)
    # noise: one fixed way; unweighted: none
    runs = 3 * len(ways) - 3 if data == "digits" else len(ways)
    assert len(lines) == 1 + 3 * runs
    with rows.open() as file:
        for row in csv.DictReader(file):
            judged = data == "digits" and row["step"] == "8"
            assert math.isfinite(float(row["score"]))
            assert 1 <= float(row["inception"]) <= 10 if judged else not row["inception"]
            assert float(row["frechet"]) > 0 if judged else not row["frechet"]


def test_images_without_weights_run(example, tmp_path, capsys):
    options = ["--steps", "8", "--batch", "4", "--seeds", "1", "--processes", "1", "--full"]
    data = str(images(tmp_path / "images.npz"))
    example.main([*options, "--data", data, "--setting", "unweighted"])
    printed = capsys.readouterr().out
    assert "cifar-10, noise, linear, unweighted: 8 steps of 4" in printed
    assert "| vrb |" in printed
    assert "fixed" not in printed


def test_full_asks_for_its_data(example, capsys):
    with pytest.raises(SystemExit):
        example.main(["--full"])
    assert "--full needs --data" in capsys.readouterr().err
    for options in (["--setting", "text"], ["--full", "--setting", "v"]):
        with pytest.raises(SystemExit):
            example.main(options)
        assert f"--setting {options[-1]} is one with" in capsys.readouterr().err


def test_the_second_moment_keeps_every_loss_of_a_batch(example):
    torch.manual_seed(0)
    way, last = example.SecondMoment("cpu"), [[] for _ in range(example.T)]
    for _ in range(10):
        t, losses = torch.randint(0, 12, (200,)), torch.rand(200)
        way.update_with_local_losses(t, losses)
        for item, loss in zip(t.tolist(), losses.tolist(), strict=True):
            last[item] = [*last[item], loss][-10:]
    exact = torch.tensor([sum(loss**2 for loss in each) for each in last])
    torch.testing.assert_close(way.last.square().sum(1), exact)
    assert torch.equal(way.chances(), torch.full((example.T,), 1 / example.T))  # 8 of 20 unseen
    way.update_with_local_losses(torch.arange(20).repeat(10), torch.ones(200))
    assert way.chances().std() < 1e-6
    way.update_with_local_losses(torch.zeros(10, dtype=torch.int64), torch.full((10,), 5.0))
    assert float(way.chances()[0]) == pytest.approx(0.999 * 5 / 24 + 0.001 / 20, rel=1e-5)


@pytest.mark.parametrize("prediction", ["v", "noise"])
def test_the_loss_is_that_of_the_noise(example, prediction):
    """The output's weight is that of the noise's error, seen through v."""
    schedule = "cosine" if prediction == "v" else "linear"
    objective = example.Objective(example.Setting("digits", prediction, schedule, 1, 1), "cpu")
    torch.manual_seed(0)
    x, noise, wrong = torch.randn(3, 20, 4).double()
    t = torch.arange(20)
    a = objective.bar.double()[:, None]
    noisy = a.sqrt() * x + (1 - a).sqrt() * noise
    guess = noise + 0.1 * wrong
    v = (guess - (1 - a).sqrt() * noisy) / a.sqrt()  # v that means this guess of the noise
    losses = objective.losses(lambda *_: v if prediction == "v" else guess, x, t, noise)
    expected = objective.of_noise * (guess - noise).square().mean(1)
    torch.testing.assert_close(losses.double(), expected.double(), rtol=1e-3, atol=1e-3)
    # Kullback and Leibler: between two normal distributions of the same variance
    alpha, before = objective.bar[1:] / objective.bar[:-1], objective.bar[:-1]
    beta, after = 1 - alpha, 1 - objective.bar[1:]
    shift = beta / (after * alpha).sqrt()  # of the mean, for each unit of the noise
    variance = beta * (1 - before) / after
    bits = shift**2 / (2 * variance) / math.log(2) * example.T
    torch.testing.assert_close(objective.of_noise[1:], bits, rtol=1e-2, atol=0.0)


def test_the_loss_of_text_is_that_of_masked_letters(example):
    objective, length = example.Masked("cpu"), 4000
    torch.manual_seed(0)
    x, t = torch.randint(0, 64, (20, length)), torch.arange(20)

    def model(x, t):
        """Nothing is known of masked letters, all of others."""
        known = 100.0 * torch.nn.functional.one_hot(x % 64, 64)
        return torch.where((x == 64)[:, :, None], 0.0, known)

    losses = objective.losses(model, x, t, torch.randn(20, length))
    share = (t + 1) / 20
    error = 6 * ((1 - share) / (share * length)).sqrt()
    assert ((losses - 6).abs() <= 5 * error + 1e-3).all()  # 6 bits, whatever the timestep
    assert objective.of_output[0] == 20  # and at most the length of a sequence
    assert example.Masked("cpu").of_output.max() <= example.LENGTH


@pytest.mark.parametrize("prediction", ["v", "noise"])
def test_samples_of_the_right_model_are_the_data(example, prediction):
    schedule = "cosine" if prediction == "v" else "linear"
    objective = example.Objective(example.Setting("digits", prediction, schedule, 1, 1), "cpu")
    point = torch.linspace(-0.9, 0.9, 64)

    def model(x, t):
        a = objective.bar[t][:, None]
        noise = (x - a.sqrt() * point) / (1 - a).sqrt()
        return a.sqrt() * noise - (1 - a).sqrt() * point if prediction == "v" else noise

    torch.manual_seed(0)
    samples = objective.sampled(model, torch.randn(20, 64))
    torch.testing.assert_close(samples, point.expand(20, 64), rtol=0.0, atol=1e-3)


def test_samples_are_judged(example):
    _, test = example.load("digits", "cpu")
    same, noise = (example.quality(x) for x in (test, torch.randn(test.shape)))
    assert same["frechet"] == pytest.approx(0, abs=1e-3)
    assert same["inception"] > 7
    assert noise["frechet"] > 10
    # normal distributions with the same covariance: the distance is that of the means
    moved = example.quality(test + 0.5)
    assert moved["frechet"] == pytest.approx(64 * 0.25, abs=1e-3)
    one = example.quality(test[:1].repeat(20, 1))
    assert one["inception"] == pytest.approx(1)


def test_arrivals_lie_between_marks(example):
    steps, scores = np.array([100, 200, 400]), np.array([3.0, 2.0, 1.0])
    assert example.arrival(steps, scores, 1.5) == pytest.approx(200 * 2**0.5)
    assert example.arrival(steps, scores, 2.0) == 200
    assert example.arrival(steps, scores, 5.0) == 100
    assert example.arrival(steps, scores, 0.5) == math.inf


@pytest.mark.parametrize(("name", "tabled"), [("digits", 8), ("cifar", 5), ("text", 1)])
def test_figures_of_the_page_are_those_of_the_rows(example, name, tabled):
    page = (ROOT / "docs" / "diffusion.md").read_text()
    with (ROOT / "docs" / "results" / "diffusion" / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row.update(step=int(row["step"]), score=float(row["score"]), seed=int(row["seed"]))
    checked = 0
    for setting in sorted({row["setting"] for row in rows}):
        mine = [row for row in rows if row["setting"] == setting]
        for way in sorted({row["way"] for row in mine}):
            if name != "digits" and way == "stratified":  # not in the table
                continue
            seeds = sorted({row["seed"] for row in mine})
            curves = [example.curve(mine, way, seed) for seed in seeds]
            goals = [example.curve(mine, "uniform", seed)[1][-1] for seed in seeds]
            if "unweighted" not in setting:
                assert example.spread([c[1][-1] for c in curves], 3).split(" ")[0] in page
            pairs = zip(curves, goals, strict=True)
            gains = [steps[-1] / example.arrival(steps, s, goal) for (steps, s), goal in pairs]
            if way != "uniform" and min(gains) > 0:
                assert example.spread(gains) in page
                checked += 1
    assert checked == tabled
