"""The ``holdfast`` program, and ``python -m holdfast``, where that is not on the path."""

import sys


def main() -> None:
    """Run the command line. Loading it takes a moment, in which Ctrl-C ends it as it does later: without a traceback."""
    try:
        from holdfast.cli.app import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
