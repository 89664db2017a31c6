"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from traces.errors import TraceError


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path` to write to; it takes the place of `path` at the end.

    The suffix is kept, for writers that choose a format by it. If anything fails, the temporary
    file is removed and `path` stays as it was.

    Raises:
        TraceError: the file cannot be written.
    """
    partial = path.with_name(f".{os.getpid()}.partial.{path.name}")
    try:
        yield partial
        os.replace(partial, path)
    except OSError as error:
        raise TraceError(f"{path}: cannot write: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):  # it is not there, or its folder is not
            partial.unlink()
