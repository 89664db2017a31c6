"""Contract of every pool: in this process, in two others, and on a Spark of two executors.

The cases on Spark are slow: `pytest -m slow tests/test_parallel_contract.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from decima.rl.parallel.errors import TaskError, TaskRefusedError
from decima.rl.parallel.local import LocalPool
from decima.rl.parallel.pool import SentOnce, WorkerPool
from decima.rl.parallel.session import open_session
from decima.rl.parallel.spark import SparkPool
from tests import pool_work
from tests.pool_work import EXECUTORS_KNOW_US, Counted, Shared
from tests.spark_work import until

MASTER = "local-cluster[2,1,1024]"
on_spark = (pytest.mark.slow, pytest.mark.real_spark)
POOLS = ["local 1", "local 2", pytest.param(MASTER, marks=on_spark)]


@contextmanager
def opened(kind: str) -> Iterator[WorkerPool]:
    """One of `POOLS`."""
    place, _, workers = kind.partition(" ")
    if place == "local":
        with LocalPool(int(workers)) as pool:
            yield pool
        return
    context = open_session(kind, name="contract", settings=EXECUTORS_KNOW_US)
    try:
        with SparkPool(context) as pool:
            yield pool
    finally:
        context.stop()


@pytest.fixture(scope="module", params=POOLS)
def pool(request: pytest.FixtureRequest) -> Iterator[WorkerPool]:
    """One for all tests: each leaves it fit for the next."""
    with opened(request.param) as opened_pool:
        yield opened_pool


def test_answers_come_with_their_keys_in_the_order_of_the_tasks(pool: WorkerPool) -> None:
    """Whatever the keys are, and however many tasks there are for a slot."""
    tasks = {("task", 50 - number): number for number in range(50)}
    answers = list(pool.map(pool_work.product, 3, tasks, label="products"))
    assert answers == [(key, 3 * number) for key, number in tasks.items()]
    assert list(pool.map(pool_work.product, 3, {}, label="none")) == []


def test_the_order_in_which_tasks_end_does_not_show(pool: WorkerPool) -> None:
    naps_s = (0.4, 0.2, 0.0)
    tasks = {f"task {number}": number for number in range(3)}
    answers = pool.map(pool_work.naps, naps_s, tasks, label="naps")
    assert list(answers) == [("task 0", 0), ("task 1", 1), ("task 2", 2)]


def test_what_is_kept_goes_to_each_process_once(pool: WorkerPool, tmp_path: Path) -> None:
    """Over three maps, with other things that change; another value is another parcel."""
    kept = SentOnce(Counted(tmp_path, 1000))
    processes: set[int] = set()
    tasks = {number: number for number in range(8)}
    for factor in range(3):
        answers = dict(pool.map(pool_work.with_large, Shared(kept, factor), tasks, label="kept"))
        assert [value for value, _ in answers.values()] == [1000 + factor * n for n in range(8)]
        processes |= {process for _, process in answers.values()}
    arrived = [int(path.name.partition(".")[0]) for path in tmp_path.iterdir()]
    assert len(arrived) == len(set(arrived))
    assert set(arrived) == processes - {os.getpid()}

    other = Shared(SentOnce(Counted(tmp_path, 7)), 1)
    assert dict(pool.map(pool_work.with_large, other, {"k": 1}, label="other"))["k"][0] == 8


def test_a_task_that_raises_is_one_error_with_its_key(pool: WorkerPool) -> None:
    """Answers from before it count; the pool goes on to other work."""
    tasks = {f"number {number}": number for number in range(6)}
    answers = pool.map(pool_work.fails, "odd thing", tasks, label="testing")
    assert [next(answers), next(answers)] == [("number 0", 0), ("number 1", 1)]
    with pytest.raises(TaskError, match=r"OddError: odd thing at 2 \(testing, task number 2\)"):
        next(answers)
    assert dict(pool.map(pool_work.product, 2, {"k": 1}, label="after")) == {"k": 2}


def test_input_that_a_task_refuses_is_bad_input(pool: WorkerPool) -> None:
    """A ValueError stays one, with the words it had, and tells whose rule was broken."""
    answers = pool.map(pool_work.fails, "refused", {(2, "x"): 2}, label="testing")
    with pytest.raises(TaskRefusedError, match=r"^2 is not odd \(testing, task 2 x\)$") as caught:
        list(answers)
    assert caught.value.origin == "tests.pool_work"


def test_whoever_stops_asking_ends_the_tasks(pool: WorkerPool) -> None:
    """What still ran is gone, and the next map does not meet it."""
    if pool.slots == 1:
        pytest.skip("nothing else runs in this process")
    began_s = time.monotonic()
    naps_s = (0.0,) * 16 + (600.0,) * 4
    tasks = {number: number for number in range(len(naps_s))}
    answers = pool.map(pool_work.naps, naps_s, tasks, label="left")
    assert next(answers) == (0, 0)
    del answers
    assert dict(pool.map(pool_work.product, 2, {"k": 1}, label="after")) == {"k": 2}
    assert time.monotonic() - began_s < 60


def test_a_killed_executor_changes_nothing_but_the_time(pool: WorkerPool, tmp_path: Path) -> None:
    """Its task runs again; processes of this machine end with an error that names the task."""
    if pool.slots == 1:
        pytest.skip("there is no process but this one")
    tasks = {f"task {number}": number for number in range(4)}
    answers = pool.map(pool_work.dies, tmp_path, tasks, label="dying")
    if isinstance(pool, LocalPool):
        with pytest.raises(
            TaskError, match=r"ended by SIGKILL, exit code -9: .*memory .*\(dying, task task 1\)"
        ):
            list(answers)
    assert list(pool.map(pool_work.dies, tmp_path, tasks, label="again")) == [
        (f"task {number}", number) for number in range(4)
    ]


# A shell starts what runs in its background with SIGINT ignored, which processes inherit.
_INTERRUPTED = """
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from tests.pool_work import says_where_and_sleeps
from tests.test_parallel_contract import opened

with opened(sys.argv[1]) as pool:
    list(pool.map(says_where_and_sleeps, Path(sys.argv[2]), {1: 1, 2: 2}, label="sleep"))
"""


@pytest.mark.parametrize("kind", POOLS)
def test_ctrl_c_leaves_no_process(kind: str, tmp_path: Path) -> None:
    """Neither those that do the tasks nor the one that waits for them."""
    words = [sys.executable, "-c", _INTERRUPTED, kind, str(tmp_path)]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)  # noqa: S603 - our own code
    try:
        count = min(2, 1 if kind == "local 1" else 2)
        assert until(lambda: len(list(tmp_path.iterdir())) == count, 120)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) != 0
    finally:
        process.kill()
    pids = [int(path.name) for path in tmp_path.iterdir()]
    assert until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 20)


# --- processes of this machine -------------------------------------------------------------------


def test_fewer_than_one_process_are_refused() -> None:
    with pytest.raises(ValueError, match="workers must be 1 or more, got 0"):
        LocalPool(0)


def test_an_answer_that_cannot_be_sent_is_an_error_of_its_task() -> None:
    with LocalPool(2) as pool, pytest.raises(TaskError, match=r"\(sending, task b\)"):
        list(pool.map(pool_work.unsendable, None, {"a": 0, "b": 1}, label="sending"))


def test_processes_drop_what_nobody_keeps_any_more(tmp_path: Path) -> None:
    with LocalPool(2) as pool:
        tasks = {number: number for number in range(4)}
        first = Shared(SentOnce(Counted(tmp_path, 1)), 1)
        assert set(dict(pool.map(pool_work.living, first, tasks, label="one")).values()) == {1}
        second = Shared(SentOnce(Counted(tmp_path, 2)), 1)
        assert set(dict(pool.map(pool_work.living, second, tasks, label="two")).values()) == {2}
        del first
        assert set(dict(pool.map(pool_work.living, second, tasks, label="gone")).values()) == {1}
