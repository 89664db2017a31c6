"""Search: plans compared in futures that tell nothing of what is to come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from decima import EvaluationConfig, evaluate
from decima.agent import plans
from decima.agent.graph import GraphSorter
from decima.agent.lookahead.candidates import Width, candidates
from decima.agent.lookahead.future_kernels import forget
from decima.agent.lookahead.lookahead import Futures, Lookahead, Proposal, Verdict
from decima.agent.lookahead.policy import SearchPolicy
from decima.agent.network import PolicyNetwork
from decima.agent.plans import Plans
from decima.agent.policy import LearnedPolicy
from decima.agent.rollout import Lanes, play_out
from decima.agent.scales import Scales
from decima.agent.scorer import Seen
from decima.agent.tables import Legal
from decima.cli.main import main
from decima.errors import ConfigError, PolicyError
from decima.heuristics.compiled import scratch_for
from decima.heuristics.run import STRICT_FAIR, run
from decima.registry import Heuristic
from decima.training.config import TrainConfig, read_config
from decima.training.episodes import EpisodeSource
from decima.training.play import Player
from spark_sim import PASS, Action, Cluster, Simulator, Status
from spark_sim.kernels.choices import follow
from spark_sim.kernels.durations import stage_hash
from spark_sim.metrics import measure
from spark_sim.setup import copied
from spark_sim.tables import RUNNING, State
from tests.test_agent_support import (
    ARRAYS,
    CLUSTERS,
    batch_run,
    each_protocol,
    random_network,
    run_of,
    simulator_of,
)
from tests.test_training_config import small
from tests.test_training_teachers import assert_unchanged
from traces import Job, Stage, Trace, to_arrays

NETWORK = random_network(7)
LEADING = random_network(1)
"""one whose likeliest plans begin with a stage"""
ALL = Width(stages=99, limits=99, least=0.0)
MANY = 10**8
"""tasks, more than any look ahead takes here"""
ENDLESS = {
    name: replace(cluster, time_limit_ms=None)
    for name, cluster in CLUSTERS.items()
    if name != "decima-sim"
}


def job_of(name: str, tasks: int, task_ms: float) -> Job:
    """One stage whose tasks all take the same time."""
    return Job(name, (Stage.fixed("only", tasks, task_ms, []),))


LONG_AND_SHORT = to_arrays(Trace("two", (job_of("long", 10, 4_000.0), job_of("short", 1, 1_000.0))))


def long_and_short(executors: int = 1, later: int = 0) -> Simulator:
    """Both jobs there, and executors that may start either; `later` short jobs come afterwards."""
    cluster = Cluster(num_executors=executors, moving_delay_ms=0.0, warmup_delay_ms=0.0)
    arrival_ms = np.concatenate([np.zeros(2), 500.0 + np.arange(later)])
    job = np.array([0, 1, *[1] * later], np.int32)
    return Simulator(LONG_AND_SHORT, cluster, arrival_ms, job)


def looked(simulator: Simulator, network: PolicyNetwork = NETWORK) -> tuple[Seen, Plans]:
    """What a network sees of the decision that is due, and its likeliest plan."""
    policy = LearnedPolicy(network, simulator.state.trace)
    seen = policy.plan(simulator.observation())
    assert policy.planned is not None
    return seen, policy.planned.plan


def verdict_on(
    simulator: Simulator, futures: Futures, width: Width = ALL, key: int = 1
) -> tuple[Verdict, Legal]:
    """What a look ahead says of the decision that is due."""
    seen, plan = looked(simulator)
    legal = seen.tables.legal
    state = simulator.state
    lookahead = Lookahead(width, futures, state.trace, state.classes)
    return lookahead.best(state, Proposal(seen.scores, legal, plan, legal.open_stage), key), legal


# --- candidates ----------------------------------------------------------------------------------


def test_candidates_are_the_likeliest_plan_and_those_with_another_first_choice() -> None:
    """Each differs in the stage in front or in one limit, and names every entry once."""
    simulator = simulator_of(batch_run(2), CLUSTERS["executors"])
    seen, plan = looked(simulator, LEADING)
    legal = seen.tables.legal
    every = candidates(seen.scores, legal, plan, ALL)
    entries, jobs = len(plan.order), len(plan.limit)
    orders = every.order.reshape(-1, entries)
    limits = every.limit.reshape(-1, jobs)
    assert orders[0].tolist() == plan.order.tolist()
    assert limits[0].tolist() == plan.limit.tolist()
    assert all(sorted(one.tolist()) == list(range(entries)) for one in orders)
    led = orders[(limits == plan.limit).all(1)]
    assert sorted(led[:, 0].tolist()) == list(range(entries))
    job = int(legal.open_job[plan.order[0]])
    others = limits[(limits != plan.limit).any(1)]
    own = legal.limit_ptr[job + 1] - legal.limit_ptr[job]
    assert len(others) == own - 1
    assert ((others != plan.limit).sum(1) == 1).all()
    assert len(np.unique(others[:, job])) == own - 1


def test_few_and_unlikely_candidates_are_left_out() -> None:
    """The likeliest runners-up in their order; with `least` 1, only those as likely as the best:
    of the limits that is the likeliest, where it is not the median.
    """
    simulator = simulator_of(batch_run(2), CLUSTERS["executors"])
    seen, plan = looked(simulator, LEADING)
    legal = seen.tables.legal
    few = candidates(seen.scores, legal, plan, Width(stages=2, limits=0, least=0.0))
    logits = np.append(seen.scores.stage, seen.scores.end)
    leaders = few.order.reshape(3, -1)[:, 0]
    assert leaders.tolist() == np.argsort(-logits, kind="stable")[:3].tolist()
    job = int(legal.open_job[leaders[0]])
    own = seen.scores.limit[legal.limit_ptr[job] : legal.limit_ptr[job + 1]]
    is_likeliest = plan.limit[job] - legal.limit_ptr[job] == own.argmax()
    alike = candidates(seen.scores, legal, plan, replace(ALL, least=1.0))
    assert len(alike.decision) == (1 if is_likeliest else 2)


# --- futures -------------------------------------------------------------------------------------


def test_a_future_has_no_arrivals_and_new_durations_that_fit_what_has_run() -> None:
    """Tasks under way end later than now; with a single recorded duration, when they really do."""
    simulator = long_and_short(executors=2, later=3)
    simulator.step(Action(0, 1))
    simulator.step(PASS)
    assert simulator.time_ms == 500.0
    state = copied(simulator.state)
    assert state.executors[0]["state"] == RUNNING
    forget(state, np.uint64(5))
    assert state.clock[0]["num_jobs"] == state.clock[0]["next_arrival"]
    assert state.events[1]["time_ms"] == simulator.state.events[1]["time_ms"] == 4_000.0

    simulator = simulator_of(run_of(2, jobs=4), CLUSTERS["executors"])
    rule = Heuristic("es_rule")
    while (simulator.state.executors["state"] == RUNNING).sum() < 3:
        simulator.step(rule.decide(simulator.observation()))
    ends = set()
    for key in range(1, 6):
        state = copied(simulator.state)
        forget(state, np.uint64(key))
        running = np.flatnonzero(state.executors["state"] == RUNNING)
        assert len(running) > 0
        leaves = state.events["time_ms"][len(state.events) // 2 :]
        assert (leaves[running] > state.clock[0]["time_ms"]).all()
        ends.add(float(leaves[running].sum()))
    assert len(ends) == 5


def test_tasks_of_a_stage_under_way_are_drawn_anew_too() -> None:
    """Its first tasks have begun: what they left of their hashes belongs to the old durations."""
    simulator = simulator_of(run_of(2, jobs=4), CLUSTERS["executors"])
    rule = Heuristic("es_rule")
    while not _half_run(simulator.state).any():
        simulator.step(rule.decide(simulator.observation()))
    state = copied(simulator.state)
    stage = int(np.flatnonzero(_half_run(state))[0])
    key = np.uint64(5)
    forget(state, key)
    run(state, STRICT_FAIR, np.zeros(0), scratch_for(0), False)
    job = int(state.stages[stage]["job"])
    local = stage - int(state.jobs[job]["first_stage"])
    assert state.stages[stage]["launched"] == state.stages[stage]["num_tasks"]
    assert state.stages[stage]["hash"] == np.uint64(stage_hash(key, job, local))


def _half_run(state: State) -> NDArray[np.bool_]:
    """Stages that have started some tasks, but not all."""
    launched = state.stages["launched"]
    found: NDArray[np.bool_] = (launched > 0) & (launched < state.stages["num_tasks"])
    return found


def test_the_better_plan_of_two_jobs_is_found_and_costs_what_it_costs() -> None:
    """One executor. The short job first: 1 + 41 s; the long one first: 40 + 41 s."""
    simulator = long_and_short()
    before = copied(simulator.state)
    verdict, legal = verdict_on(simulator, Futures(draws=3))
    assert_unchanged(before, simulator.state)
    short = int(np.flatnonzero(legal.open_job == 1)[0])
    assert verdict.plan.order[0] == short
    assert sorted(set(verdict.cost_s.ravel().tolist())) == [42.0, 81.0]


@each_protocol
def test_a_look_ahead_knows_nothing_of_what_is_to_come(cluster: Cluster) -> None:
    """Two runs that agree up to now, but for what comes and how long it takes: one verdict."""
    run = run_of(3, jobs=6)
    first = simulator_of(run, cluster)
    other = simulator_of(replace(run, duration_key=run.duration_key + 1), cluster)
    cut = replace(run, arrival_ms=run.arrival_ms[:1], job=run.job[:1])
    alone = simulator_of(cut, cluster)
    found = [
        verdict_on(simulator, Futures(draws=4, tasks=MANY))[0].cost_s
        for simulator in (first, other, alone)
    ]
    assert found[0].size > 0
    assert found[0].tolist() == found[1].tolist() == found[2].tolist()


def test_too_many_tasks_are_not_looked_ahead_of() -> None:
    """Fewer draws within the bound, and none where not even two fit. Three plans of 11 tasks: the
    likeliest, the other job first, the heuristic's.
    """
    simulator = long_and_short()
    for tasks, draws in ((1_000, 16), (99, 3), (65, 0)):
        width = Width(stages=1, limits=0, least=0.0)
        verdict, _ = verdict_on(simulator, Futures(tasks=tasks), width)
        assert verdict.cost_s.shape == (3, draws), tasks
        assert verdict.was_compared == (draws > 0)
        assert draws or verdict.is_likeliest


def test_a_plan_that_is_no_better_than_noise_leaves_the_likeliest() -> None:
    """With a margin that nothing passes the network's own plan is played."""
    simulator = simulator_of(batch_run(2), ENDLESS["executors"])
    bold, _ = verdict_on(simulator, Futures(margin=0.0, tasks=MANY))
    shy, _ = verdict_on(simulator, Futures(margin=1e9, tasks=MANY))
    assert bold.cost_s.tolist() == shy.cost_s.tolist()
    assert not bold.is_likeliest
    assert shy.is_likeliest


def test_the_heuristics_plan_is_among_those_that_are_compared() -> None:
    """Where nothing else is: its round, then its others, cost what all its rounds cost."""
    simulator = simulator_of(batch_run(2), ENDLESS["executors"])
    for name in ("es_rule", "sjf_cp"):
        futures = Futures(draws=2, followed_by=name, tasks=MANY)
        verdict, _ = verdict_on(simulator, futures, Width(stages=0, limits=0), key=5)
        future = copied(simulator.state)
        forget(future, np.random.SeedSequence(5).generate_state(2, np.uint64)[0])
        started = float(future.clock[0]["job_time_ms"])
        run(future, *Heuristic(name).compiled(ARRAYS, future.classes), False)
        alone_s = (float(future.clock[0]["job_time_ms"]) - started) / 1000.0
        assert verdict.cost_s[1, 0] == pytest.approx(alone_s, rel=0.02), name


def test_impossible_settings_are_refused() -> None:
    """One line each, that names the value and the rule."""
    for changed in ({"draws": 1}, {"followed_by": "nobody"}, {"tasks": 0}, {"margin": -1.0}):
        with pytest.raises(ValueError, match=next(iter(changed))):
            Futures(**changed)
    for wrong in ({"stages": -1}, {"limits": -1}, {"least": 1.5}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Width(**wrong)


# --- the policy ----------------------------------------------------------------------------------


def played(simulator: Simulator, key: int = 0) -> State:
    futures = Futures(draws=4, tasks=MANY)
    width = Width(stages=4, limits=4, least=0.0)
    policy = SearchPolicy(NETWORK, ARRAYS, key=key, width=width, futures=futures)
    policy.play(simulator)
    assert simulator.status is Status.DONE
    assert policy.changed > 0
    return simulator.state


@pytest.mark.parametrize("cluster", ENDLESS.values(), ids=ENDLESS)
def test_a_search_gives_the_same_twice_and_less_than_the_network_alone(cluster: Cluster) -> None:
    """A random network proposes; batches of four jobs; level with the rule that follows or below
    it.
    """
    first, again = (played(simulator_of(batch_run(0, jobs=4), cluster)) for _ in range(2))
    assert_unchanged(first, again)
    ratios: list[tuple[float, float]] = []
    for seed in range(3):
        rule = simulator_of(batch_run(seed, jobs=4), cluster)
        Heuristic("es_rule").play(rule)
        alone = simulator_of(batch_run(seed, jobs=4), cluster)
        policy = LearnedPolicy(NETWORK, ARRAYS)
        while alone.status is Status.DECIDE:
            alone.step(policy.decide(alone.observation()))
        state = first if seed == 0 else played(simulator_of(batch_run(seed, jobs=4), cluster))
        searched_s = measure(state).avg_jct_s
        ratios.append(
            (
                searched_s / measure(alone.state).avg_jct_s,
                searched_s / measure(rule.state).avg_jct_s,
            )
        )
    to_network, to_rule = zip(*ratios, strict=True)
    assert max(to_network) < 1.0
    assert np.mean(to_rule) < 1.03


def test_where_there_is_nothing_to_compare_the_networks_plan_is_played() -> None:
    """Without a budget a search is its network."""
    simulators = [simulator_of(batch_run(5), CLUSTERS["executors"]) for _ in range(2)]
    policy = SearchPolicy(NETWORK, ARRAYS, futures=Futures(tasks=1))
    policy.play(simulators[0])
    assert policy.changed == 0
    alone = LearnedPolicy(NETWORK, ARRAYS)
    while simulators[1].status is Status.DECIDE:
        seen = alone.plan(simulators[1].observation())
        assert alone.planned is not None
        wanted = plans.preferences(alone.planned.plan, seen.tables.legal)
        simulators[1].finish(int(follow(simulators[1].state, wanted, 0)[0]))
    assert_unchanged(simulators[1].state, simulators[0].state)


def test_decima_search_is_evaluated_by_name() -> None:
    """Alone and beside its network, in one process and in two, with a timeline and without."""
    config = EvaluationConfig(
        trace="random-dag",
        executors=6,
        jobs=6,
        sequences=2,
        arrivals="batch",
        policies=("strict_fair", "decima", "decima:search"),
    )
    report = evaluate(config)
    with_timeline = evaluate(config, timelines=(0,))
    jct_s = report.policies["decima:search"].avg_jct_s
    assert jct_s.tolist() == with_timeline.policies["decima:search"].avg_jct_s.tolist()
    assert jct_s.tolist() != report.policies["decima"].avg_jct_s.tolist()


def test_a_search_is_refused_where_the_future_cannot_be_played() -> None:
    """Hidden durations, an explanation, and a policy of simulations that is asked one by one."""
    with pytest.raises(
        ConfigError, match=r"'decima:search' plays copies .* estimates = none hides"
    ):
        EvaluationConfig(policies=("decima:search",), estimates="none")
    result = CliRunner().invoke(main, ["explain", "--model", "decima:search"])
    assert result.exit_code == 2
    assert "model 'decima:search': not decima, nor a file" in result.output
    policy = SearchPolicy(NETWORK, ARRAYS)
    with pytest.raises(PolicyError, match="decides nowhere else; 'decima' does"):
        policy.decide(long_and_short().observation())


# --- the step of a training ----------------------------------------------------------------------


def searching(*more: str) -> TrainConfig:
    changes = ("imitate.iterations=0", "reinforce.iterations=0", "search.iterations=2", *more)
    return read_config(None, changes)


def test_the_settings_of_a_search_are_checked() -> None:
    assert searching("search.draws=4").search.futures("es_rule") == Futures(draws=4)
    for change, words in (
        ("search.labels=0", "search.labels"),
        ("search.draws=1", "search.draws"),
        ("search.least=2", "search.least"),
        ("search.iterations=0", "search are all 0"),
    ):
        with pytest.raises(ConfigError, match=words):
            searching(change)


def test_plans_of_a_search_are_played_and_learned(trace_file: Path) -> None:
    """With every decision looked ahead of: shorter JCTs than the network's own, and as many labels
    as there are decisions with a choice; the labels are not all the likeliest plans.
    """
    config = small(
        trace_file, "search.iterations=1", "search.labels=1", "search.least=0", "search.draws=4"
    )
    source = EpisodeSource(config)
    iteration = config.iterations - 1
    assert config.step_at(iteration) == (config.search, 0)
    episodes = source.of_iteration(iteration)[2:]
    arrays = source.workload(episodes[0].setting).arrays
    sorter = GraphSorter(arrays)
    network = random_network(3, config.network)
    found = Player(config, arrays, sorter).searched(network, episodes, "es_rule", iteration)
    blind = replace(config, search=replace(config.search, tasks=1))
    alone = Player(blind, arrays, sorter).searched(network, episodes, "es_rule", iteration)
    assert found is not None
    assert alone is not None
    assert len(alone.advantage) == 0
    own = found.recording
    assert (found.advantage == 1.0).all()
    assert len(own.plans.decision) == len(own.decisions.lane)
    likeliest = play_out(
        network,
        Scales.of(arrays),
        Lanes(arrays, episodes[0].setting.config.cluster(), [one.run for one in episodes], None),
    )
    job_ms = [
        sum(float(state.clock[0]["job_time_ms"]) for state in states)
        for states in (found.states, likeliest.states)
    ]
    assert job_ms[0] < job_ms[1]
