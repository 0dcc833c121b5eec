"""What is told of an attempt that was cut, before anybody has asked what it did."""

from surefoot.graph.attempts import effect_of
from surefoot.graph.plan import Unit
from surefoot.graph.recovery import Recovery, choose, of_thread
from surefoot.graph.values import JsonObject, Record
from surefoot.nodes.context import TaskContext
from surefoot.nodes.orders import work_of


def cut_facts(unit: Unit, record: Record, context: TaskContext, why: str) -> JsonObject:
    """The facts of `AttemptCut`: how it will go on, where no ledger has to be asked for that.

    Args:
        unit: the subtask.
        record: of the cut attempt.
        context: of the plan.
        why: what cut it.
    """
    recovery = _certain(unit, record, context)
    if recovery is None:
        return {"reason": f"{why}; its effect is asked for first"}
    return {"strategy": recovery.strategy, "reason": f"{why}; {recovery.reason}"}


def _certain(unit: Unit, record: Record, context: TaskContext) -> Recovery | None:
    work = work_of(unit, record, "attempt")
    if work.kind == "agent":
        return of_thread("cut", resumable=unit.resumable)
    spec = context.specs.get(work.tool or "")
    if spec is None or effect_of(spec, work) in ("reversible", "irreversible"):
        return None
    return choose("cut", effect=effect_of(spec, work), resumable=unit.resumable)
