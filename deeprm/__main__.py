"""The `deeprm` command, also as `python -m deeprm`."""

from decima.rl.entry import run


def main() -> None:
    """Run `deeprm`."""
    run("deeprm.cli")


if __name__ == "__main__":
    main()
