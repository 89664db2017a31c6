"""The `harmony` command, also as `python -m harmony`."""

from decima.rl.entry import run


def main() -> None:
    """Run `harmony`."""
    run("harmony.cli")


if __name__ == "__main__":
    main()
