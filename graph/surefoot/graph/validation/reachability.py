"""Order and ancestry in a dependency graph: cycles, and who may look up whose result.

On plain lists of numbers, without recursion. Node `n` needs the nodes in `needs[n]`.

Components come from Tarjan's algorithm (R. Tarjan, "Depth-first search and linear graph
algorithms", SIAM J. Comput., 1972), made iterative. Ancestry is answered for all questions at
once: the asked-for nodes get a bit each, and one pass in topological order ORs the bits of what a
node needs. With at most `BATCH` bits a pass, memory stays linear in the number of nodes.
"""

from collections import deque
from collections.abc import Iterable, Sequence

BATCH = 4096


def components(needs: Sequence[Sequence[int]]) -> list[list[int]]:
    """The strongly connected components, each after all components it needs.

    A component of several nodes holds a cycle; within one the order says nothing.
    """
    n = len(needs)
    index = [-1] * n
    low = [0] * n
    on_stack = [False] * n
    stack: list[int] = []
    found: list[list[int]] = []
    count = 0
    for root in range(n):
        if index[root] != -1:
            continue
        work: list[tuple[int, int]] = [(root, 0)]
        while work:
            node, at = work.pop()
            if at == 0:
                index[node] = low[node] = count
                count += 1
                stack.append(node)
                on_stack[node] = True
            elif at > 0:
                low[node] = min(low[node], low[needs[node][at - 1]])
            descended = False
            edges = needs[node]
            while at < len(edges):
                target = edges[at]
                at += 1
                if index[target] == -1:
                    work += [(node, at), (target, 0)]
                    descended = True
                    break
                if on_stack[target]:
                    low[node] = min(low[node], index[target])
            if not descended and low[node] == index[node]:
                found.append(_popped(stack, on_stack, node))
    return found


def cycle_in(component: Sequence[int], needs: Sequence[Sequence[int]]) -> list[int]:
    """A shortest cycle through the component's first node, in the order of needing.

    Returns:
        `[a, b, c]` where a needs b, b needs c and c needs a.
    """
    start = min(component)
    inside = set(component)
    came_from: dict[int, int] = {}
    queue: deque[int] = deque([start])
    while queue:
        node = queue.popleft()
        for target in needs[node]:
            if target == start:
                return _path_back(came_from, node, start)
            if target in inside and target not in came_from:
                came_from[target] = node
                queue.append(target)
    return [start]


def unordered(
    needs: Sequence[Sequence[int]],
    order: Sequence[Sequence[int]],
    questions: Iterable[tuple[int, int]],
) -> set[tuple[int, int]]:
    """Of the questions (node, other), those where `other` is not an ancestor of `node`.

    Args:
        needs: the graph.
        order: its `components`.
        questions: pairs; within a cycle everything counts as an ancestor, a node never as its own.
    """
    asked = set(questions)
    missing = {(node, other) for node, other in asked if node == other}
    component = [0] * len(needs)
    for number, members in enumerate(order):
        for member in members:
            component[member] = number
    open_ = _indirect(needs, component, asked - missing)
    targets = sorted({other for _, other in open_})
    for start in range(0, len(targets), BATCH):
        bit = {other: 1 << n for n, other in enumerate(targets[start : start + BATCH])}
        seen = _ancestor_bits(needs, order, component, bit)
        for node, other in open_:
            if other in bit and not seen[component[node]] & bit[other]:
                missing.add((node, other))
    return missing


def _indirect(
    needs: Sequence[Sequence[int]], component: Sequence[int], pairs: set[tuple[int, int]]
) -> set[tuple[int, int]]:
    """The pairs that neither a direct need nor a common cycle answers."""
    asking: dict[int, list[int]] = {}
    for node, other in pairs:
        if component[node] != component[other]:
            asking.setdefault(node, []).append(other)
    return {
        (node, other)
        for node, others in asking.items()
        for other in set(others).difference(needs[node])
    }


def _ancestor_bits(
    needs: Sequence[Sequence[int]],
    order: Sequence[Sequence[int]],
    component: Sequence[int],
    bit: dict[int, int],
) -> list[int]:
    """Per component, the bits of all it needs, its own members left out."""
    above = [0] * len(order)
    with_own = [0] * len(order)
    for number, members in enumerate(order):
        bits = own = 0
        for member in members:
            own |= bit.get(member, 0)
            for target in needs[member]:
                if component[target] != number:
                    bits |= with_own[component[target]]
        above[number] = bits
        with_own[number] = bits | own
    return above


def _popped(stack: list[int], on_stack: list[bool], until: int) -> list[int]:
    members: list[int] = []
    while True:
        member = stack.pop()
        on_stack[member] = False
        members.append(member)
        if member == until:
            return members


def _path_back(came_from: dict[int, int], node: int, start: int) -> list[int]:
    path = [node]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return path[::-1]
