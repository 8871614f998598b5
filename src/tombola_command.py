"""The entry point of the command line: Ctrl-C is one line, also while modules are imported."""

import os
import sys  # both are there when Python has started; anything else takes a moment

__all__ = ["INTERRUPTED", "interrupted", "main"]

INTERRUPTED = 130  # the exit code after Ctrl-C


def interrupted(arguments: list[str], message: str = "") -> str:
    """Return the line that is printed after Ctrl-C."""
    hint = "; the same command with --resume continues" if "train" in arguments[:1] else ""
    return f"tombola: {message or f'interrupted{hint}'}"


def main() -> int:
    """Import the commands, and run one."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # else Ctrl-C is ignored
        signal.signal(signal.SIGINT, _stop)
    from tombola.cli.main import main as run

    signal.signal(signal.SIGINT, usual)
    return run()


def _stop(*signal_and_frame: object) -> None:
    print(f"\n{interrupted(sys.argv[1:])}", file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)  # nothing has begun that could be left half done


try:
    import signal
except KeyboardInterrupt:
    _stop()

if __name__ == "__main__":
    sys.exit(main())
