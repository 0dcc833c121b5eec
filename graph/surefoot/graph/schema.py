"""The JSON Schemas of what people write: task files and plans (`surefoot schema`).

Made from the models that parse them, so that they cannot say anything else. The schema of the
status document lies with what writes it, in `surefoot.service`.
"""

from typing import Literal

from pydantic import BaseModel

from surefoot.graph.plan import Plan
from surefoot.graph.task import TaskFile
from surefoot.graph.values import JsonObject

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_MODELS: dict[Literal["task", "plan"], type[BaseModel]] = {"task": TaskFile, "plan": Plan}


def json_schema(which: Literal["task", "plan"]) -> JsonObject:
    """The JSON Schema (draft 2020-12) of a task file or of a plan alone.

    It says what shapes are accepted; whether names exist and fit together, the validator says.
    """
    model = _MODELS[which]
    return {"$schema": DIALECT, "title": f"surefoot {which}", **_without_title(model)}


def _without_title(model: type[BaseModel]) -> JsonObject:
    schema = model.model_json_schema(mode="validation")
    return {key: value for key, value in schema.items() if key != "title"}
