"""What is read from a tool's signature, and how it is called."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import pytest
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, tool
from pydantic import BaseModel, Field

from surefoot.graph.errors import ToolArgumentsInvalid
from surefoot.tools import ToolContext, effect
from surefoot.tools.calling import callable_tool
from surefoot.tools.limits import Access
from surefoot.tools.registry import register


class Nowhere:
    """A backend for contexts that nothing is asked of."""

    def put(self, name: str, content: bytes, media_type: str) -> None: ...

    def get(self, name: str) -> bytes:
        raise KeyError(name)

    def heartbeat(self) -> None: ...

    def is_cancelled(self) -> bool:
        return False

    def log(self, text: str) -> None: ...


def context_of(workspace: Path = Path("/nowhere")) -> ToolContext:
    return ToolContext(
        task_id="t",
        subtask_id="s",
        attempt=1,
        failed_attempts=0,
        idempotency_key="k",
        access=Access(workspace=workspace),
        task_dir=workspace,
        backend=Nowhere(),
    )


def spec_of(entry: object):
    return register(entry, module="m", digest="").spec


class _Row(TypedDict):
    name: str


@dataclass
class _Point:
    x: float


class _Found(BaseModel):
    rows: list[int]


def test_the_context_is_hidden_with_and_without_a_declaration():
    @tool
    def plain(ticket: str, context: ToolContext) -> dict[str, Any]:
        """Send."""
        return {"to": ticket, "in": context.subtask_id}

    @effect("read")
    @tool
    def named(ticket: str, ctx: ToolContext | None = None) -> dict[str, Any]:
        """Send."""
        return {"to": ticket, "in": ctx.subtask_id if ctx else None}

    for one in (plain, named):
        assert spec_of(one).schema == {
            "type": "object",
            "properties": {"ticket": {"type": "string"}},
            "required": ["ticket"],
            "additionalProperties": False,
        }
        ready = callable_tool(one)
        assert ready.run({"ticket": "a"}, context_of()) == {"to": "a", "in": "s"}
    assert "context" not in plain.args


def test_an_ordinary_argument_may_be_called_context():
    @tool
    def explain(context: str) -> str:
        """Explain."""
        return context

    assert spec_of(explain).schema["required"] == ["context"]


@pytest.mark.parametrize(
    ("returned", "schema"),
    [
        (str, {"type": "string"}),
        (dict, {"type": "object", "additionalProperties": True}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (None, {"type": "null"}),
        (Any, None),
        (object, None),
        (
            _Row,
            {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        ),
        (_Point, {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}),
        (
            _Found,
            {
                "type": "object",
                "properties": {"rows": {"type": "array", "items": {"type": "integer"}}},
                "required": ["rows"],
            },
        ),
        (list[_Row], {"type": "array"}),
    ],
)
def test_the_result_schema_follows_the_annotation(returned: Any, schema: object):
    def function() -> Any: ...

    function.__annotations__["return"] = returned
    assert spec_of(function).output_schema == schema


def test_arguments_are_coerced_and_filled_as_langchain_does():
    @tool
    def add(a: int, rows: list[_Found], b: Annotated[int, Field(ge=0)] = 4) -> int:
        """Add."""
        return a + b + rows[0].rows[0]

    ready = callable_tool(add)
    given = {"a": "1", "rows": [{"rows": [2]}]}
    assert ready.run(given, context_of()) == 7 == add.invoke(given)
    assert ready.plain_arguments(given, context_of()) == {
        "a": 1,
        "rows": [{"rows": [2]}],
        "b": 4,
    }


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({}, "a: Field required"),
        ({"a": "x"}, "a: Input should be a valid integer"),
        ({"a": 1, "c": 2, "d": 3}, "no argument 'c', 'd'; it has a, b"),
    ],
)
def test_arguments_that_do_not_fit_name_every_mismatch(args: dict[str, Any], said: str):
    @tool
    def add(a: int, b: int = 0) -> int:
        """Add."""
        return a + b

    with pytest.raises(ToolArgumentsInvalid, match=said):
        callable_tool(add).run(args, context_of())


def test_variable_keywords_take_what_is_not_named():
    @tool
    def gather(a: int, **more: Any) -> dict[str, Any]:
        """Gather."""
        return {"a": a, **more}

    assert callable_tool(gather).run({"a": 1, "z": 2}, context_of()) == {"a": 1, "z": 2}
    assert spec_of(gather).schema["additionalProperties"] is True


def test_what_only_langchain_can_fill_is_left_to_it():
    @tool
    def inner(a: int, hidden: Annotated[int, InjectedToolArg] = 5) -> int:
        """Add."""
        return a + hidden

    assert list(spec_of(inner).schema["properties"]) == ["a"]
    assert callable_tool(inner).run({"a": 1}, context_of()) == 6


def test_a_tool_written_as_a_class_gets_its_context():
    class Shout(BaseTool):
        name: str = "shout"
        description: str = "Shout."

        def _run(self, text: str, context: ToolContext) -> str:
            return f"{text.upper()} {context.subtask_id}"

    ready = callable_tool(Shout())
    assert ready.run({"text": "a"}, context_of()) == "A s"
    assert list(spec_of(Shout()).schema["properties"]) == ["text"]


def test_content_and_artifact_counts_by_its_content():
    @tool(response_format="content_and_artifact")
    def find() -> tuple[str, list[int]]:
        """Find."""
        return "two", [1, 2]

    ready = callable_tool(find)
    assert ready.result_of(ready.run({}, context_of())) == "two"
    assert spec_of(find).output_schema == {"type": "string"}


def test_a_dict_as_schema_is_kept_as_it_is():
    def run(**args: Any) -> dict[str, Any]:
        return args

    kind: Literal["object"] = "object"
    schema = {"type": kind, "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    made = StructuredTool.from_function(run, name="made", description="d", args_schema=schema)
    assert spec_of(made).schema == schema
    assert callable_tool(made).run({"a": 1}, context_of()) == {"a": 1}
