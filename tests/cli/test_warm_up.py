"""`tombola warm-up` uses each part once, and says how long that took."""

from tombola.cli import warm_up
from tombola.cli.main import main


def test_each_part_is_used_and_timed(capsys):
    assert main(["warm-up"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" s  ")[1] for line in lines[:-1]] == list(warm_up.PARTS)
    seconds = [float(line.split(" s  ")[0]) for line in lines]
    assert seconds[-1] >= max(seconds[:-1])
