"""The JSON Schemas of a planner's answers, `goal` and `plan`, made from the models that parse them.

They guide a model and a server that decodes by schema; what is wrong with an answer the validator
says, all of it at once. Titles and defaults are left out: they cost tokens and tempt to omit.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import get_args

from pydantic import TypeAdapter

from surefoot.graph.checks import Check
from surefoot.graph.plan import KIND_FIELDS, Plan
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.task import Prohibition
from surefoot.graph.values import Json, JsonObject

COMMON_FIELDS = ("name", "depends_on", "weight", "resumable", "skippable")
"""What every subtask of a model's plan must state itself; a file may leave it to the defaults.

The fields of its kind (`tool`, `instructions` ...) are demanded by the kind.
"""

ASKED_FIELDS: Mapping[str, tuple[str, ...]] = {
    "Plan": ("phases", "subtasks", "milestones"),
    "Phase": ("id", "name", "objective", "covers"),
    "Subtask": (
        *("id", "name", "description", "phase", "kind", "depends_on", "covers", "weight"),
        *("importance", "resumable", "skippable", "estimated_seconds", "outputs", "success"),
        "on_failure",
    ),
    "Each": ("kind", "outputs", "success", "on_failure"),
    "Milestone": ("id", "after", "checks", "on_failure"),
}
"""What the schema requires of an answer, beyond what the models demand of a file."""

_LEFT_OUT = frozenset(["title", "default", "description", "discriminator"])


NEEDED_BY_KIND: Mapping[str, tuple[str, ...]] = {
    "tool": ("tool", "args"),
    "agent": ("instructions", "tools"),
    "foreach": ("for_each", "each"),
    "group": (),
}
"""What the schema requires of each kind besides."""

MOST_ITEMS: Mapping[str, int] = {
    **{"phases": 12, "subtasks": 100, "milestones": 12, "depends_on": 40, "covers": 20},
    **{"outputs": 5, "success": 8, "checks": 8, "on_failure": 4, "tools": 30},
}
MOST_CHARS: Mapping[str, int] = {
    **{"name": 120, "description": 300, "objective": 300, "phase": 200, "instructions": 1500},
}
"""Bounds for decoding by schema: a weak model that begins to repeat itself ends none without them.

They guide; a longer plan that comes all the same is judged like any other.
"""

MOST_NAMES = 200
"""A longer list of tools or criteria is not spelled out in the schema."""


@cache
def plan_shape(tools: tuple[str, ...] = (), covers: tuple[str, ...] = ()) -> JsonObject:
    """The schema of the `plan` answer: {phases, subtasks, milestones}.

    Each kind of work is an alternative of its own with just its fields, so that a server which
    decodes by schema cannot leave out what the kind needs.

    Args:
        tools: names that `tool` and `tools` may hold; () for any.
        covers: ids that `covers` may hold; () for any.
    """
    schema = Plan.model_json_schema(mode="validation")
    definitions: JsonObject = schema.pop("$defs", {})
    # A plan may hold groups with plans, so pydantic puts it among the definitions and refers to it.
    top = dict(definitions.get("Plan") or schema)
    shape = _bare({**top, "$defs": definitions})
    for name, fields in ASKED_FIELDS.items():
        place = shape if name == "Plan" else shape["$defs"][name]
        if name == "Phase":
            place["properties"] = {k: _stated(v) for k, v in place["properties"].items()}
        place["required"] = [field for field in fields if field in place["properties"]]
    for name, kinds in _KINDS_OF.items():
        _split_by_kind(shape["$defs"], name, kinds, tools)
    for name in ("Phase", *(f"{kind}_Subtask" for kind in NEEDED_BY_KIND)):
        shape["$defs"][name]["properties"]["covers"] = _names(covers)
    for one in (shape, *shape["$defs"].values()):
        _bound(one.get("properties") or {})
    return shape


_KINDS_OF: Mapping[str, tuple[str, ...]] = {
    "Subtask": ("tool", "agent", "foreach", "group"),
    "Each": ("tool", "agent", "group"),
    "RungWork": ("tool", "agent"),
}


def _split_by_kind(
    definitions: JsonObject, name: str, kinds: Sequence[str], tools: tuple[str, ...]
) -> None:
    """Put an alternative for each kind in the place of one definition for all."""
    whole = definitions[name]
    for kind in kinds:
        definitions[f"{kind}_{name}"] = _of_kind(whole, kind, tools)
    definitions[name] = {"anyOf": [{"$ref": f"#/$defs/{kind}_{name}"} for kind in kinds]}


def _of_kind(whole: JsonObject, kind: str, tools: tuple[str, ...]) -> JsonObject:
    others = {f for owner, fields in KIND_FIELDS.items() if owner != kind for f in fields}
    properties = {
        field: _stated(one) for field, one in whole["properties"].items() if field not in others
    }
    properties["kind"] = {"enum": [kind]}
    if kind == "tool":
        properties["tool"] = _names(tools)["items"]
    if kind == "agent":
        properties["tools"] = _names(tools)
    if kind != "group":
        properties["outputs"] = {"type": "array", "items": {"type": "string"}}
    if kind in ("tool", "agent") and "success" in whole["required"]:
        properties["success"] = {**properties["success"], "minItems": 1}
    needed = [field for field in NEEDED_BY_KIND[kind] if field not in whole["required"]]
    return {**whole, "properties": properties, "required": [*whole["required"], *needed]}


def _bound(properties: JsonObject) -> None:
    """Bound the lists and texts that decoding could run away in."""
    for field, schema in properties.items():
        if schema.get("type") == "array" and field in MOST_ITEMS:
            properties[field] = {**schema, "maxItems": MOST_ITEMS[field]}
        if schema.get("type") == "string" and field in MOST_CHARS:
            properties[field] = {**schema, "maxLength": MOST_CHARS[field]}


def _stated(schema: JsonObject) -> JsonObject:
    """A field's schema without null: what is given is given."""
    options = [one for one in schema.get("anyOf") or () if one != {"type": "null"}]
    return options[0] if len(options) == 1 else schema


def _names(known: tuple[str, ...]) -> JsonObject:
    """A list of names: of these, or of any where none are known or too many."""
    item: JsonObject = {"type": "string"}
    if 0 < len(known) <= MOST_NAMES:
        item = {"enum": list(known)}
    return {"type": "array", "items": item}


@cache
def goal_shape() -> JsonObject:
    """The schema of the `goal` answer: {acceptance, prohibitions}."""
    checks, shared = _list_of(Check)
    prohibitions, more = _list_of(Prohibition)
    return _bare(
        {
            "type": "object",
            "properties": {"acceptance": {**checks, "minItems": 1}, "prohibitions": prohibitions},
            "required": ["acceptance", "prohibitions"],
            "additionalProperties": False,
            "$defs": {**shared, **more},
        }
    )


def subtasks_of(plan: Json, prefix: str = "") -> Iterator[tuple[str, JsonObject]]:
    """(full id, mapping) of every subtask of an unparsed plan, those of groups' plans included."""
    listed = plan.get("subtasks") if is_object(plan) else None
    for subtask in listed if is_array(listed) else ():
        if is_object(subtask):
            name = f"{prefix}{subtask.get('id')}"
            yield name, subtask
            yield from subtasks_of(subtask.get("plan"), f"{name}/")


def _list_of(union: object) -> tuple[JsonObject, JsonObject]:
    """The schema of a list of one of our unions, and its definitions apart."""
    schema = TypeAdapter(list[union]).json_schema()  # pyright: ignore[reportInvalidTypeForm]
    return schema, schema.pop("$defs", {})


def _bare(schema: Json, *, names: bool = False) -> Json:
    """A schema without what only people read; `names`: its keys are names, not keywords."""
    if is_array(schema):
        return [_bare(inner) for inner in schema]
    if not is_object(schema):
        return schema
    return {
        key: _bare(inner, names=key in ("properties", "$defs") and not names)
        for key, inner in schema.items()
        if names or key not in _LEFT_OUT
    }


CHECK_TYPES = tuple(
    get_args(model.model_fields["type"].annotation)[0] for model in get_args(get_args(Check)[0])
)
"""Names of the checks, as a model may use them."""
