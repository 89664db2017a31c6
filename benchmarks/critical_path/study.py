"""The critical-path study: two-level sums against the one-level ablation (paper, appendix E)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch

from benchmarks.critical_path.learn import Grade, Probe, ProbeConfig, fit, grade
from benchmarks.critical_path.questions import Batch, RandomDags, batch, draw_questions, trace_jobs
from decima.rl.optimiser import one_thread
from gnn.config import EncoderConfig
from traces import load_trace

TRAINED = RandomDags(stages=(2, 20))
LARGER = RandomDags(stages=(21, 40))
NETWORKS = {
    "two-level": EncoderConfig(embedding=16, hidden=(64, 64)),
    "one-level": EncoderConfig(embedding=16, hidden=(64, 64), two_level=False),
}
"""equal in all but g; wider than the scheduler's, because lengths must be exact to about 1 %"""


@dataclass(frozen=True)
class StudyConfig:
    """Sizes of the study."""

    probe: ProbeConfig = field(default_factory=ProbeConfig)
    seed: int = 0
    """seed of the DAGs, the initial weights and the batches"""
    train_questions: int = 8_000
    test_questions: int = 1_000
    """questions in each test set"""
    trace: str = "tpch"
    """name or file; its jobs are a test set"""


@dataclass(frozen=True)
class TestSet:
    """Questions that no network was trained on."""

    __test__ = False  # the name means nothing to pytest

    title: str
    asked: Batch

    @property
    def guessing(self) -> float:
        """Accuracy of naming any runnable stage."""
        runnable = torch.bincount(self.asked.question[self.asked.runnable])
        return float((1 / runnable).mean())

    @property
    def largest_work(self) -> float:
        """Accuracy of naming the runnable stage of the most work, ignoring its descendants."""
        return grade(self.asked.x[:, 0], self.asked).accuracy


@dataclass(frozen=True)
class Study:
    """Accuracy of each network on each test set."""

    tests: tuple[TestSet, ...]
    grades: Mapping[str, tuple[Grade, ...]]


ProbeProgress = Callable[[str, int, int], None]
"""called with what is being done, how much is done, and how much there is"""


def run_study(
    config: StudyConfig, progress: ProbeProgress = lambda _label, _done, _total: None
) -> Study:
    """Train both networks on the same DAGs and grade them; the same `config`, the same result."""
    trace = load_trace(config.trace)
    train_rng, test_rng = _stream(config.seed, "train"), _stream(config.seed, "test")
    questions = draw_questions(
        TRAINED.draw(train_rng),
        config.train_questions,
        train_rng,
        lambda done: progress("drawing DAGs", done, config.train_questions),
    )
    jobs = {
        "random, 2 to 20 stages (as in training)": TRAINED.draw(test_rng),
        "random, 21 to 40 stages": LARGER.draw(test_rng),
        f"{trace.name}, {len(trace.jobs)} jobs": trace_jobs(trace, test_rng),
    }
    tests = tuple(
        TestSet(title, batch(draw_questions(source, config.test_questions, test_rng)))
        for title, source in jobs.items()
    )
    grades: dict[str, tuple[Grade, ...]] = {}
    for name, network in NETWORKS.items():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            probe = Probe(network)

        def show(step: int, label: str = f"training {name}") -> None:
            progress(label, step, config.probe.steps)

        with one_thread():
            fit(probe, questions, config.probe, _stream(config.seed, "batches"), show)
            with torch.no_grad():
                grades[name] = tuple(grade(probe(test.asked), test.asked) for test in tests)
    return Study(tests, grades)


def _stream(seed: int, name: str) -> np.random.Generator:
    """The random numbers for one cause; both networks get the same batches."""
    index = ("train", "test", "batches").index(name)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,)))
