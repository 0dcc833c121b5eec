"""The JSON Schemas of a planner's answers, `goal` and `plan`, made from the models that parse them.

They guide a model and a server that decodes by schema; what is wrong with an answer the validator
says, all of it at once. Titles and defaults are left out: they cost tokens and tempt to omit.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import get_args

from pydantic import TypeAdapter

from surefoot.graph.checks import Check
from surefoot.graph.plan import Plan
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


@cache
def plan_shape() -> JsonObject:
    """The schema of the `plan` answer: {phases, subtasks, milestones}."""
    schema = Plan.model_json_schema(mode="validation")
    definitions: JsonObject = schema.pop("$defs", {})
    # A plan may hold groups with plans, so pydantic puts it among the definitions and refers to it.
    top = dict(definitions.get("Plan") or schema)
    shape = _bare({**top, "$defs": definitions})
    for name, fields in ASKED_FIELDS.items():
        place = shape if name == "Plan" else shape["$defs"][name]
        place["required"] = [field for field in fields if field in place["properties"]]
    return shape


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
