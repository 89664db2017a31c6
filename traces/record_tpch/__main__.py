"""`python -m traces.record_tpch`."""

from __future__ import annotations

import sys

import click

from traces.errors import TraceError
from traces.record_tpch.command import tpch


def main() -> None:
    """Run the command; a user's mistake is one line and exit code 2."""
    try:
        tpch.main(prog_name="python -m traces.record_tpch", standalone_mode=False)
    except click.Abort:
        sys.exit(1)
    except click.ClickException as error:
        _refuse(error.format_message())
    except TraceError as error:
        _refuse(str(error))
    except OSError as error:
        _refuse(f"{error.filename or 'system'}: {error.strerror or error}")


def _refuse(message: str) -> None:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
