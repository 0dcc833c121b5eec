"""The parser's errors as schema faults: which key, where, what was meant."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from surefoot.graph import checks, plan, task
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.validation.places import Place, at, ids_at, locate, words_for
from surefoot.graph.validation.report import Findings
from surefoot.graph.validation.wording import did_you_mean, listed, short
from surefoot.graph.values import JsonObject

CHECK_MODELS: Mapping[str, type[BaseModel]] = {
    get_args(model.model_fields["type"].annotation)[0]: model
    for model in get_args(get_args(checks.Check)[0])
}
"""Check models by their `type`."""

CHECK_TAGS = frozenset(CHECK_MODELS)

_MODELS: Mapping[str, type[BaseModel]] = {
    "goal": task.Goal,
    "objectives": task.Objective,
    "budget": task.Budget,
    "limits": task.Limits,
    "model": task.Models,
    "prices": task.Price,
    "plan": plan.Plan,
    "phases": plan.Phase,
    "subtasks": plan.Subtask,
    "milestones": plan.Milestone,
    "each": plan.Each,
    "on_failure": plan.RungWork,
    "retries": plan.Retries,
    "undo": plan.Undo,
    "votes": plan.Votes,
}
"""The model at a place, by the nearest field name above it."""

_ALTERNATIVES: Mapping[str, type[BaseModel]] = {
    "PathProhibition": task.PathProhibition,
    "ToolProhibition": task.ToolProhibition,
    "HostProhibition": task.HostProhibition,
    "RungWork": plan.RungWork,
    "Models": task.Models,
}

_EXPECTED = {
    "prohibitions": "a text, {path, deny}, {tool} or {host}",
    "on_failure": "'skip', 'ask', 'fail' or a mapping with simpler work (kind, tool, args)",
    "outputs": "a list of names (a group may give a mapping of names to values)",
    "model": "a model's name, or a mapping with planner, executor, judge, prices",
    "planner": "a name or a list of names",
    "executor": "a name or a list of names",
    "judge": "a name or a list of names",
    "run": "a command line or a list of its words",
    "json_schema": "a JSON Schema (a mapping)",
}
"""What a field of several forms takes, where none of them fits."""


_PLAIN_WORDS = {
    "a valid string": "a text",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid boolean": "true or false",
    "a valid list": "a list",
    "a valid dictionary": "a mapping",
}


@dataclass(frozen=True, slots=True)
class Located:
    """One of the parser's errors and where it is."""

    error: ErrorDetails
    place: Place


def note_schema_faults(
    mapping: JsonObject, errors: Sequence[ErrorDetails], findings: Findings
) -> list[Located]:
    """Note one fault for each thing that is wrong; returns the errors that say it."""
    located = [
        Located(e, locate(mapping, e["loc"], tags=CHECK_TAGS, absent=e["type"] == "missing"))
        for e in errors
    ]
    kept: list[Located] = []
    choices: dict[tuple[str | int, ...], list[Located]] = {}
    for one in located:
        if one.place.label_at is None:
            kept.append(one)
            findings.fault("schema", _message(mapping, one), ids_at(mapping, one.place.path))
        else:
            choices.setdefault(one.place.path[: one.place.label_at], []).append(one)
    for path, group in choices.items():
        kept += group
        _note_choice(mapping, path, group, findings)
    return kept


def _note_choice(
    mapping: JsonObject,
    path: tuple[str | int, ...],
    group: Sequence[Located],
    findings: Findings,
) -> None:
    """One field may have several forms: report the errors of the form that was meant."""
    value = at(mapping, path)
    meant = _meant(value, group)
    inner = Counter(one.place.path for one in meant if len(one.place.labels) > 1)
    for one in meant:
        if inner[one.place.path] > 1:  # again a field of several forms
            _note_no_form(mapping, one.place.path, findings)
        else:
            findings.fault("schema", _message(mapping, one), ids_at(mapping, one.place.path))
    if not meant:
        _note_no_form(mapping, path, findings)


def _note_no_form(mapping: JsonObject, path: Sequence[str | int], findings: Findings) -> None:
    field = next((str(step) for step in reversed(path) if isinstance(step, str)), "")
    expected = _EXPECTED.get(field, "of another form")
    message = f"must be {expected}, not {short(at(mapping, path))}"
    findings.fault("schema", f"{words_for(mapping, path)} {message}", ids_at(mapping, path))


def _meant(value: Any, group: Sequence[Located]) -> Sequence[Located]:
    forms: dict[str, list[Located]] = {}
    for one in group:
        forms.setdefault(one.place.labels[0], []).append(one)
    if is_object(value):
        fitting = {k: v for k, v in forms.items() if k in _ALTERNATIVES and k in _shared(value, k)}
        return min(fitting.values(), key=len, default=list[Located]())
    if isinstance(value, str):
        words = [v for k, v in forms.items() if k.startswith("literal")]
        return words[0] if words else []
    lists = [v for k, v in forms.items() if k.startswith("list[")] if is_array(value) else []
    return lists[0] if lists else []


def _shared(value: JsonObject, label: str) -> str:
    """The label itself if the mapping has a key of that model (or may mean it at all)."""
    fields = _ALTERNATIVES[label].model_fields
    return label if len(fields) > 2 or any(key in fields for key in value) else ""


def _message(mapping: JsonObject, one: Located) -> str:
    place, error = one.place, one.error
    match error["type"]:
        case "missing":
            return f"{words_for(mapping, place.path)}: {place.missing!r} is missing"
        case "extra_forbidden":
            return _unknown_key(mapping, place)
        case "union_tag_not_found":
            kinds = ", ".join(CHECK_MODELS)
            return f"{words_for(mapping, place.path)}: a check needs `type`, one of {kinds}"
        case "union_tag_invalid":
            found = str((error.get("ctx") or {}).get("tag"))
            kinds = ", ".join(CHECK_MODELS)
            hint = did_you_mean(found, CHECK_TAGS) or f"; there are {kinds}"
            return f"{words_for(mapping, place.path)}: no check has the type {found!r}{hint}"
        case _:
            return f"{words_for(mapping, place.path)} {_wrong_value(error, place)}"


def _unknown_key(mapping: JsonObject, place: Place) -> str:
    *above, key = place.path
    known = _fields_at(place)
    hint = did_you_mean(str(key), known)
    hint = hint or (f"; the keys here are {listed(known, most=40)}" if known else "")
    return f"{words_for(mapping, above)}: unknown key {str(key)!r}{hint}"


def _fields_at(place: Place) -> list[str]:
    """The field names of the model that an unknown key stands in."""
    for label in reversed(place.labels):
        model = CHECK_MODELS.get(label) or _ALTERNATIVES.get(label)
        if model is not None:
            nested = [s for s in place.path[place.label_at or 0 : -1] if s in _MODELS]
            if not nested or label in CHECK_TAGS or place.label_at is None:
                return list(model.model_fields)
    for step in reversed(place.path[:-1]):
        if isinstance(step, str) and step in _MODELS:
            return list(_MODELS[step].model_fields)
    return list(task.TaskFile.model_fields) if len(place.path) == 1 else []


def _wrong_value(error: ErrorDetails, place: Place) -> str:
    value = place.value
    if error["type"] == "string_pattern_mismatch" and "id" in place.path[-1:]:
        return (
            f"is {short(value)}: an id has letters, digits, '-' and '_' and begins with a "
            "letter or digit"
        )
    if error["type"] == "literal_error":
        allowed = str((error.get("ctx") or {}).get("expected", ""))
        names = [name.strip(" '") for name in allowed.replace(" or ", ",").split(",")]
        hint = did_you_mean(value, names) if isinstance(value, str) else ""
        return f"must be one of {', '.join(names)}, not {short(value)}{hint}"
    if error["type"] in ("model_type", "model_attributes_type"):
        return f"must be a mapping, not {short(value)}"
    says = error["msg"].replace("Input should be", "must be").replace("Value should", "must")
    says = says.replace("String should", "must").replace("List should", "must")
    for theirs, ours in _PLAIN_WORDS.items():
        says = says.replace(theirs, ours)
    return f"{says}, not {short(value)}"
