"""JSON Schemas of a tool's arguments and result, without what is not the caller's to give."""

import inspect
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints, is_typeddict

from langchain_core.tools import BaseTool
from pydantic import BaseModel, PydanticUserError, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from surefoot.graph.values import JsonObject
from surefoot.tools.calling import CallableTool

_NO_ARGUMENTS: JsonObject = {"type": "object", "properties": {}, "additionalProperties": False}


class _Lenient(GenerateJsonSchema):
    """Says nothing about types that JSON Schema cannot express, instead of giving up."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:
        del schema, error_info
        return {}


def arguments_schema(callable_tool: CallableTool) -> JsonObject:
    """The schema of the arguments a plan or a model may give; unknown ones are not allowed."""
    tool = callable_tool.tool
    model = tool.args_schema
    if isinstance(model, dict):
        return {"type": "object", "properties": {}, **model}
    if model is None:
        model = cast("type[BaseModel]", tool.get_input_schema())
    if not issubclass(model, BaseModel):  # pydantic.v1
        return _without_titles(cast("Any", model).schema(), "serialization")
    schema = model.model_json_schema(schema_generator=_Lenient)
    hidden = callable_tool.contexts | callable_tool.injected | callable_tool.variadic
    return _visible(_without_titles(schema, "validation"), hidden, callable_tool.takes_any)


def result_schema(tool: BaseTool) -> JsonObject | None:
    """The schema of what the tool returns, by its annotation; None where it promises nothing."""
    code = getattr(tool, "func", None) or getattr(tool, "coroutine", None) or tool._run  # pyright: ignore[reportPrivateUsage] - no public name
    try:
        returned = get_type_hints(code).get("return", Any)
        if tool.response_format == "content_and_artifact":
            returned = (get_args(returned) or (Any,))[0]
        if returned is Any or returned is inspect.Signature.empty:
            return None
        return _schema_of(returned) or None
    except Exception:  # foreign annotations may be anything
        return None


def _schema_of(annotation: Any) -> JsonObject:
    # Before Python 3.12 pydantic does not look into a `typing.TypedDict`.
    if is_typeddict(annotation):
        properties = {k: _schema_of(v) for k, v in get_type_hints(annotation).items()}
        required = sorted(cast("frozenset[str]", annotation.__required_keys__))
        return {"type": "object", "properties": properties, "required": required}
    try:
        schema = TypeAdapter[object](annotation).json_schema(mode="serialization")
    except PydanticUserError:
        kinds = {list: "array", tuple: "array", dict: "object"}
        kind = kinds.get(get_origin(annotation))
        return {"type": kind} if kind else {}
    return _without_titles(schema, "serialization")


def _visible(schema: JsonObject, hidden: frozenset[str], takes_any: bool) -> JsonObject:
    properties = cast("JsonObject", schema.get("properties", {}))
    shown = {name: one for name, one in properties.items() if name not in hidden}
    if not shown and not takes_any:
        return dict(_NO_ARGUMENTS)
    required = [name for name in cast("list[str]", schema.get("required", [])) if name in shown]
    visible = {**schema, "properties": shown, "required": required}
    if not required:
        del visible["required"]
    return {**visible, "additionalProperties": takes_any}


def _without_titles(schema: JsonObject, mode: Literal["validation", "serialization"]) -> JsonObject:
    """Drop the titles pydantic makes of names, and a model's docstring: noise for a reader."""
    noise = ("title", "description") if mode == "validation" else ("title",)
    plain = {k: v for k, v in schema.items() if k not in noise or not isinstance(v, str)}
    if isinstance(plain.get("properties"), dict):
        properties = cast("dict[str, JsonObject]", plain["properties"])
        plain["properties"] = {
            name: {k: v for k, v in one.items() if k != "title"} for name, one in properties.items()
        }
    return plain
