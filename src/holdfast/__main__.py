"""``python -m holdfast``: the command line, where the program itself is not on the path."""

from holdfast.cli.app import main

if __name__ == "__main__":
    main()
