"""Planner's answers that go wrong: the templates of the shared material, in our plan's schema.

Each template is a text with a plan in it and small named edits, either of the plan before it is
written down or of the written text. Used by the measurement of plans and by the tests.
"""

import copy
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.dags import ROOT

TEMPLATES = ROOT.parent / "shared" / "material" / "malformed_llm_outputs"

Plan = dict[str, Any]

_NOTHING: Plan = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """One answer: `text` None means no content. `accepts`: the plan in it is whole and may run."""

    id: str
    category: str
    text: str | None
    finish_reason: str
    expect: str
    refusal: str | None = None
    tool_calls: tuple[dict[str, Any], ...] = ()

    @property
    def must_accept(self) -> bool:
        """Only taking the very same plan is right."""
        return self.expect == "accept_same_plan"

    @property
    def must_refuse(self) -> bool:
        """Only asking again is right."""
        return self.expect.startswith("ask_model_again")


def templates(plan: Plan, other: Plan, *, folder: Path = TEMPLATES) -> list[Template]:
    """All templates with a plan filled in; `other` is a second, different one."""
    lines = (folder / "synthetic_templates.dev.jsonl").read_text(encoding="utf-8").splitlines()
    return [_filled(json.loads(line), plan, other) for line in lines if line]


def real_answers(folder: Path = TEMPLATES) -> list[str]:
    """Real texts of models that broke the format they were asked for: none is a plan."""
    lines = (folder / "real_raw.dev.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines if line]


def _filled(row: dict[str, Any], plan: Plan, other: Plan) -> Template:
    text = written(plan, row["ops"])
    whole: str | None = row["content_template"]
    filled = None if whole is None else whole.replace("{{PLAN}}", text)
    filled = None if filled is None else filled.replace("{{PLAN_ALT}}", json.dumps(other))
    return Template(
        id=row["id"],
        category=row["category"],
        text=filled,
        finish_reason=row["finish_reason"],
        expect=row["expect"],
        refusal=row.get("message_extra", _NOTHING).get("refusal"),
        tool_calls=tuple(_called(call, text) for call in row.get("tool_calls") or ()),
    )


def _called(call: dict[str, Any], text: str) -> dict[str, Any]:
    function = call["function"]
    arguments = function["arguments"].replace("{{PLAN}}", text)
    return {**call, "function": {**function, "arguments": arguments}}


def written(plan: Plan, ops: Sequence[Sequence[Any]]) -> str:
    """The plan as text, after the edits."""
    value: Any = copy.deepcopy(plan)
    text: str | None = None
    for name, *given in ops:
        if name in _ON_PLAN:
            value = _ON_PLAN[name](value, given)
        else:
            text = _ON_TEXT[name](json.dumps(value, indent=1) if text is None else text, given)
    return json.dumps(value, indent=1) if text is None else _literals(text)


# --- edits of the plan -----------------------------------------------------------------------


def _first(plan: Plan) -> dict[str, Any]:
    return plan["subtasks"][0]


def _set_field(plan: Plan, field: str, value: Any) -> Plan:
    step = _first(plan)
    if isinstance(value, str) and "{{TOOL" in value:
        tool: str = step["tool"]
        value = value.replace("{{TOOL}}", tool).replace("{{TOOL_UPPER}}", tool.upper())
    if value == "nest:3000":
        return _set_field(plan, field, "\uf8ffnest")
    if value == "x*500000":
        value = "x" * 500_000
    if value == "NaN_literal":
        value = float("nan")
    elif isinstance(value, str) and value.startswith('"'):
        value = json.loads(value)
    step[field] = value
    return plan


def _each(plan: Plan, change: Callable[[dict[str, Any]], Any]) -> Plan:
    for step in plan["subtasks"]:
        change(step)
    return plan


def _edge(plan: Plan, target: str, need: str) -> Plan:
    step = next(one for one in plan["subtasks"] if one["id"] == target)
    step["depends_on"] = [*step["depends_on"], need]
    return plan


def _edge_back(plan: Plan) -> Plan:
    """The first subtask that something needs comes to need that one as well."""
    later = next(one for one in plan["subtasks"] if one["depends_on"])
    return _edge(plan, later["depends_on"][0], later["id"])


def _renamed(plan: Plan, names: Sequence[str]) -> Plan:
    changed = dict(zip((one["id"] for one in plan["subtasks"]), names, strict=False))
    for step in plan["subtasks"]:
        step["id"] = changed.get(step["id"], step["id"])
        step["depends_on"] = [changed.get(need, need) for need in step["depends_on"]]
    return plan


def _numbered(plan: Plan) -> Plan:
    return _each(plan, lambda step: step.update(id=plan["subtasks"].index(step)))


def _equal_ids(plan: Plan) -> Plan:
    plan["subtasks"][1]["id"] = _first(plan)["id"]
    return plan


def _case_ids(plan: Plan) -> Plan:
    plan["subtasks"][1]["id"] = _first(plan)["id"].upper()
    return plan


def _repeated(plan: Plan, times: int) -> Plan:
    plan["subtasks"] += [copy.deepcopy(plan["subtasks"][-1]) for _ in range(times)]
    return plan


Given = Sequence[Any]
"""What an edit is told beside its name."""

_ON_PLAN: dict[str, Callable[[Plan, Given], Any]] = {
    "set_field": lambda plan, given: _set_field(plan, given[0], given[1]),
    "set_all": lambda plan, given: _each(plan, lambda step: step.update({given[0]: given[1]})),
    "add_field": lambda plan, given: _set_field(plan, given[0], given[1]),
    "set_tasks": lambda plan, given: {**plan, "subtasks": given[0]},
    "drop_last_task_then_close": lambda plan, _: {**plan, "subtasks": plan["subtasks"][:-1]},
    "wrap_tasks_only_as_list": lambda plan, _: plan["subtasks"],
    "wrap_object": lambda plan, given: {given[0]: plan},
    "json_dumps_string": lambda plan, _: json.dumps(plan),
    "deps_as_csv_string": lambda plan, _: _each(
        plan, lambda step: step.update(depends_on=",".join(step["depends_on"]))
    ),
    "args_as_string": lambda plan, _: _each(
        plan, lambda step: step.update(args=json.dumps(step.get("args")))
    ),
    "ids_to_int_refs_stay_string": lambda plan, _: _numbered(plan),
    "make_two_ids_equal": lambda plan, _: _equal_ids(plan),
    "second_id_upper_of_first": lambda plan, _: _case_ids(plan),
    "rename_ids": lambda plan, given: _renamed(plan, given[0]),
    "add_edge_self": lambda plan, _: _edge(plan, _first(plan)["id"], _first(plan)["id"]),
    "add_edge_back": lambda plan, _: _edge_back(plan),
    "add_edge_to": lambda plan, given: _edge(plan, _first(plan)["id"], given[0]),
    "repeat_last_task": lambda plan, given: _repeated(plan, given[0]),
}


# --- edits of the text -----------------------------------------------------------------------


def _sub_last(text: str, pattern: str, by: str) -> str:
    *_, last = re.finditer(pattern, text)
    return text[: last.start()] + last.expand(by) + text[last.end() :]


def _literals(text: str) -> str:
    """What JSON cannot write for us: values nested three thousand levels deep."""
    return text.replace(json.dumps("\uf8ffnest"), '{"a":' * 3000 + "1" + "}" * 3000)


def _broken_name(text: str, put: str) -> str:
    return text.replace('"name": "', f'"name": "{put}', 1)


_ON_TEXT: dict[str, Callable[[str, Given], str]] = {
    "regex_sub_last": lambda text, given: _sub_last(text, given[0], given[1]),
    "replace": lambda text, given: text.replace(given[0], given[1]),
    "truncate": lambda text, given: text[: int(len(text) * given[0])],
    "json_to_python_repr": lambda text, _: repr(json.loads(text)),
    "insert_after_first": lambda text, given: text.replace(given[0], given[0] + given[1], 1),
    "insert_before_last": lambda text, given: given[1].join(
        [text[: text.rindex(given[0])], text[text.rindex(given[0]) :]]
    ),
    "duplicate_top_key_with_empty_list": lambda text, _: (
        text[: text.rindex("}")] + ', "subtasks": []}'
    ),
    "raw_newline_in_description": lambda text, _: _broken_name(text, "first\nsecond "),
    "unescaped_quotes_in_description": lambda text, _: _broken_name(text, 'the "best" '),
    "tasks_as_ndjson": lambda text, _: "\n".join(
        json.dumps(step) for step in json.loads(text)["subtasks"]
    ),
}
