"""The JSON Schemas that `surefoot schema` prints."""

from typing import Literal

from pydantic import TypeAdapter

from surefoot.graph.values import JsonObject
from surefoot.service.status import StatusDocument


def schema_of(what: Literal["task", "plan", "status"]) -> JsonObject:
    """The schema of a task file, a plan, or the status document."""
    if what == "status":
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **TypeAdapter(StatusDocument).json_schema(),
            "title": "Status",
        }
    from surefoot.graph.schema import json_schema

    return json_schema(what)
