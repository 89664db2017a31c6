"""The process of a learned policy: `python -m decima.spark.policy_server NAME DESCRIPTOR`.

It answers each request of `decima.spark.wire` with all actions of one round, and ends when the
driver does, however that ends.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from dataclasses import asdict

import numpy as np

from decima.policy import Policy
from decima.spark import wire
from decima.spark.planning import PolicyFor, rehearsal
from decima.spark.wire import PlanRequest, WireError
from spark_sim import Action, IllegalActionError
from spark_sim.rounds import Round, session_tables
from spark_sim.tables import State
from traces.arrays import TraceArrays

_LOOK_S = 5.0
"""so often it looks whether the driver is still there: a process that the driver has forked may
keep the connection open after the driver's end"""


def learned(name: str) -> PolicyFor:
    """Return a factory of the learned policy `name` for the current jobs.

    Raises:
        ModelError: the file is no model that this version can use.
    """
    from decima.agent.policy import LearnedPolicy
    from decima.agent.scales import Scales
    from decima.learned import load

    network = load(name)
    known: list[Scales] = []

    def policy_for(graphs: TraceArrays) -> Policy:
        now = Scales.of(graphs)
        if known:
            # What is typical is learned slowly: a single large job must not make itself usual.
            now = Scales(*(0.9 * old + 0.1 * new for old, new in zip(
                asdict(known[0]).values(), asdict(now).values(), strict=True)))  # fmt: skip
        known[:] = [now]
        return LearnedPolicy(network, graphs, scales=now, name=name)

    return policy_for


class Server:
    """Rounds of decisions on tables that a driver sends."""

    def __init__(self, policy_for: PolicyFor) -> None:
        self._policy_for = policy_for
        self._policy: Policy | None = None
        self._state: State | None = None

    def answer(self, data: bytes) -> bytes:
        """The reply to a request; a policy's error is one too, and so is a damaged request."""
        try:
            return wire.actions_bytes(self._decide_all(wire.read_request(data)))
        except WireError as error:
            return wire.FAULT + str(error).encode(errors="replace")
        except Exception as error:  # noqa: BLE001 - any error of the policy; the driver reports it
            return wire.FAULT + f"{type(error).__name__}: {error}".encode(errors="replace")

    def _decide_all(self, request: PlanRequest) -> list[Action]:
        state, policy = self._fill(request)
        round_ = Round(state)
        for action in request.given:
            round_.assign(action)
        actions = []
        while round_.is_open:
            action = policy.decide(round_.observation())
            actions.append(action)
            try:
                round_.assign(action)
            except IllegalActionError:
                break  # the driver finds the same, and reports it as for every policy
        return actions

    def _fill(self, request: PlanRequest) -> tuple[State, Policy]:
        if request.graphs is not None:
            if request.tables["clock"].shape != (1,):
                raise WireError("there must be one clock")
            slots = int(request.tables["clock"]["num_executors"][0])
            arrival_ms = np.ascontiguousarray(request.tables["jobs"]["arrival_ms"])
            self._state = session_tables(request.graphs, slots, arrival_ms)
            self._policy = self._policy_for(request.graphs)
        if self._state is None or self._policy is None:
            raise ValueError("the first request must bring the jobs' graphs")
        for name, rows in request.tables.items():
            table = getattr(self._state, name)
            if rows.shape != table.shape:
                raise WireError(f"{name}: {len(rows)} rows, not {len(table)}")
            table[:] = rows
        return self._state, self._policy


def warm_up(policy_for: PolicyFor) -> None:
    """Decide for two jobs that do not exist, so that the first real round is as quick as others."""
    server = Server(policy_for)
    for _ in range(2):
        tables, _ = rehearsal()
        data = wire.request_bytes(tables.state, [], with_graphs=True)
        reply = server.answer(data)
        if not reply.startswith(wire.ACTIONS):
            raise RuntimeError(reply[1:].decode())


def serve(end: socket.socket, policy_for: PolicyFor) -> None:
    """Answer until the driver is gone."""
    driver = os.getppid()
    server = Server(policy_for)
    wire.send(end, wire.READY)
    while True:
        if not select.select([end], [], [], _LOOK_S)[0]:
            if os.getppid() != driver:
                return
            continue
        try:
            data = wire.receive(end)
        except WireError as error:  # the start of the next frame is unknown
            wire.send(end, wire.FAULT + str(error).encode())
            return
        if data is None:
            return
        wire.send(end, server.answer(data))


def main() -> None:
    """Load the policy, then serve; what stands in the way of loading it is a reply too."""
    name, descriptor = sys.argv[1:]
    with socket.socket(fileno=int(descriptor)) as end:
        try:
            policy_for = learned(name)
            warm_up(learned(name))  # another than that which serves: it must not know these jobs
        except ValueError as error:
            wire.send(end, wire.REFUSED + str(error).encode(errors="replace"))
            return
        try:
            serve(end, policy_for)
        except ConnectionError:
            return  # the driver ended while it was being answered


if __name__ == "__main__":
    main()
