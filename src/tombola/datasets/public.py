"""Public data sets by name, from files in a folder or from OpenML."""

import importlib.util
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.archive import read_archive
from tombola.datasets.base import (
    DataError,
    Dataset,
    as_csr,
    checksum_of_arrays,
    checksum_of_file,  # fmt: skip
    in_words,
)

__all__ = ["PUBLIC", "PublicSet", "find", "load"]

Arrays = Mapping[str, NDArray[Any]]
FOLDER = "TOMBOLA_DATA"  # the environment variable that names the folder


class OpenML(NamedTuple):
    """A data set on OpenML; `rare` is the label that becomes 1, if there is a rare class."""

    name: str
    shape: tuple[int, int]
    rare: str | None = None
    n_train: int | None = None


class PublicSet(NamedTuple):
    """The description of a public data set, and the file that holds it."""

    what: str
    files: tuple[str, ...]  # possible names of its file
    layout: str
    source: str
    read: Callable[[Arrays], dict[str, Any]]
    openml: OpenML | None = None
    task: str = "classification"


# --- layouts ------------------------------------------------------------------------------------


def _dense(X: str = "X", y: str = "y", kind: type = np.float32) -> Callable[[Arrays], Any]:
    return lambda arrays: {"X": np.ascontiguousarray(arrays[X], dtype=kind), "y": arrays[y]}


def _sparse(arrays: Arrays) -> dict[str, Any]:
    """CSR rows whose values are all 1; the first `n_train` rows are for training."""
    values = np.ones(len(arrays["indices"]))
    X = as_csr(values, *(arrays[name] for name in ("indices", "indptr", "shape")))
    return _parted(X, arrays["y"], int(arrays["n_train"]))


def _parted(X: Any, y: NDArray[Any], n_train: int) -> dict[str, Any]:
    return {"X": X[:n_train], "y": y[:n_train], "X_test": X[n_train:], "y_test": y[n_train:]}


def _voc(arrays: Arrays) -> dict[str, Any]:
    test = _dense("Xtest", "Ytest")(arrays)
    return {
        **_dense("Xtrain", "Ytrain")(arrays), "X_test": test["X"], "y_test": test["y"],
        "targets": tuple(map(str, arrays["classes"])),
    }  # fmt: skip


def _kdd(arrays: Arrays) -> dict[str, Any]:
    return {"X": np.ascontiguousarray(arrays["Xint_T"].T / arrays["scale"]), "y": None}


def _mnist(arrays: Arrays) -> dict[str, Any]:
    return _parted(**_dense()(arrays), n_train=60_000)


# --- the sets -----------------------------------------------------------------------------------


def _rare_class(number: int, name: str, what: str, openml: OpenML | None = None) -> PublicSet:
    file = f"{number}_{name}.npz"
    source = f"ADBench, github.com/Minqi824/ADBench, its file {file}"
    read = _dense(kind=np.float64)
    return PublicSet(
        what, (f"adbench_{file}", file), "keys X and y (1 = rare)", source, read, openml
    )


def _voc_features(file: str, what: str, columns: int) -> PublicSet:
    return PublicSet(
        f"5,011 + 4,952 x {columns:,}: PASCAL VOC 2007, 20 classes, {what} features", (file,),
        f"keys Xtrain (5011 x {columns}), Xtest (4952 x {columns}), Ytrain and Ytest (20 columns "
        "of 1, -1 and 0 = difficult), classes",
        "PASCAL VOC 2007, host.robots.ox.ac.uk/pascal/VOC; features to be computed from the images",
        _voc,
    )  # fmt: skip


CSR_LAYOUT = "keys indices, indptr, shape (CSR, all values 1), y, n_train (training rows first)"

PUBLIC = {
    "a9a": PublicSet(
        "32,561 + 16,281 x 123, sparse: income above 50,000 dollars (24%)", ("libsvm_a9a.npz",),
        CSR_LAYOUT, "LIBSVM data, www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets", _sparse,
        OpenML("a9a", (48_842, 123), n_train=32_561),
    ),
    "aloi": _rare_class(1, "ALOI", "49,534 x 27: images of objects, 3.0% anomalies"),
    "campaign": _rare_class(5, "campaign", "41,188 x 62: calls of a bank, 11.3% successful"),
    "cover": _rare_class(10, "cover", "286,048 x 10: forests, 0.96% of a rare type"),
    "hapt": PublicSet(
        "80,000 x 17: phone accelerometer windows, 30 people",
        ("hapt_phone_accel_windows_80000x17.npz",), "keys X (80000 x 17), label",
        "UCI, Smartphone-Based Recognition of Human Activities and Postural Transitions",
        _dense(y="label"),
    ),
    "http": _rare_class(16, "http", "567,498 x 3: connections, 0.39% attacks"),
    "kdd": PublicSet(
        "144,879 x 74: KDD Cup 2004, protein homology, without labels",
        ("kdd2004_protein_train_144879x74.npz",),
        "keys Xint_T (74 x 144879 integers) and scale (74): X = Xint_T.T / scale",
        "KDD Cup 2004, www.kdd.org/kdd-cup/view/kdd-cup-2004/Data, its file bio_train.dat",
        _kdd, task="clustering",
    ),
    "mammography": _rare_class(
        23, "mammography", "11,183 x 6: mammograms, 2.3% with calcifications",
        OpenML("mammography", (11_183, 6), rare="1"),
    ),
    "mnist": PublicSet(
        "60,000 + 10,000 x 784: handwritten digits, ten classes", ("mnist_full_uint8.npz",),
        "keys X (70000 x 784, training rows first) and y", "MNIST, yann.lecun.com/exdb/mnist",
        _mnist, OpenML("mnist_784", (70_000, 784), n_train=60_000),
    ),
    "mushrooms": PublicSet(
        "6,513 + 1,611 x 127, sparse: poisonous mushrooms (48%)", ("mushrooms_agaricus.npz",),
        CSR_LAYOUT, "UCI, Mushroom, as in github.com/dmlc/xgboost, demo/data/agaricus.txt", _sparse,
    ),
    "shuttle": _rare_class(32, "shuttle", "49,097 x 9: space shuttle radiators, 7.2% anomalies"),
    "skin": _rare_class(
        33, "skin", "245,057 x 3: colours, 20.8% skin",
        OpenML("skin-segmentation", (245_057, 3), rare="1"),
    ),
    "smtp": _rare_class(34, "smtp", "95,156 x 3: connections, 0.03% attacks"),
    "voc-efficientnet": _voc_features(
        "voc2007_efficientnet_lite2_gap1280.npz", "EfficientNet-Lite2", 1280
    ),
    "voc-vgg19": _voc_features("voc2007_vgg19conv5_gapgmp1024.npz", "VGG-19", 1024),
}  # fmt: skip


# --- loading ------------------------------------------------------------------------------------


def load(
    name: str, folder: str | os.PathLike[str] | None = None, *, download: bool = False
) -> Dataset:
    """Return a public data set with all its rows, unscaled; see `tombola.datasets.load`.

    Raises
    ------
    DataError
        The message names the missing file, its content, where to put it and where to get it.
    """
    public = PUBLIC[name]
    path = find(name, folder)
    if path is not None:
        checksum, held = checksum_of_file(path), _read(path, public)
        return Dataset(name=name, task=public.task, source=public.source, checksum=checksum, **held)
    if download and public.openml is not None:
        return _fetch(name, public, public.openml)
    where = folder or os.environ.get(FOLDER)
    missing = f"there is no {public.files[0]} in {where}" if where else f"{name} was not found"
    place = "there" if where else f"into a folder, and pass it by --data or {FOLDER}"
    raise DataError(
        f"{missing}: put the file {' or '.join(public.files)} {place} ({public.layout}; from "
        f"{public.source})" + ("" if public.openml is None else ", or --download it from OpenML")
    )


def find(name: str, folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the file of a data set, or None if there is none."""
    where = folder or os.environ.get(FOLDER)
    if not where:
        return None
    if folder and not Path(folder).is_dir():
        raise DataError(f"there is no folder {os.fspath(folder)}")
    paths = (Path(where) / file for file in PUBLIC[name].files)
    return next((path for path in paths if path.is_file()), None)


def _read(path: Path, public: PublicSet) -> dict[str, Any]:
    arrays = read_archive(path)
    try:
        parts = public.read(arrays)
    except KeyError as error:
        raise DataError(
            f"{path} has no key {error}: expected {public.layout}, got {in_words(arrays)}"
        ) from None
    if parts["y"] is not None and len(parts["y"]) != parts["X"].shape[0]:
        raise DataError(f"{path} has {parts['X'].shape[0]} rows and {len(parts['y'])} labels")
    return parts


def _fetch(name: str, public: PublicSet, at: OpenML) -> Dataset:
    from sklearn import datasets

    parser = "auto" if importlib.util.find_spec("pandas") else "liac-arff"  # slower, without pandas
    try:
        with warnings.catch_warnings(action="ignore"):  # about retries
            bunch = datasets.fetch_openml(at.name, version=1, as_frame=False, parser=parser)
    except (OSError, ValueError) as error:  # no network, or an unexpected answer
        raise DataError(
            f"{name} could not be downloaded from OpenML ({error}): put a file {public.files[0]} "
            f"({public.layout}) into a folder, and pass it by --data or {FOLDER}"
        ) from error
    X, labels = bunch.data, np.array([str(label).strip("'\"") for label in bunch.target])
    if X.shape != at.shape:
        raise DataError(
            f"OpenML's {at.name} is {X.shape[0]} x {X.shape[1]}, not {at.shape[0]} x {at.shape[1]}:"
            " it has changed"
        )
    if hasattr(X, "tocsr"):
        X = X.tocsr()
        X = as_csr(X.data, X.indices, X.indptr, X.shape)
    else:
        X = np.ascontiguousarray(X, dtype=np.float32 if name == "mnist" else np.float64)
    y = (labels.astype(np.float64) if at.rare is None else labels == at.rare).astype(np.int64)
    parts = {"X": X, "y": y} if at.n_train is None else _parted(X, y, at.n_train)
    source, checksum = f"OpenML, {at.name}, version 1", checksum_of_arrays(X, y)
    return Dataset(name=name, task=public.task, source=source, checksum=checksum, **parts)
