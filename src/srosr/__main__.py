"""``python -m srosr`` is the same as the command ``srosr``."""

from .cli.app import main

if __name__ == "__main__":
    main(prog_name="srosr")
