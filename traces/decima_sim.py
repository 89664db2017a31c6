"""Importer of decima-sim's TPC-H folder: ``adj_mat_{q}.npy`` and ``task_duration_{q}.npy``.

Each size has a folder (``2g``, ``5g``, ...) with one pair of files for each query. The duration
files are pickles, and a pickle is a program. They are read here by a restricted unpickler. Its
instructions are checked before anything runs, and inert stand-ins replace the three numpy names in
the files, so that no code of numpy is called.

The layout and the cleaning of the first wave are those of decima-sim's `spark_env`.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
import tokenize
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traces.errors import TraceError, located
from traces.files.names import clean
from traces.files.reading import read_bytes
from traces.model import Job, LevelDurations, Stage
from traces.trace import Trace

MAX_FILE_BYTES = 64 * 2**20  # the largest file of the public set has 0.1 MB
MAX_STAGES = 2_000
MAX_SAMPLES = 20_000_000
"""durations in one file; lists may be shared inside a pickle, so the file size is no bound"""

_MAX_TUPLES = 100  # the files hold ten; nesting them deeply would exhaust the C stack
_HARMLESS_OPCODES = """
    PROTO FRAME STOP MARK EMPTY_DICT SETITEM SETITEMS EMPTY_LIST APPEND APPENDS
    EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 NONE NEWTRUE NEWFALSE BININT BININT1 BININT2
    BINFLOAT SHORT_BINSTRING BINSTRING SHORT_BINUNICODE BINUNICODE SHORT_BINBYTES BINBYTES
    BINPUT LONG_BINPUT MEMOIZE BINGET LONG_BINGET GLOBAL STACK_GLOBAL REDUCE BUILD
"""
_BROKEN_PICKLE = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    TypeError,
    ValueError,
)
# numpy parses a header as Python literals, with any of the parser's errors for a damaged one.
_BROKEN_HEADER = (
    LookupError,
    MemoryError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
    tokenize.TokenError,
)


class _PickledDtype:
    """Replacement for `numpy.dtype`; its state is not used."""

    __slots__ = ()

    def __init__(self, *arguments: object) -> None: ...

    def __setstate__(self, state: object) -> None: ...


class _PickledArray:
    """Replacement for `numpy.ndarray` that stores the state from the file."""

    __slots__ = ("state",)

    def __init__(self, *arguments: object) -> None:
        self.state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state


# `ndarray` is only ever an argument of `_reconstruct`. It must not become a class of this module: a
# pickle could set attributes on that. The other two define `__setstate__`, which prevents it.
_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): None,
    ("numpy", "dtype"): _PickledDtype,
    ("numpy.core.multiarray", "_reconstruct"): _PickledArray,
    ("numpy._core.multiarray", "_reconstruct"): _PickledArray,
}


class _RestrictedUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) not in _STAND_INS:
            name = f"{module_name}.{global_name}"
            raise TraceError(f"names {name!r:.80}, which is not allowed here")
        return _STAND_INS[module_name, global_name]


def read_decima_sim(folder: str | Path) -> Trace:
    """Read the folder of all sizes, or the folder of one size.

    Jobs are named ``{size}/q{query}``, by size then query. All executor levels are imported, with
    the first wave cleaned of the fresh durations (see `clean_first_wave`).

    Raises:
        TraceError: nothing to read there, a file of a pair is missing, or a file is damaged, too
            large, or holds anything but plain lists of durations.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise TraceError(f"{folder}: not a folder")
    pairs = _pairs(folder)
    if not pairs:
        raise TraceError(f"{folder}: holds no adj_mat_N.npy, neither directly nor in SIZE/")
    skipped = Counter[str]()
    jobs = [_read_job(path, query, skipped) for path, query in pairs]
    metadata = {
        "format": "decima-sim",
        "source": clean(folder.resolve().name),
        "sizes": list(dict.fromkeys(clean(path.name) for path, _ in pairs)),
        "skipped": dict(skipped),
    }
    return Trace(clean(folder.resolve().name), tuple(jobs), metadata)


def clean_first_wave(
    first: Mapping[int, list[float]], fresh: Mapping[int, list[float]]
) -> dict[int, list[float]]:
    """Remove the fresh tasks from the first wave, for every executor level.

    decima-sim counts a task on a fresh executor in both lists. The values of ``fresh`` are removed
    as multisets; a level left empty takes the list of the next smaller level (if any).
    """
    cleaned: dict[int, list[float]] = {}
    smaller: list[float] = []
    for level in sorted(first):
        counted = Counter(fresh.get(level, ()))
        not_fresh: list[float] = []
        for value in first[level]:
            if counted[value] > 0:
                counted[value] -= 1
            else:
                not_fresh.append(value)
        smaller = not_fresh or smaller
        cleaned[level] = smaller
    return cleaned


def _pairs(folder: Path) -> list[tuple[Path, int]]:
    """(size folder, query number) by size then query."""
    sizes = [folder.resolve()] if any(folder.glob("adj_mat_*.npy")) else list(folder.iterdir())
    pairs = [
        (size, int(match[1]))
        for size in sizes
        for path in size.glob("adj_mat_*.npy")
        if (match := re.fullmatch(r"adj_mat_([0-9]{1,6})\.npy", path.name))
    ]

    def order(pair: tuple[Path, int]) -> tuple[float, str, int]:
        match = re.match(r"[0-9]{1,9}", pair[0].name)
        return float(match[0]) if match else float("inf"), pair[0].name, pair[1]

    return sorted(pairs, key=order)


def _read_job(folder: Path, query: int, skipped: Counter[str]) -> Job:
    adjacency = _read_adjacency(folder / f"adj_mat_{query}.npy")
    path = folder / f"task_duration_{query}.npy"
    table = _read_durations(path)
    with located(path):
        if sorted(table) != list(range(len(adjacency))):
            raise TraceError(
                f"durations of stages {sorted(table)[:5]}..., "
                f"the matrix has stages 0..{len(adjacency) - 1}"
            )
        stages = tuple(
            _stage(index, adjacency[:, index].nonzero()[0].tolist(), table[index], skipped)
            for index in range(len(adjacency))
        )
        return Job(clean(f"{folder.name}/q{query}"), stages)


def _stage(
    index: int, parents: list[int], waves: dict[str, dict[int, list[float]]], skipped: Counter[str]
) -> Stage:
    raw_first, fresh, rest = waves["first_wave"], waves["fresh_durations"], waves["rest_wave"]
    if not raw_first:
        raise TraceError(f"stage {index}: first_wave names no executor level")
    first = clean_first_wave(raw_first, fresh)
    levels: list[LevelDurations] = []
    for level in sorted({*first, *fresh, *rest}):
        samples = [wave.get(level, []) for wave in (fresh, first, rest)]
        if not any(samples):
            skipped["executor levels without a duration"] += 1
            continue
        levels.append(
            LevelDurations.of(level, fresh_ms=samples[0], first_ms=samples[1], rest_ms=samples[2])
        )
    # The task count is that of the raw waves, at the level that the file happens to name first.
    any_level = next(iter(raw_first))
    num_tasks = len(raw_first[any_level]) + len(rest.get(any_level, ()))
    return Stage(str(index), num_tasks, tuple(parents), tuple(levels))


def _read_npy(path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any], bytes]:
    """Shape, column order, type and raw content of an .npy file."""
    stream = io.BytesIO(read_bytes(path, TraceError, MAX_FILE_BYTES))
    try:
        version = np.lib.format.read_magic(stream)
        read_header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, by_column, dtype = read_header(stream)
    except _BROKEN_HEADER as error:
        raise TraceError(f"{path}: not an .npy file of version 1 or 2") from error
    return shape, by_column, dtype, stream.read()


def _read_adjacency(path: Path) -> NDArray[np.bool_]:
    """(S, S): [i, j] is True where stage i is a parent of stage j."""
    shape, by_column, dtype, content = _read_npy(path)
    if len(shape) != 2 or shape[0] != shape[1] or not 1 <= shape[0] <= MAX_STAGES:
        raise TraceError(
            f"{path}: shape {shape}, an adjacency matrix is square with 1..{MAX_STAGES} stages"
        )
    if dtype.kind not in "iufb":
        raise TraceError(f"{path}: holds {dtype}, an adjacency matrix holds numbers")
    if len(content) != shape[0] * shape[1] * dtype.itemsize:
        raise TraceError(f"{path}: {len(content)} bytes of content do not fill shape {shape}")
    matrix = np.frombuffer(content, dtype).reshape(shape, order="F" if by_column else "C")
    return np.asarray(matrix > 0)


def _read_durations(path: Path) -> dict[int, dict[str, dict[int, list[float]]]]:
    """Stage -> wave -> executor level -> durations in ms, of exactly these types."""
    _, _, dtype, content = _read_npy(path)
    with located(path):
        if not dtype.hasobject:
            raise TraceError(f"holds {dtype}, expected a pickled dict of durations")
        try:
            _check_opcodes(content)
            # The instructions have just been checked, and `find_class` gives stand-ins only.
            table = _RestrictedUnpickler(io.BytesIO(content), encoding="latin1").load()
        except TraceError:
            raise
        except _BROKEN_PICKLE as error:
            raise TraceError(f"damaged pickle ({type(error).__name__})") from error
        return _checked(table)


def _check_opcodes(content: bytes) -> None:
    allowed = frozenset(_HARMLESS_OPCODES.split())
    tuples = 0
    for opcode, argument, position in pickletools.genops(content):
        if opcode.name not in allowed:
            raise TraceError(f"pickle instruction {opcode.name} at byte {position} is not allowed")
        if opcode.name == "LONG_BINPUT" and argument is not None and argument > len(content):
            # Unpickling would allocate a memo of that many entries.
            raise TraceError(
                f"pickle memo index {argument} exceeds the file's {len(content)} bytes"
            )
        tuples += opcode.name.startswith("TUPLE")
        if tuples > _MAX_TUPLES:
            raise TraceError(f"more than {_MAX_TUPLES} tuples, a duration file needs about ten")


def _checked(content: object) -> dict[int, dict[str, dict[int, list[float]]]]:
    """The dict inside a zero-dimensional object array, with every type checked."""
    state = content.state if isinstance(content, _PickledArray) else None
    payload = state[4] if isinstance(state, tuple) and len(state) == 5 else None
    if not isinstance(payload, list) or len(payload) != 1 or not isinstance(payload[0], dict):
        raise TraceError("expected an array that holds one dict of stages")
    if len(payload[0]) > MAX_STAGES:
        raise TraceError(f"{len(payload[0])} stages, at most {MAX_STAGES} are read")
    samples = 0
    for stage, waves in payload[0].items():
        if type(stage) is not int or not isinstance(waves, dict):
            raise TraceError(f"stage {stage!r:.40}: expected an integer with a dict of waves")
        for wave in ("first_wave", "rest_wave", "fresh_durations"):
            where, levels = f"stage {stage}, {wave}", waves.get(wave)
            if not isinstance(levels, dict):
                raise TraceError(f"{where}: expected a dict of executor levels")
            for level, values in levels.items():
                if type(level) is not int or not isinstance(values, list):
                    raise TraceError(
                        f"{where}, level {level!r:.40}: expected an integer with a list"
                    )
                if not {type(value) for value in values} <= {int, float}:
                    raise TraceError(f"{where}, level {level}: durations must be numbers")
                samples += len(values)
            if samples > MAX_SAMPLES:
                raise TraceError(f"more than {MAX_SAMPLES:,} durations")
    return dict(payload[0])
