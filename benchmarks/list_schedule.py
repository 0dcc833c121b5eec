"""What a scheduler without any cost of its own would need: first-in-first-out list scheduling.

Not a lower bound in the strict sense (another order may be a little faster), but what "start
what is ready as soon as a slot is free" comes to. Greedy schedules are at most twice the optimum.

Source: R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 17, 1969.
"""

import heapq
from collections import deque

from benchmarks.dags import Dag


def makespan(dag: Dag, *, slots: int) -> float:
    """Seconds from the first start to the last end, `slots` nodes at a time.

    What is ready waits in order of becoming ready; nodes that become ready at once keep the
    plan's order.
    """
    seconds = {node.id: node.seconds for node in dag.nodes}
    open_needs = {node.id: len(node.needs) for node in dag.nodes}
    dependants: dict[str, list[str]] = {node.id: [] for node in dag.nodes}
    for node in dag.nodes:
        for need in node.needs:
            dependants[need].append(node.id)
    ready = deque(node.id for node in dag.nodes if not node.needs)
    running: list[tuple[float, int, str]] = []
    now, started = 0.0, 0
    while ready or running:
        while ready and len(running) < slots:
            name = ready.popleft()
            heapq.heappush(running, (now + seconds[name], started, name))
            started += 1
        now, _, ended = heapq.heappop(running)
        for name in dependants[ended]:
            open_needs[name] -= 1
            if open_needs[name] == 0:
                ready.append(name)
    return now


def scaled_to(dag: Dag, *, makespan_s: float, slots: int) -> Dag:
    """The same graph, its durations scaled so that list scheduling needs `makespan_s`."""
    return dag.scaled(makespan_s / makespan(dag, slots=slots))
