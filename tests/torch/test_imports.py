"""What is loaded, and what is not until it is asked for."""

import subprocess
import sys

LOADED = (
    "import sys; print(sorted({name.split('.')[0] for name in sys.modules} & set(sys.argv[1:])))"
)


def loaded(statement, *names):
    command = [sys.executable, "-c", f"{statement}; {LOADED}", *names]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_tombola_does_not_load_torch():
    assert loaded("import tombola", "torch", "numpy") == "['numpy']"


def test_the_torch_part_loads_neither_scikit_learn_nor_matplotlib():
    others = ["sklearn", "matplotlib", "tensorboard", "wandb", "mlflow", "torch"]
    assert loaded("import tombola.torch, tombola.torch.loggers", *others) == "['torch']"


def test_scikit_learn_and_matplotlib_may_be_absent():
    absent = "import sys; sys.modules.update(sklearn=None, matplotlib=None, scipy=None)"
    assert loaded(f"{absent}; import tombola.torch", "torch") == "['torch']"
