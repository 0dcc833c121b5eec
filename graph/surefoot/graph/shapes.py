"""Asking a JSON-plain value what it is, so that a type checker believes the answer."""

from typing import TypeGuard

from surefoot.graph.values import Json, JsonObject


def is_object(value: Json) -> TypeGuard[JsonObject]:
    """Whether the value is a mapping."""
    return isinstance(value, dict)


def is_array(value: Json) -> TypeGuard[list[Json]]:
    """Whether the value is a list."""
    return isinstance(value, list)
