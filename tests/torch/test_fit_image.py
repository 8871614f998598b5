"""The example that fits a photograph: a tiny run of it, and its draws by cells."""

import csv
import importlib.util
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

EXAMPLES = Path(__file__).parents[2] / "examples"
COLUMNS = ["schedule", "sampler", "seed", "step", "seconds", "psnr"]
NAMES = {"shuffled", "uniform", "vrb", "cells", "both"}


@pytest.fixture
def example(monkeypatch):
    """The example, on the CPU."""
    monkeypatch.syspath_prepend(EXAMPLES)
    spec = importlib.util.spec_from_file_location("fit_image", EXAMPLES / "fit_image.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "DEVICE", "cpu")
    return module


@pytest.fixture
def photograph(tmp_path):
    """A picture of 44 x 28 pixels: smooth, with a corner of noise."""
    values = np.linspace(0, 255, 28 * 44 * 3).reshape(28, 44, 3)
    values[:8, :8] = np.random.default_rng(0).uniform(0, 255, (8, 8, 3))
    file = tmp_path / "photograph.png"
    Image.fromarray(values.astype(np.uint8)).save(file)
    return file


def rows_of(folder):
    with (folder / "fit_image.csv").open() as file:
        return list(csv.DictReader(file))


# --- the whole of it -------------------------------------------------------------------------


def test_a_tiny_run_writes_rows_a_table_and_a_picture(example, photograph, tmp_path, capsys):
    out = tmp_path / "out"
    command = ["--image", str(photograph), "--steps", "60", "--seeds", "2", "--out", str(out)]
    example.main(command)
    rows = rows_of(out)
    assert list(rows[0]) == COLUMNS
    assert {row["sampler"] for row in rows} == NAMES
    assert {row["schedule"] for row in rows} == {"one cycle", "constant"}
    runs = {(row["schedule"], row["sampler"], row["seed"]) for row in rows}
    assert len(runs) == 2 * 5 * 2
    assert len(rows) == 31 * len(runs)
    assert all(math.isfinite(float(row[name])) for row in rows for name in ("seconds", "psnr"))
    for run in runs:
        mine = [row for row in rows if (row["schedule"], row["sampler"], row["seed"]) == run]
        steps, seconds = ([float(row[name]) for row in mine] for name in ("step", "seconds"))
        assert steps[0] == 0
        assert steps[-1] == 60
        assert steps == sorted(set(steps))
        assert seconds == sorted(seconds)
        assert float(mine[-1]["psnr"]) > float(mine[0]["psnr"]) + 3, run

    printed = capsys.readouterr().out
    assert "44 x 28 pixels" in printed
    assert printed.count("Gauge(") == 3
    for name in NAMES:
        assert re.search(rf"^{name} +\d+\.\d\d \[", printed, re.MULTILINE)
    with Image.open(out / "fit_image.png") as picture:
        assert min(picture.size) > 500
        assert len(set(picture.convert("RGB").resize((40, 40)).get_flattened_data())) > 100


def test_the_same_seed_gives_the_same_rows(example, photograph):
    """All but seconds; another seed gives others."""
    picture = example.load_picture(photograph, 1e9)
    settings = example.SMALL._replace(steps=10)
    for name in NAMES:
        one, again, other = (
            [row["psnr"] for row in example.run(name, "constant", 1e-3, seed, picture, settings)[0]]
            for seed in (3, 3, 4)
        )
        assert one == again
        assert one != other


@pytest.mark.parametrize("content", [None, b"not a picture"])
def test_a_file_that_is_no_picture_is_named(example, content, tmp_path, capsys):
    file = tmp_path / "holiday.jpg"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SystemExit) as ended:
        example.main(["--image", str(file), "--out", str(tmp_path / "out")])
    assert ended.value.code == 2
    assert f"--image {file} cannot be read as a picture" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["steps", "seeds"])
def test_numbers_below_one_are_refused(example, name, capsys):
    with pytest.raises(SystemExit):
        example.main([f"--{name}", "0"])
    assert f"--{name} must be at least 1, got 0" in capsys.readouterr().err


def test_a_large_picture_is_reduced_and_keeps_its_shape(example, photograph):
    picture = example.load_picture(photograph, 44 * 28 / 4)
    assert (picture.height, picture.width) == (14, 22)
    assert picture.colours.shape == (14 * 22, 3)


# --- draws -----------------------------------------------------------------------------------


@pytest.fixture
def ragged(example):
    """A picture whose last cells have fewer than 64 pixels, and what it is to learn from."""
    picture = example.picture_of(torch.rand(20, 27, 3))
    errors = torch.exp(picture.cells.remainder(5).float())
    return picture, errors


def adapted(sampler, errors, batches=60):
    """The sampler after it has learnt from errors."""
    for _ in range(batches):
        draw = sampler.draw(64)
        sampler.update(draw, errors[draw.indices])
    sampler.check()
    return sampler


def test_cells_are_blocks_of_eight_by_eight(example, ragged):
    cells = ragged[0].cells.reshape(20, 27)
    assert cells.max() == 3 * 4 - 1
    for row in range(20):
        for column in range(27):
            assert cells[row, column] == (row // 8) * 4 + column // 8


def test_a_pixel_of_a_cell_has_the_probability_that_is_claimed(example, ragged):
    """By enumeration: over all pixels, and with the sampler of cells."""
    picture, errors = ragged
    sampler = adapted(example.Cells(picture.cells, seed=1), errors)
    draw = sampler.draw(1000)
    chances = sampler.probabilities()
    assert chances.sum().item() == pytest.approx(1, abs=1e-12)
    assert chances.max() > 3 * chances.min()  # it has learnt something
    torch.testing.assert_close(draw.probabilities, chances[draw.indices], rtol=1e-12, atol=0)
    of_cells = sampler.sampler.probabilities()
    for cell in range(12):
        inside = picture.cells == cell
        torch.testing.assert_close(chances[inside].sum(), of_cells[cell])
        assert chances[inside].unique().numel() == 1
    torch.testing.assert_close(draw.importances.double(), 1 / (540 * draw.probabilities))
    assert (picture.cells[draw.indices] == draw.of_cells.indices).all()


def deviation(sampler, values, importance=lambda draw: draw.importances, batches=400):
    """How many standard errors the mean of estimates is from the mean over all pixels."""
    estimates = []
    for _ in range(batches):
        draw = sampler.draw(256)
        estimates.append((values[draw.indices] * importance(draw)).double().mean())
    estimates = torch.stack(estimates)
    return (estimates.mean() - values.mean()) / (estimates.std() / batches**0.5)


def test_draws_by_cells_are_unbiased(example, ragged):
    """Two wrong versions are far off: as if all cells had 64 pixels, and without importances."""
    picture, errors = ragged
    torch.manual_seed(0)
    sampler = adapted(example.Cells(picture.cells, seed=2), errors)
    values = torch.rand(540) + (picture.cells == 11) + 0.01 * errors
    assert abs(deviation(sampler, values)) < 5
    assert abs(deviation(sampler, values, lambda draw: 64 / 540 / draw.of_cells.probabilities)) > 10
    assert abs(deviation(sampler, values, lambda draw: 1.0)) > 10
    torch.testing.assert_close(
        (draw := sampler.draw(50)).mean(values[draw.indices]),
        (values[draw.indices] * draw.importances).mean(),
    )


def test_a_cell_counts_by_the_sum_over_its_pixels(example, ragged):
    """Equal errors everywhere: cells are then drawn in proportion to their pixels."""
    picture, _ = ragged
    sampler = adapted(example.Cells(picture.cells, seed=0), torch.ones(540), batches=200)
    shares = sampler.sampler.probabilities() * 540 / picture.cells.bincount()
    assert shares.min() > 0.8
    assert shares.max() < 1.25


def test_shuffled_epochs_have_every_pixel_once(example):
    sampler = example.Shuffled(103, 10)
    epochs = []
    for step in range(20):
        sampler.begin(step)
        epochs.append(sampler.draw(10).indices)
    first, second = torch.cat(epochs[:10]), torch.cat(epochs[10:])
    for epoch in (first, second):
        assert epoch.unique().numel() == 100
    assert not torch.equal(first, second)


# --- figures ---------------------------------------------------------------------------------


def test_steps_to_a_psnr_are_counted_to_the_end_of_three_looks(example):
    from fit_image_summary import arrival, levels, times_fewer

    looks = [
        {"step": 10 * k, "seconds": 0.5 * k, "psnr": psnr}
        for k, psnr in enumerate([10, 30, 11, 19, 20, 20, 23, float("nan")])
    ]
    assert levels(looks)[0] == 17
    assert levels(looks)[-1] == -np.inf
    assert arrival(looks, 20.0) == (30, 1.5)  # not 10, which one look alone would give
    assert arrival(looks, 20.5) == (60, 3.0)
    assert arrival(looks, 25.0) == (np.inf, np.inf)
    ratios = times_fewer(np.array([80.0, 80.0]), np.array([40.0, np.inf]))
    assert ratios.tolist() == [2.0, -np.inf]
