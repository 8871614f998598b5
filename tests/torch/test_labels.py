"""Labels that a loader finds by itself."""

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

from tombola import VRB, GroupVRB
from tombola.torch import DeviceLoader, ImportanceLoader, ImportanceSampler
from tombola.torch.loader import labels

N = 200
Y = torch.arange(N) % 10


class Labelled(Dataset):
    """Items with labels in an attribute, as in torchvision."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def __len__(self):
        return len(next((given for given in vars(self).values() if given is not None), range(N)))

    def __getitem__(self, item):
        return float(item)


class Columns(Dataset):
    """A table with columns."""

    def __init__(self, **columns):
        self.columns, self.column_names = columns, list(columns)

    def __len__(self):
        return N

    def __getitem__(self, key):
        return self.columns[key] if isinstance(key, str) else float(key)


FOUND = {
    "targets": (Labelled(targets=Y), "dataset.targets"),
    "targets, a list": (Labelled(targets=Y.tolist()), "dataset.targets"),
    "targets before labels": (Labelled(labels=Y // 2, targets=Y.numpy()), "dataset.targets"),
    "labels": (Labelled(labels=Y.numpy(), targets=None), "dataset.labels"),
    "labels where targets are numbers": (
        Labelled(labels=Y.numpy(), targets=torch.rand(N)), "dataset.labels"),
    "strings": (Labelled(labels=[str(y) for y in Y.tolist()]), "dataset.labels"),
    "tensors": (TensorDataset(torch.rand(N, 3), Y), "dataset.tensors[1]"),
    "tensors, a column of whole numbers": (
        TensorDataset(Y.to(torch.uint8), torch.arange(N)[:, None]), "dataset.tensors[0]"),
    "a column, as in Hugging Face": (
        Columns(text=["a"] * N, label=Y.tolist()), "dataset['label']"),
    "a part": (
        Subset(Labelled(targets=torch.cat([Y, Y])), range(N, 2 * N)),
        "dataset.targets of a Subset"),
    "parts together": (
        ConcatDataset([Labelled(targets=Y[:50]), Labelled(targets=Y[50:].tolist())]),
        "dataset.targets of a ConcatDataset"),
    "several labels": (Labelled(labels=[[int(y), 10] for y in Y]), "dataset.labels"),
    "a matrix of 0 and 1": (
        Labelled(targets=torch.eye(11)[Y] + torch.eye(11)[10]), "dataset.targets"),
}  # fmt: skip

NOT_FOUND = {
    "nothing": (Labelled(), "no labels found"),
    "numbers": (Labelled(targets=torch.rand(N)), "no labels found"),
    "rows": (Labelled(targets=torch.zeros(N, 2, dtype=torch.int64)), "no labels found"),
    "of another length": (Labelled(labels=torch.rand(N), targets=Y[1:]), "no labels found"),
    "ragged": (Labelled(targets=[["a"], ["a", "b"]] * (N // 2)), "no labels found"),
    "too many": (Labelled(targets=torch.arange(N) % 11), "dataset.targets has 11 labels for 200"),
    "two tensors": (TensorDataset(Y, Y), "dataset.tensors[0] and dataset.tensors[1] may both be"),
}


@pytest.fixture(autouse=True)
def silent(monkeypatch):
    """What was said in other tests may be said again."""
    monkeypatch.setattr(labels, "_said", set())
    monkeypatch.delenv("TOMBOLA_QUIET", raising=False)


def said(capfd):
    """What was said about groups; kernels may be compiled, too."""
    return [line for line in capfd.readouterr().err.splitlines() if "groups" in line]


@pytest.mark.parametrize("name", FOUND)
def test_labels_are_found(name, capfd):
    dataset, where = FOUND[name]
    loader = ImportanceLoader(dataset, 20, groups="auto", seed=3)
    assert isinstance(loader.sampler, GroupVRB)
    given = ImportanceLoader(dataset, 20, groups=Y, seed=3)
    drawn, expected = ([draw.indices.tolist() for _, draw in each] for each in (loader, given))
    assert drawn == expected
    assert said(capfd) == [f'tombola: groups="auto": the 10 labels in {where}']
    ImportanceLoader(dataset, 20, groups="auto")
    assert said(capfd) == []  # once
    loader = ImportanceLoader(dataset, 20, groups="labels", seed=3)
    assert [draw.indices.tolist() for _, draw in loader] == expected


@pytest.mark.parametrize("name", NOT_FOUND)
def test_no_labels(name, capfd):
    dataset, why = NOT_FOUND[name]
    assert isinstance(ImportanceLoader(dataset, 20, groups="auto").sampler, VRB)
    (line,) = said(capfd)
    assert line.startswith(f'tombola: groups="auto": {why}')
    assert line.endswith("so there are no groups")
    with pytest.raises(ValueError) as error:
        ImportanceLoader(dataset, 20, groups="labels")
    assert why in str(error.value)
    assert "; looked in dataset.targets" in str(error.value)


def test_of_several_labels_the_rarest():
    rows = [[0, 1], [0], [2, 0], [], [1, 0]]
    assert labels.rarest(rows, 5).tolist() == [1, 0, 2, -1, 1]
    assert labels.rarest([[0]] * 5, 5) is None


def test_at_most_one_label_for_twenty_items():
    for count, taken in ((10, True), (11, False)):
        found, _ = labels.groups_of(Labelled(targets=np.arange(N) % count), N)
        assert (found is not None) == taken


def test_nothing_is_searched_or_said_unless_asked_for(capfd):
    loader = ImportanceLoader(FOUND["tensors"][0], 20)
    assert isinstance(loader.sampler, VRB)
    assert said(capfd) == []


def test_quiet(monkeypatch, capfd):
    monkeypatch.setenv("TOMBOLA_QUIET", "1")
    ImportanceLoader(FOUND["tensors"][0], 20, groups="auto")
    assert said(capfd) == []


def test_a_device_loader_finds_them_too(capfd):
    loader = DeviceLoader(FOUND["tensors"][0], 20, groups="auto")
    given = DeviceLoader(FOUND["tensors"][0], 20, groups=Y)
    assert type(loader.sampler) is type(given.sampler)
    assert next(iter(loader))[1].indices.tolist() == next(iter(given))[1].indices.tolist()
    assert said(capfd) == ['tombola: groups="auto": the 10 labels in dataset.tensors[1]']


def test_other_words_are_refused():
    with pytest.raises(ValueError, match='groups must be "labels", "auto" or the group of each'):
        ImportanceLoader(FOUND["tensors"][0], 20, groups="label")
    with pytest.raises(ValueError, match="labels are found by an ImportanceLoader"):
        ImportanceSampler(N, 20, groups="auto")
