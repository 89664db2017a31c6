"""Metadata of a model file, read without torch and without its weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from decima.spark.errors import AttachError
from traces.files.numbers import is_count
from traces.files.reading import parse_json


def read_card(path: Path) -> Mapping[str, Any]:
    """The card in the header of a model file. Loading the model checks the rest.

    Raises:
        AttachError: it cannot be read, or is no model of `decima train`.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            header = parse_json((file.metadata() or {}).get("json", "{}"), str(path))
    except FileNotFoundError as error:
        raise AttachError(f"{path}: no such file") from error
    except (OSError, SafetensorError, ValueError) as error:
        raise AttachError(f"{path}: not a model file, or damaged: {error}") from error
    card = header.get("card") if isinstance(header, dict) else None
    if not isinstance(card, dict) or "network" not in header:
        raise AttachError(f"{path}: not a model of `decima train`")
    return card


def trained_slots(card: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the least and most slots that a model was trained for; None if its card lacks them."""
    workload: Any = card
    for key in ("config", "workload"):
        workload = workload.get(key) if isinstance(workload, dict) else None
    if not isinstance(workload, dict):
        return None
    settings = workload.get("settings") or [workload]
    rows = settings if isinstance(settings, list) else []
    found = [one.get("executors") for one in rows if isinstance(one, dict)]
    sizes = [size for size in found if is_count(size)]
    return (min(sizes), max(sizes)) if sizes else None
