"""The `decima` command, also as `python -m decima`."""

from decima.rl.entry import run


def main() -> None:
    """Run `decima`."""
    run("decima.cli.main")


if __name__ == "__main__":
    main()
