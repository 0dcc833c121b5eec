"""What a planner is asked, as functions of typed arguments. Rules in words, never code.

The goal itself is not repeated here: every request begins with it (design §6). What inputs and
tools say about themselves is fenced: it is material, not an order.
"""

import json
from collections.abc import Mapping, Sequence

from surefoot.graph.answer_shapes import plan_shape
from surefoot.graph.fencing import fence
from surefoot.graph.ports import ToolSpec
from surefoot.graph.shapes import is_object
from surefoot.graph.values import JsonObject

MOST_TOOLS = 80
MOST_DESCRIPTION = 400
MOST_SHOWN_ANSWER = 12_000
MOST_FAULTS = 40

_GOAL_TASK = """\
Turn the goal into what can be checked. Answer with one JSON object of two lists.

"acceptance": the criteria by which a program and a judge will decide, at the very end, that the \
goal is reached. Give each an "id" (a1, a2 ...) and a "type":
- artifact {name, min_bytes?, contains?, regex?, json_schema?}: a file the work must produce
- file {path, exists?, contains?}: a file in the workspace
- command {run}: a command that must exit with 0
- judge {rubric}: what a program cannot see, as a question that evidence answers with yes or no
At least one criterion must be of a type that a program checks. They are about what the work will \
make: a criterion about files that are there already shows nothing. Use few, and none that could \
hold although the goal is missed.

"prohibitions": what must never happen, as short sentences; {"path": P, "deny": "write"}, \
{"tool": NAME} and {"host": GLOB} are enforced at every call. Only what the goal itself implies; \
an empty list is fine."""

_PLAN_TASK = """\
Make the plan that reaches the goal. Answer with one JSON object {"phases", "subtasks", \
"milestones"} and nothing else. Nothing runs before a program has accepted the plan; it names \
what is wrong and asks again.

Rules
- Each subtask is one step that can be verified and repeated alone. Its "id" has letters, digits, \
- and _, is unique, and is no phase's id. Give every field: id, name, description, phase, kind, \
depends_on, covers, weight (its share of the work, 1 to 100), importance (core, normal or edge), \
resumable, skippable, estimated_seconds, outputs, success, on_failure.
- kind "tool": "tool" and "args", one call, no model. kind "agent": "instructions" and "tools", a \
model that works with these tools and ends by finish(result); only where judgement is needed. \
kind "foreach": "for_each" (a list or a reference to one) and "each" (kind, tool, args ...), \
where ${item} and ${index} are known.
- References: ${inputs.NAME}, ${SUBTASK} or ${SUBTASK.key} for a result, \
${SUBTASK.artifact.NAME} for the path of an artifact (of a foreach: the list of paths). Whoever \
uses one must have that subtask among its depends_on, directly or through others. No code.
- "outputs": artifact names (no folders) the subtask must produce, at most five; no two subtasks \
produce the same. Agents write one with write_artifact.
- "success": checks of its own for every subtask, such as {"type": "result", "path": "files", \
"min_items": 1} or {"type": "artifact", "name": N, "min_bytes": 20}. A subtask without outputs \
and without checks is refused.
- "covers": the ids of the objectives and acceptance criteria that the subtask's own outputs or \
checks fulfil. Every one of them must be covered by a subtask that really produces or checks it; \
an artifact criterion by the subtask with that artifact among its outputs.
- Subtasks that may run at the same time must not write the same paths; do nothing twice.
- What cannot be undone must be checked before it is done.
- "on_failure": what to do when the attempts are used up: [] to fail, "ask", "skip" (only with \
skippable true), or simpler work {kind, tool, args}.
- "milestones" {id, after, checks, on_failure}: where all stops, is verified and can be gone back \
to; "after" is a subtask or a phase. Put them where much comes together."""


PLAN_OUTLINE = """\
{"phases": [{"id": "reading", "name": "Read", "objective": "What this stage achieves.", \
"covers": []}, {"id": "writing", ...}],
 "subtasks": [
  {"kind": "tool", "tool": "list_files", "args": {"path": "${inputs.folder}", "pattern": "*.txt"}, \
"id": "list", "name": "List the files", "description": "...", "phase": "reading", \
"depends_on": [], "covers": [], "weight": 5, "importance": "core", "resumable": true, \
"skippable": false, "estimated_seconds": 1, "outputs": [], \
"success": [{"type": "result", "path": "files", "min_items": 1}], "on_failure": []},
  {"kind": "agent", "instructions": "What to do with which data: ${list.files}. Write summary.md \
with write_artifact, then call finish.", "tools": ["read_text", "write_artifact"], \
"id": "summarise", ..., "phase": "writing", "depends_on": ["list"], "covers": ["o1", "a1"], \
"outputs": ["summary.md"], "success": [{"type": "artifact", "name": "summary.md", \
"min_bytes": 100}], ...}],
 "milestones": [{"id": "read", "after": "reading", "checks": [], "on_failure": ["replan", "ask", \
"fail"]}]}"""
"""What an answer looks like; its whole schema would fill a small window."""

GOAL_OUTLINE = """\
{"acceptance": [{"id": "a1", "type": "artifact", "name": "summary.md", "min_bytes": 100}, \
{"id": "a2", "type": "judge", "rubric": "Does summary.md say of every input what happened?"}], \
"prohibitions": ["The input files are never changed."]}"""


def goal_matter(tools: Sequence[ToolSpec], inputs: str, faults: Sequence[JsonObject]) -> str:
    """The request for acceptance criteria and prohibitions.

    Args:
        tools: what the work may use, so that criteria stay within its reach.
        inputs: what the inputs hold (`inputs_seen`), '' for none.
        faults: of the answer before, [] for the first.
    """
    parts = [_GOAL_TASK, _names(tools), _data("what the inputs hold", inputs), refusal(faults)]
    return _joined(parts)


def plan_matter(
    tools: Sequence[ToolSpec],
    inputs: str,
    *,
    faults: Sequence[JsonObject] = (),
    answer: str = "",
    seconds: Mapping[str, float] | None = None,
    further: str = "",
) -> str:
    """The request for a plan.

    Args:
        tools: the catalogue.
        inputs: what the inputs hold, '' for none.
        faults: what the validator found in the answer before.
        answer: that answer.
        seconds: seconds a call of a tool took so far, by name.
        further: more to heed, in words (a replan: what is done, why it failed).
    """
    parts = [
        _PLAN_TASK,
        _data("tools that there are", catalogue(tools, seconds or {})),
        _data("what the inputs hold", inputs),
        further,
        _data("your last answer", _cut(answer, MOST_SHOWN_ANSWER)) if faults else "",
        refusal(faults),
    ]
    return _joined(parts)


def plan_outline(goal: JsonObject) -> str:
    """The example of a plan, about the artifact that the goal's criteria ask for.

    Weak models answer with the example as it stands: then it had better be about their goal.
    """
    wanted = [one for one in goal.get("acceptance") or () if one.get("type") == "artifact"]
    name = str(wanted[0].get("name") or "") if wanted else ""
    return PLAN_OUTLINE.replace("summary.md", name.rpartition("/")[2] or "summary.md")


def plan_schema(goal: JsonObject, tools: Mapping[str, ToolSpec]) -> JsonObject:
    """The schema of a plan for this goal with these tools: no other name fits it."""
    stated = [*(goal.get("objectives") or ()), *(goal.get("acceptance") or ())]
    ids = [str(one["id"]) for one in stated if one.get("id")]
    sole = ["o1"] if goal.get("objective") else []
    return plan_shape(tuple(sorted(tools)), tuple(dict.fromkeys([*sole, *ids])))


def catalogue(tools: Sequence[ToolSpec], seconds: Mapping[str, float]) -> str:
    """One block a tool: name, effect, description, argument schema, result schema where known."""
    blocks: list[str] = []
    for tool in tools[:MOST_TOOLS]:
        took = f", about {seconds[tool.name]:.3g} s a call" if tool.name in seconds else ""
        lines = [
            f"{tool.name} (effect: {tool.effect}{took})",
            f"  {_cut(' '.join(tool.description.split()), MOST_DESCRIPTION)}",
            f"  arguments: {_compact(_plain_schema(tool.schema))}",
        ]
        if tool.output_schema is not None:
            lines.append(f"  result: {_compact(_plain_schema(tool.output_schema))}")
        blocks.append("\n".join(lines))
    if len(tools) > MOST_TOOLS:
        rest = ", ".join(tool.name for tool in tools[MOST_TOOLS:])
        blocks.append(f"and, with less to say: {rest}")
    return "\n".join(blocks)


def refusal(faults: Sequence[JsonObject]) -> str:
    """What was wrong with the answer before, in the validator's words; '' for nothing."""
    if not faults:
        return ""
    shown = [f"- {fault['code']}: {fault['message']}" for fault in faults[:MOST_FAULTS]]
    more = len(faults) - len(shown)
    shown += [f"- and {more} more of the same kinds"] if more > 0 else []
    lead = "Your last answer was not accepted. Correct all of this and answer in full again:"
    return "\n".join([lead, *shown])


def _names(tools: Sequence[ToolSpec]) -> str:
    return "The work may use these tools: " + ", ".join(tool.name for tool in tools) + "."


def _plain_schema(schema: JsonObject) -> JsonObject:
    """A schema without titles: they repeat the names."""
    return {
        key: _plain_schema(value) if is_object(value) else value
        for key, value in schema.items()
        if key != "title" or not isinstance(value, str)
    }


def _data(name: str, text: str) -> str:
    return fence(name, text) if text else ""


def _compact(value: JsonObject) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} [... {len(text) - most} characters cut]"


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part)
