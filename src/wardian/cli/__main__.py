"""`python -m wardian.cli` is the command `wardian`."""

from wardian.cli import main

if __name__ == "__main__":
    main()
