"""What is loaded, and what is not until it is asked for."""

import subprocess
import sys

import pytest

pytest.importorskip("dask")
pytest.importorskip("distributed")

LOADED = (
    "import sys; print(sorted({name.split('.')[0] for name in sys.modules} & set(sys.argv[1:])))"
)


def loaded(statement, *names):
    command = [sys.executable, "-c", f"{statement}; {LOADED}", *names]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_neither_tombola_nor_its_estimators_load_dask():
    assert (
        loaded("import tombola, tombola.estimators", "dask", "distributed", "numpy") == "['numpy']"
    )


def test_the_dask_part_loads_neither_torch_nor_matplotlib():
    assert loaded("import tombola; tombola.dask", "torch", "matplotlib", "dask") == "['dask']"


def test_where_dask_is_absent_the_error_says_what_to_install():
    statement = (
        "import sys; sys.modules.update(distributed=None)\n"
        "try: import tombola.dask\n"
        "except ImportError as error: print(error)"
    )
    found = subprocess.run(
        [sys.executable, "-c", statement], check=True, capture_output=True, text=True
    )
    assert found.stdout.strip() == "tombola.dask needs Dask: pip install tombola[dask]"
