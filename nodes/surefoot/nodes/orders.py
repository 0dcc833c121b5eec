"""From a stored order to a work order: everything the runner needs, gathered from the state.

Only what the subtask's own references name is handed over; the runner never sees the state.
"""

from collections.abc import Mapping

from surefoot.graph.attempts import timeout_s
from surefoot.graph.index import container_of
from surefoot.graph.model_ports import Brief
from surefoot.graph.plan import Unit, Work, rung_work
from surefoot.graph.ports import Binding, WorkOrder
from surefoot.graph.references import Reference, find_references
from surefoot.graph.state import Order, TaskState
from surefoot.graph.values import Record, StoredValue
from surefoot.nodes.briefs import brief_of
from surefoot.nodes.context import TaskContext, Views

FULL_ACTIONS = ("improve",)
"""Actions that run the full version whatever rung the record stands on."""


def work_of(unit: Unit, record: Record, action: str) -> Work:
    """The work an order is about: the present rung's, or the full version."""
    rung = 0 if action in FULL_ACTIONS else record.get("rung", 0)
    return rung_work(unit, rung) or unit


def work_order(order: Order, state: TaskState, context: TaskContext, seen: Views) -> WorkOrder:
    """Complete one stored order with its unit, its work and what its references may see."""
    id, action = order["subtask"], order["action"]
    record = (state.get("records") or {}).get(id) or Record()
    work = _with_given_args(work_of(seen.index.unit(id), record, action), record, action)
    brief = brief_of(state, context, seen, subtask=id) if _talks(work, action) else None
    return _complete(order, work, brief, state, context, seen)


def undo_order(id: str, state: TaskState, context: TaskContext, seen: Views) -> WorkOrder | None:
    """What the `undo` of a subtask's newest attempt needs; None where it has none."""
    record = (state.get("records") or {}).get(id) or Record()
    work = work_of(seen.index.unit(id), record, "attempt")
    if work.undo is None or not record.get("attempt"):
        return None
    order = Order(subtask=id, attempt=record.get("attempt", 0), action="attempt")
    return _complete(order, work, None, state, context, seen)


def _complete(
    order: Order,
    work: Work,
    brief: Brief | None,
    state: TaskState,
    context: TaskContext,
    seen: Views,
) -> WorkOrder:
    id, action = order["subtask"], order["action"]
    records = state.get("records") or {}
    record, unit = records.get(id) or Record(), seen.index.unit(id)
    container = container_of(id)
    parent = records.get(container) if container else None
    bindings = _bindings(id, work, records, context, seen)
    if action == "gather":
        bindings[id] = _gathered(id, record, records, context.prefix)
    return WorkOrder(
        task_id=context.task_id,
        subtask=context.full(id),
        action=action,  # pyright: ignore[reportArgumentType]  (an Order is written by dispatch alone)
        attempt=order["attempt"],
        failed_attempts=record.get("ended", 0),
        unit=unit,
        work=work,
        timeout_s=timeout_s(work, context.specs.get(work.tool or "")),
        bindings=bindings,
        item=_item(id, parent),
        brief=brief,
        criticism=record.get("criticism", ""),
        choices=tuple(record.get("choices", ())),
        removed=(*context.removed, *(state.get("replans") or {}).get("removed", ())),
        go=record.get("go", order["attempt"]),
        recovering=bool(record.get("cut")),
        answered=record.get("answered", -1) == order["attempt"] - 1,
        said=record.get("said") or {},
        since=record.get("improving", 0) if action == "improve" else 0,
        undoing=record.get("undoing"),
        wishes=tuple(record.get("wishes", ())),
        taken_back=record.get("taken_back", 0),
        inside=record.get("inside"),
        takes_slot=action in ("attempt", "improve") and work.kind != "group",
        scope=context.prefix,
        inputs=context.inputs,
    )


def _with_given_args(work: Work, record: Record, action: str) -> Work:
    """The full version with the arguments that a person gave; a rung has its own."""
    on_rung = record.get("rung") and action not in FULL_ACTIONS
    if "args" not in record or on_rung or work.kind != "tool":
        return work
    return work.model_copy(update={"args": record["args"]})


def _talks(work: Work, action: str) -> bool:
    """Whether a model is asked something for it."""
    judged = any(check.type == "judge" for check in work.success)
    return work.kind in ("agent", "group") or action == "reflect" or judged


def _item(id: str, parent: Record | None) -> tuple[StoredValue, int] | None:
    if parent is None or "items" not in parent:
        return None
    return parent["items"], int(id.rpartition("/")[2])


def _bindings(
    id: str, work: Work, records: Mapping[str, Record], context: TaskContext, seen: Views
) -> dict[str, Binding]:
    """What the order may see: all it refers to, and the artifacts of what it depends on."""
    wanted = dict.fromkeys(seen.index.needs(container_of(id) or id), True)
    for reference in references_of(work):
        if reference.head not in ("item", "index", "inputs"):
            wanted.setdefault(reference.head, bool(reference.artifact))
    return {head: _kept_binding(head, records, context, deep) for head, deep in wanted.items()}


def _kept_binding(
    head: str, records: Mapping[str, Record], context: TaskContext, deep: bool
) -> Binding:
    # Many orders depend on one big foreach: its binding is made once, until its record changes.
    record = records.get(head)
    kept = context.bindings.get((head, deep))
    if kept is None or kept[0] is not record:
        found = binding(head, records, children=deep, prefix=context.prefix)
        kept = context.bindings[head, deep] = (record, found)
    return kept[1]


def references_of(work: Work) -> list[Reference]:
    """Every reference in what the runner resolves for this work."""
    checks = [check.model_dump(exclude_unset=True) for check in work.success]
    undo = work.undo.args if work.undo else None
    value = [work.args, work.for_each, work.instructions, work.writes, work.inputs, checks, undo]
    return find_references(value)


def binding(
    head: str, records: Mapping[str, Record], *, children: bool = False, prefix: str = ""
) -> Binding:
    """What `${head...}` may see: nothing (null) of a skipped subtask.

    Args:
        head: the id as its plan knows it.
        records: of that plan.
        children: those of a foreach as well.
        prefix: of the full ids.
    """
    record = records.get(head) or Record()
    own = tuple(record.get("artifacts", ()))
    below = tuple(
        binding(f"{head}/{child}", records, prefix=prefix)
        for child in range(record.get("n", 0) if children else 0)
    )
    producer = prefix + head
    if record.get("state") != "completed":
        return Binding(result=None, children=below, producer=producer)
    return Binding(result=record.get("result"), artifacts=own, children=below, producer=producer)


def _gathered(id: str, record: Record, records: Mapping[str, Record], prefix: str) -> Binding:
    numbers = range(record.get("n", 0))
    children = tuple(binding(f"{id}/{child}", records, prefix=prefix) for child in numbers)
    return Binding(result=None, children=children, producer=prefix + id)
