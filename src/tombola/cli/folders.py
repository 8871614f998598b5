"""Folders that commands write to."""

from pathlib import Path

from tombola.cli.errors import CommandError

__all__ = ["check_folder"]


def check_folder(folder: Path, *, resume: bool = False, resumable: bool = True) -> None:
    """Refuse a file, and a folder that is not empty unless a run is resumed in it."""
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{folder} is a file, not a folder")
    if not resume and folder.is_dir() and any(folder.iterdir()):
        ways = "choose another folder with --out, remove it, or continue with --resume"
        if not resumable:
            ways = "choose another folder with --out, or remove it"
        raise CommandError(f"{folder} exists and is not empty: {ways}")
