"""Options that several subcommands share, and the settings they add up to."""

from __future__ import annotations

import dataclasses
import shlex
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
from click.core import ParameterSource

from decima.errors import ConfigError
from decima.evaluation import ARRIVAL_PATTERNS, EvaluationConfig
from decima.objectives import OBJECTIVES
from decima.policy_names import is_learned, model_path
from decima.rl.option_types import INPUT, NAME_OR_FILE, OUTPUT, POLICIES, SECONDS, Whole
from decima.training.tuning import read_tuned
from spark_sim import Protocol
from spark_sim.cluster import parse_classes
from traces.parquet import check_output
from traces.spark_log import GroupBy
from traces.spark_log.elsewhere import is_elsewhere, without_credentials

if TYPE_CHECKING:
    from decima.report import Section

F = TypeVar("F", bound=Callable[..., Any])


def config_options(
    kind: type, types: Mapping[str, click.ParamType[Any]] | None = None, /, **words: str
) -> Callable[[F], F]:
    """Return a decorator that adds an option for each named field of a configuration.

    Args:
        kind: a frozen dataclass. A field `moving_delay_s` becomes `--moving-delay`, and keeps its
            name as the command's argument. One that may be None has no default to show.
        types: click's type by field, where it does not follow from the field's.
        words: help by field, in the order of the command's own help.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}
    hints = typing.get_type_hints(kind)
    options = []
    for name, help_ in words.items():
        label = name.removesuffix("_s").replace("_", "-")
        default = fields[name].default
        has_default = default not in (None, dataclasses.MISSING)
        options.append(
            click.option(
                f"--{label}",
                name,
                type=(types or {}).get(name) or _click_type(hints[name]),
                default=default if has_default else None,
                show_default=has_default,
                help=help_ or None,
            )
        )
    return lambda command: added(command, *options)


def added(command: F, *options: Callable[[F], F]) -> F:
    """Return the command with these options, in their order."""
    for option in reversed(options):
        command = option(command)
    return command


def _click_type(hint: Any) -> Any:
    """Return click's type for a field's: no number in a configuration is negative."""
    if typing.get_origin(hint) in (typing.Union, UnionType):
        hint = next(kind for kind in typing.get_args(hint) if kind is not NoneType)
    if typing.get_origin(hint) is Literal:
        return click.Choice(typing.get_args(hint))
    return {int: Whole(0), float: SECONDS}.get(hint, hint)


_DEFAULT = EvaluationConfig()

_trace = config_options(
    EvaluationConfig,
    {"trace": NAME_OR_FILE},
    trace="Name or file.",
    executors="",
    jobs="In each sequence.",
)
_sequences = config_options(
    EvaluationConfig, interarrival_s="Mean seconds between arrivals.", sequences=""
)
ESTIMATES_HELP = "Task durations that policies observe; noisy: off by up to 50 %."
_arrivals = config_options(
    EvaluationConfig,
    {"arrivals": NAME_OR_FILE},
    seed="",
    arrivals=f"{', '.join(ARRIVAL_PATTERNS)}, or a CSV file with columns arrival_ms,job. "
    "`recorded` and a file have jobs and times: --jobs and --interarrival are not used then.",
)
_batch = click.option("--batch", is_flag=True, help="All jobs at time 0 (--arrivals batch).")
_cluster = config_options(
    EvaluationConfig,
    protocol=f"{', '.join(protocol.label for protocol in Protocol)}.",
    moving_delay_s="Seconds to start an executor in another job.",
    warmup_delay_s="Seconds added to an unmeasured first task.",
    classes="Executors of several sizes, GBxCOUNT separated by commas: 4x12,8x6; 4:1x12 has a "
    "core each. Gives --executors.",
    demands="Memory that tasks need, for --classes: from the trace, or drawn uniformly.",
    time_limit_s="Truncate runs, in seconds.",
    max_jobs="Jobs that run at once, in a session; the policy chooses among those that wait.",
    estimates=ESTIMATES_HELP,
)


def checked_option(
    *names: str, check: Callable[[Any], object] | None = None, **settings: Any
) -> Callable[[F], F]:
    """Return a click option whose value, if there is one, `check` may refuse before the work."""

    def checked(_context: click.Context, _option: click.Parameter, value: Any) -> Any:
        if value is not None and check is not None:
            check(value)
        return value

    return click.option(*names, callback=checked, **settings)


def output_option(words: str, **settings: Any) -> Callable[[F], F]:
    """Return the option ``-o`` of a command, the file that it writes."""
    settings = {"type": OUTPUT, "required": True, **settings}
    return checked_option("-o", "--output", help=words, **settings)


TUNED = click.option(
    "--tuned",
    multiple=True,
    type=INPUT,
    help="Parameters from `decima tune` or `decima fit-rule`; may be repeated.",
)
"""parameters of heuristics, for `read_all_tuned`"""
JSON = click.option("--json", "json_path", type=OUTPUT, help="Write all figures as JSON.")
TRACE_OUTPUT = output_option("Trace file to write (.parquet).", check=check_output)

OBJECTIVE_HELP = (
    f"What to minimise and compare: {', '.join(OBJECTIVES)} (weights and deadlines come with the "
    "trace), deadlines:FACTOR (share of jobs that take longer than FACTOR times their time alone), "
    "or FILE.py:FUNCTION of your own."
)
OBJECTIVE = config_options(EvaluationConfig, {"objective": POLICIES}, objective=OBJECTIVE_HELP)
"""option of the commands that compare or fit policies"""

GROUP_BY = click.option(
    "--group-by",
    type=click.Choice([choice.value for choice in GroupBy]),
    default=GroupBy.SQL.value,
    show_default=True,
    help="What makes one job: a SQL execution (outside SQL a Spark job), a Spark job, a job group.",
)
"""option of all commands that read event logs of Spark"""


def workload_options(command: F) -> F:
    """Add the options that describe trace, arrivals and cluster."""
    return _trace(_sequences(_arrivals(_batch(_cluster(command)))))


def training_options(command: F) -> F:
    """Add `workload_options`, with several mean gaps and sequences for each generation."""
    gaps = click.option(
        "--interarrival",
        "interarrival_s",
        multiple=True,
        type=SECONDS,
        default=(_DEFAULT.interarrival_s,),
        show_default=True,
        help="Mean seconds between arrivals; may be repeated.",
    )
    sequences = click.option(
        "--sequences",
        type=Whole(1, 100_000),
        default=4,
        show_default=True,
        help="In a generation, of each mean gap.",
    )
    return _trace(gaps(sequences(_arrivals(_batch(_cluster(command))))))


def _is_given(name: str) -> bool:
    """Return whether the user set a parameter of the current command."""
    source = click.get_current_context().get_parameter_source(name)
    return source not in (None, ParameterSource.DEFAULT)


def refuse_given(option: str, *names: str) -> None:
    """Refuse (UsageError) parameters that make no sense with an option, where the user set one."""
    options = {each.name: each.opts[0] for each in click.get_current_context().command.params}
    for name in names:
        if _is_given(name):
            raise click.UsageError(f"{option} knows no {options[name]}")


def build_config(
    options: Mapping[str, Any],
    policies: tuple[str, ...],
    parameters: Mapping[str, Mapping[str, float]] | None = None,
) -> EvaluationConfig:
    """Combine the options of `workload_options` to settings; ValueError if they break a rule."""
    settings = dict(options)
    if settings.pop("batch"):
        if _is_given("arrivals") and settings["arrivals"] != "batch":
            raise ConfigError(f"--batch contradicts --arrivals {settings['arrivals']}")
        settings["arrivals"] = "batch"
    if settings["classes"] is not None and not _is_given("executors"):
        settings["executors"] = sum(kind.count for kind in parse_classes(settings["classes"]))
    return EvaluationConfig(policies=policies, parameters=parameters or {}, **settings)


def check_page(path: Path) -> None:
    """Refuse names of pages that do not end in .html."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise click.BadParameter(f"{path} is a page: its name must end in .html")


REPORT = checked_option(
    "--report", "page", type=OUTPUT, check=check_page, help="Write an HTML report."
)


def write_report(path: Path, sections: Sequence[Section], title: str | None = None) -> None:
    """Write a page that shows the command line."""
    # Only a page needs these libraries, which load slowly.
    from decima.report import write_page

    title = "Comparison of schedulers" if title is None else title
    write_page(path, sections, title=title, command=command_line())


def command_line() -> str:
    """Return the command line as typed, but for credentials in addresses: pages are shared."""
    words = (without_credentials(word) if is_elsewhere(word) else word for word in sys.argv[1:])
    return shlex.join(["decima", *words])


def read_all_tuned(paths: tuple[Path, ...]) -> dict[str, Mapping[str, float]]:
    """Parameters by policy from the files of `decima tune`."""
    by_policy: dict[str, Mapping[str, float]] = {}
    for path in paths:
        policy, parameters = read_tuned(path)
        if policy in by_policy:
            raise ConfigError(f"{path}: parameters for {policy!r} were given already")
        by_policy[policy] = parameters
    return by_policy


def load_models(names: Iterable[str], protocol: Protocol | None = None) -> None:
    """Load the models of learned policies, before anything runs, and begin to compile kernels.

    Args:
        names: of all policies. A model file that cannot be used is refused.
        protocol: of the simulations that follow; None: only the network compiles ahead.
    """
    from decima.ahead import compile_ahead

    learned = [name for name in names if is_learned(name)]
    if learned:
        from decima.agent.model import shared_model

        for name in learned:
            shared_model(model_path(name))
    compile_ahead(learned if protocol is None else names, protocol)


def parse_names(text: str) -> tuple[str, ...]:
    """Names separated by commas, without blanks."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
