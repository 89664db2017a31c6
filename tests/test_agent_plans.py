"""Plans of a whole round: drawn as their formula says, likely as their formula says."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from decima.agent import plan_probabilities, plans
from decima.agent.columns import Choices
from decima.agent.forward_kernels import Scores
from decima.agent.graph import Graph, Nodes
from decima.agent.plans import Plans
from gnn.levels import Levels
from spark_sim.tables import ANY, NONE
from traces.numbers import Float32

DRAWS = 20_000


def decisions_of(
    stages: Sequence[Sequence[int]],
    limits: Sequence[Sequence[int]],
    kinds: Sequence[int] | None = None,
) -> tuple[Graph, Choices]:
    """Decisions whose jobs have so many open stages, and so many limits; columns are left out.

    Stage rows of the scene are 100, 101, ...; limits of every job 1, 2, ...; with `kinds`, each
    open stage may be given so many classes, 7, 8, ...
    """
    per_job = [count for decision in stages for count in decision]
    per_limit = [count for decision in limits for count in decision]
    jobs = np.array([len(decision) for decision in stages])
    open_job = np.repeat(np.arange(len(per_job)), per_job)
    limit_job = np.repeat(np.arange(len(per_limit)), per_limit)
    per_kind = [0] * len(open_job) if kinds is None else list(kinds)
    kind_stage = np.repeat(np.arange(len(open_job)), per_kind)
    nothing = torch.empty(0, dtype=torch.int64)
    graph = Graph(
        stage_x=torch.empty((len(open_job), 0)),
        job_x=torch.empty((len(per_job), 0)),
        cluster_x=torch.empty((len(jobs), 0)),
        limit_x=torch.empty((len(limit_job), 0)),
        class_x=torch.empty((len(kind_stage), 0)),
        job_of_stage=torch.from_numpy(open_job),
        job_of_limit=torch.from_numpy(limit_job),
        stage_of_class=torch.from_numpy(kind_stage),
        decision_of_job=torch.from_numpy(np.repeat(np.arange(len(jobs)), jobs)),
        nodes=Nodes(
            torch.empty(0), Levels((0,), nothing, nothing, (0,)), nothing, nothing, nothing
        ),
    )
    none = np.empty(0)
    choices = Choices(
        stage_x=graph.stage_x.numpy(),
        job_x=graph.job_x.numpy(),
        cluster_x=graph.cluster_x.numpy(),
        limit_x=graph.limit_x.numpy(),
        class_x=graph.class_x.numpy(),
        decision_of_job=graph.decision_of_job.numpy(),
        job_ptr=plans.pointers(jobs),
        open_stage=100 + np.arange(len(open_job)),
        open_job=open_job,
        open_ptr=plans.pointers(np.array([sum(decision) for decision in stages])),
        first_open=plans.pointers(np.array(per_job)),
        limit=np.concatenate([np.arange(1, count + 1) for count in per_limit]),
        limit_job=limit_job,
        limit_ptr=plans.pointers(np.array(per_limit)),
        kind=np.concatenate([np.arange(7, 7 + count) for count in per_kind]).astype(np.int64),
        kind_stage=kind_stage,
        kind_ptr=plans.pointers(np.array(per_kind)),
        path_ms=none,
        height=none,
        order=np.empty((2, 0), np.int64),
        less=np.empty(0, np.int64),
    )
    return graph, choices


def random_scores(graph: Graph, seed: int) -> Scores[Tensor]:
    rng = torch.Generator().manual_seed(seed)
    sizes = (graph.stage_x, graph.cluster_x, graph.limit_x, graph.class_x, graph.cluster_x)
    return Scores(*(torch.randn(len(size), generator=rng) for size in sizes))


def acting(scores: Scores[Tensor]) -> Scores[Float32]:
    """The same as arrays, as the compiled forward pass gives them."""
    return Scores(*(logits.numpy() for logits in scores))


# One decision before, so that all rows are shifted: the second has a job with two open stages, one
# with one, and one with none; its open stages may be given 2, 1 and 3 classes.
GRAPH, CHOICES = decisions_of([[1], [2, 0, 1]], [[2], [3, 0, 2]], [2, 2, 1, 3])
SCORES = random_scores(GRAPH, 5)
STAGES, END = SCORES.stage[1:].double(), float(SCORES.end[1])
LIMITS = {0: SCORES.limit[2:5].double(), 2: SCORES.limit[5:7].double()}
JOB_OF_ENTRY = {0: 0, 1: 0, 2: 2}
"""of the second decision's three open stages; entry 3 is the end"""


def softmax(values: Sequence[float] | Tensor) -> list[float]:
    weights = np.exp(np.asarray(values, np.float64))
    return list((weights / weights.sum()).tolist())


def order_probability(order: Sequence[int]) -> float:
    """Of drawing the entries one after the other without replacement, each by a softmax."""
    logits = [*STAGES.tolist(), END]
    left, total = [0, 1, 2, 3], 1.0
    for entry in order:
        total *= softmax([logits[candidate] for candidate in left])[left.index(entry)]
        left.remove(entry)
    return total


def limit_probability(limit: dict[int, int]) -> float:
    return float(np.prod([softmax(LIMITS[job])[number] for job, number in limit.items()]))


KINDS = [softmax(SCORES.kind[first:last].double()) for first, last in ((2, 4), (4, 5), (5, 8))]
"""of the second decision's open stages, how likely each class is"""


def kinds_of(numbers: Sequence[int]) -> list[int]:
    """Classes of the three stages, counted through the decision, and none for the end."""
    return [number + first for number, first in zip(numbers, (0, 2, 3), strict=True)] + [-1]


def plan_of(
    order: Sequence[int], used: int, limit: Sequence[int], kinds: Sequence[int] = (0, 0, 0)
) -> Plans:
    """Of the second decision."""
    return Plans(
        np.array([1]),
        np.array([0, len(order)]),
        np.array(order),
        np.array([used]),
        np.array([0, 3]),
        np.array(limit),
        np.array(kinds_of(kinds)),
    )


# --- how likely ----------------------------------------------------------------------------------


@pytest.mark.parametrize("used", [1, 2, 3, 4])
def test_log_probability_is_that_of_every_possible_plan(used: int) -> None:
    """All orders times all limits and classes: of the entries looked at, and of the jobs of those.
    Stages that were not reached have none, whatever stands there; nor has the end.
    """
    for order in itertools.permutations(range(4)):
        stages = [entry for entry in order[:used] if entry != 3]
        for (first, second), (kind, other) in zip(
            itertools.product(range(3), range(2)),
            itertools.product(range(2), range(3)),
            strict=True,
        ):
            # Limits of a decision are counted through: those of the third job begin at 3.
            plan = plan_of(order, used, [first, -1, 3 + second], (kind, 0, other))
            taken = plan_probabilities.taken(SCORES, GRAPH, plan)
            chosen = {JOB_OF_ENTRY[entry]: (first, first, second)[entry] for entry in stages}
            expected = order_probability(order[:used]) * limit_probability(chosen)
            expected *= float(np.prod([KINDS[entry][(kind, 0, other)[entry]] for entry in stages]))
            assert float(taken.log_prob) == pytest.approx(np.log(expected), abs=1e-5)


def test_entropy_is_a_share_of_the_greatest() -> None:
    """Stages, limits and classes have a third each: of those, 1 where all choices are equally
    likely, near 0 where one is certain.
    """
    equal = Scores(*(torch.zeros_like(score) for score in SCORES))
    plan = plan_of([0, 2, 3, 1], 4, [0, -1, 3])
    # The stage with a single class has no entropy: of the three looked at, two have all.
    entropy = float(plan_probabilities.taken(equal, GRAPH, plan).entropy)
    assert entropy == pytest.approx((1 + 1 + 2 / 3) / 3)
    sure_classes = equal._replace(kind=torch.tensor([0.0, 0.0, 90.0, 0.0, 0.0, 90.0, 0.0, 0.0]))
    entropy = float(plan_probabilities.taken(sure_classes, GRAPH, plan).entropy)
    assert entropy == pytest.approx(2 / 3)
    certain = sure_classes._replace(
        stage=torch.tensor([0.0, 50.0, 0.0, 0.0]),
        limit=torch.tensor([0.0, 0.0, 50.0, 0.0, 0.0, 50.0, 0.0]),
    )
    assert float(plan_probabilities.taken(certain, GRAPH, plan).entropy) < 1e-3
    # Where there are no classes, stages and limits have a half each.
    plain, _ = decisions_of([[1], [2, 0, 1]], [[2], [3, 0, 2]])
    half = equal._replace(kind=torch.zeros(0))
    assert float(plan_probabilities.taken(half, plain, plan).entropy) == pytest.approx(1.0)


def test_gradients_are_finite_where_only_one_choice_is_legal() -> None:
    """One stage with one limit beside the end; also where a choice is all but impossible."""
    graph, _ = decisions_of([[1]], [[1]])
    for height in (0.0, 200.0, -200.0):
        leaves = [torch.tensor([height], requires_grad=True) for _ in range(3)]
        scores = Scores(leaves[0], -leaves[1], leaves[2], torch.zeros(0), torch.zeros(1))
        plan = Plans(
            *(np.array(values) for values in ([0], [0, 2], [0, 1], [1], [0, 1], [0], [-1, -1]))
        )
        taken = plan_probabilities.taken(scores, graph, plan)
        (taken.log_prob.sum() + taken.entropy.sum()).backward()
        for leaf in leaves:
            assert leaf.grad is not None
            assert bool(leaf.grad.isfinite().all())
    assert leaves[2].grad is not None
    assert leaves[2].grad.tolist() == [0.0]


# --- draws ---------------------------------------------------------------------------------------


def keys_of(count: int, seed: int = 0) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.random.default_rng(seed).integers(1, 2**64, count, np.uint64)


def to_the_end(order: Sequence[int]) -> tuple[int, ...]:
    """What of an order says something."""
    return tuple(order[: list(order).index(3) + 1])


def test_draws_follow_the_probabilities() -> None:
    """Orders up to the end and limits, and both together: chi-square of 20,000 draws, far from
    refusal.
    """
    drawn = plans.draw(acting(SCORES), CHOICES, np.ones(DRAWS, np.int64), keys_of(DRAWS))
    orders = drawn.order.reshape(DRAWS, 4)
    limits = drawn.limit.reshape(DRAWS, 3)
    assert (limits[:, 1] == -1).all()
    counts = Counter(
        (to_the_end(order), int(first), int(third) - 3)
        for order, (first, _, third) in zip(orders.tolist(), limits.tolist(), strict=True)
    )
    square = 0.0
    orders_to_the_end = sorted({to_the_end(order) for order in itertools.permutations(range(4))})
    cells = list(itertools.product(orders_to_the_end, range(3), range(2)))
    for order, first, third in cells:
        expected = DRAWS * order_probability(order) * limit_probability({0: first, 2: third})
        square += (counts[order, first, third] - expected) ** 2 / expected
    freedom = len(cells) - 1
    assert abs(square - freedom) < 4 * np.sqrt(2 * freedom)


def test_the_likeliest_plan_is_in_the_order_of_the_logits() -> None:
    """Each job with the median of its limits, each stage with its likeliest class; no key draws."""
    plan = plans.draw(acting(SCORES), CHOICES, np.array([1]), None)
    logits = [*STAGES.tolist(), END]
    expected = sorted(range(4), key=lambda entry: -logits[entry])
    assert to_the_end(plan.order.tolist()) == to_the_end(expected)
    assert sorted(plan.order.tolist()) == [0, 1, 2, 3]
    assert plan.limit.tolist() == [median_of(LIMITS[0]), -1, 3 + median_of(LIMITS[2])]
    best = [int(np.argmax(kind)) for kind in KINDS]
    assert plan.kind.tolist() == kinds_of(best)
    wanted = plans.preferences(plan, CHOICES)
    classes = {100 + 1 + stage: 7 + number for stage, number in enumerate(best)} | {NONE: ANY}
    assert wanted.kind.tolist() == [classes[stage] for stage in wanted.stage.tolist()]


def median_of(logits: Tensor) -> int:
    """The first limit up to which half of the probability lies."""
    below = torch.softmax(logits.double(), 0).cumsum(0)
    return int((below >= 0.5 - 1e-12).nonzero()[0])


# --- what the simulator is told ------------------------------------------------------------------


def test_preferences_name_stages_and_their_jobs_limits() -> None:
    """Rows of the scene, in the plan's order; the end as NONE."""
    both = Plans(
        decision=np.array([1, 0]),
        ptr=np.array([0, 4, 6]),
        order=np.array([2, 0, 3, 1, 1, 0]),
        used=np.array([4, 2]),
        job_ptr=np.array([0, 3, 4]),
        limit=np.array([2, -1, 4, 1]),
        kind=np.array([*kinds_of((1, 0, 2)), 1, -1]),
    )
    wanted = plans.preferences(both, CHOICES)
    assert wanted.ptr.tolist() == [0, 4, 6]
    assert wanted.stage.tolist() == [103, 101, NONE, 102, NONE, 100]
    assert wanted.limit.tolist() == [2, 3, 0, 3, 0, 2]
    assert wanted.kind.tolist() == [9, 8, ANY, 7, ANY, 8]
