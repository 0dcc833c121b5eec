"""What a planner is told when only the remainder is to be planned, as functions of typed values."""

from collections.abc import Mapping, Sequence

from surefoot.graph.fencing import fence
from surefoot.graph.plain import compact_json
from surefoot.graph.replanning import Standing
from surefoot.graph.state import Replan
from surefoot.graph.values import JsonObject, Record

MOST_SHOWN = 100
MOST_VALUE = 300
MOST_OPEN_CHARS = 8000

_RULES = """\
This task is under way: a part of its plan is finished and stands for good. Make the plan of the \
rest. Answer as above, with these differences:
- "subtasks" has only the subtasks that are still to be done. The program adds the finished ones \
itself; do not repeat, rename or redo them, and change nothing of them.
- New subtasks may depend on finished ones by their ids and refer to their results and artifacts.
- "phases" has the phases of the rest; finished and new subtasks may share one unless it is closed.
- Do the failed work in another way, or around it. The same again would fail again."""


def remainder_matter(
    request: Replan, plan: JsonObject, stands: Standing, records: Mapping[str, Record]
) -> str:
    """What the request for a new remainder says besides the rules of any plan.

    Args:
        request: why the rest is planned anew.
        plan: the present version.
        stands: what of it stands.
        records: of its subtasks.
    """
    required = request.get("require")
    subtasks: Sequence[JsonObject] = plan["subtasks"]
    kept = [subtask for subtask in subtasks if subtask["id"] in stands.kept]
    rest = [subtask for subtask in subtasks if subtask["id"] not in stands.kept]
    lines = [_finished(subtask, records) for subtask in kept[-MOST_SHOWN:]]
    if len(kept) > MOST_SHOWN:
        lines.insert(0, f"({len(kept) - MOST_SHOWN} earlier ones are not shown)")
    parts = [
        _RULES,
        fence("finished subtasks", "\n".join(lines) or "(none)"),
        fence("why the rest is planned anew", _why(request, records)),
        fence("what was planned for the rest so far", _cut(compact_json(rest), MOST_OPEN_CHARS)),
        _names("Closed phases (no new subtask may be in them)", stands.closed),
        _names("Ids that failed for good (no new subtask may have them)", stands.failed),
        f"A person requires: {required}" if required else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _finished(subtask: JsonObject, records: Mapping[str, Record]) -> str:
    record = records.get(subtask["id"]) or Record()
    value = record.get("result") or {}
    shown = _cut(compact_json(value["value"]), MOST_VALUE) if "value" in value else ""
    parts = [
        f"{subtask['id']} ({subtask.get('tool') or subtask['kind']}, {record.get('state')}",
        f", phase {subtask['phase']}" if subtask.get("phase") else "",
        ")",
        f" artifacts: {', '.join(ref['name'] for ref in record.get('artifacts', ()))}"
        if record.get("artifacts")
        else "",
        f" result: {shown}" if shown else "",
    ]
    return "".join(parts)


def _why(request: Replan, records: Mapping[str, Record]) -> str:
    failing = request.get("subtask")
    criticism = (records.get(failing) or Record()).get("criticism", "") if failing else ""
    about = f"subtask {failing} failed: " if failing else ""
    return f"{about}{request.get('reason', '')}\n{criticism}".strip()


def _names(title: str, ids: frozenset[str]) -> str:
    return f"{title}: {', '.join(sorted(ids))}." if ids else ""


def _cut(text: str, chars: int) -> str:
    return (
        text if len(text) <= chars else f"{text[:chars]} [... {len(text) - chars} characters cut]"
    )
