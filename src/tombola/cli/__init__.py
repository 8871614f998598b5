"""The command line: `tombola --help` lists the commands; ``pip install tombola[cli]``."""
