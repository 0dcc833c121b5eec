"""How a tool's code is called: arguments coerced, the context put in.

The same for the worker process and for tools in this one. No processes and no time limits here.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, StructuredTool
from pydantic import BaseModel, ValidationError

from surefoot.graph.errors import ToolArgumentsInvalid
from surefoot.graph.plain import NotJson, TooLarge, clean_json
from surefoot.graph.values import JsonObject
from surefoot.tools.context import Injected, ToolContext
from surefoot.tools.limits import bounded_text

_BY_LANGCHAIN = ("callbacks", "run_manager")


@dataclass(frozen=True, slots=True)
class CallableTool:
    """A tool with what is known of its signature, ready to be called."""

    tool: BaseTool
    contexts: frozenset[str] = frozenset()
    """Parameters that take the `ToolContext`."""
    injected: frozenset[str] = frozenset()
    """Other parameters that only LangChain can fill."""
    wants_call_id: bool = False
    direct: bool = False
    """Its function is called as it is. LangChain's own way costs ten times an empty call; it is
    kept where it does something."""
    takes_any: bool = False
    """It has `**kwargs`: unknown arguments are passed on."""
    variadic: frozenset[str] = frozenset()
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    """Argument name as given (alias or name) -> field of the pydantic `args_schema`."""

    def run(self, args: JsonObject, context: ToolContext) -> object:
        """Call it; what is awaitable in the answer is for the caller to await.

        Raises:
            ToolArgumentsInvalid: the arguments do not fit; nothing was called.
        """
        function = self._function()
        if function is None:
            return self.tool.invoke(self._tool_input(args, context))
        return function(**self.arguments(args, context))

    def run_async(self, args: JsonObject, context: ToolContext) -> Awaitable[object] | None:
        """The call as an awaitable, None where the tool is not written async."""
        if not self.is_async:
            return None
        function = cast("StructuredTool", self.tool).coroutine
        if self.direct and function is not None:
            return function(**self.arguments(args, context))
        return self.tool.ainvoke(self._tool_input(args, context))

    @property
    def is_async(self) -> bool:
        """Whether the tool has a coroutine of its own."""
        if isinstance(self.tool, StructuredTool):
            return self.tool.coroutine is not None
        return type(self.tool)._arun is not BaseTool._arun  # pyright: ignore[reportPrivateUsage] - the only sign of it

    def arguments(self, args: JsonObject, context: ToolContext) -> dict[str, Any]:
        """The keyword arguments, coerced and with defaults, as `BaseTool` would pass them.

        Raises:
            ToolArgumentsInvalid: they do not fit the tool's schema; lists every mismatch.
        """
        named = dict.fromkeys(self.contexts, context)
        model = self.tool.args_schema
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return {**args, **named}
        self._check_known(args)
        given = {**args, **{n: c for n, c in named.items() if n in model.model_fields}}
        try:
            parsed = model.model_validate(given)
        except ValidationError as exc:
            raise ToolArgumentsInvalid(self._mismatches(exc)) from None
        fields = type(parsed).model_fields
        kwargs = {
            name: getattr(parsed, name)
            for name, one in fields.items()
            if name not in self.variadic
            and (name in parsed.model_fields_set or not one.is_required())
        }
        extra = {k: v for k, v in args.items() if k not in self.fields} if self.takes_any else {}
        return {**kwargs, **(parsed.model_extra or {}), **extra, **named}

    def plain_arguments(self, args: JsonObject, context: ToolContext) -> JsonObject:
        """The coerced arguments as plain JSON, defaults filled in: what `key` and `probe` see."""
        coerced = self.arguments(args, context)
        try:
            plain, _ = clean_json({k: v for k, v in coerced.items() if k not in self.contexts})
        except (NotJson, TooLarge):
            return dict(args)
        return cast("JsonObject", plain)

    def result_of(self, returned: object) -> object:
        """The content of what the tool returned (`content_and_artifact`, a `ToolMessage`)."""
        if isinstance(returned, ToolMessage):
            return cast("object", returned.content)
        if self.direct and self.tool.response_format == "content_and_artifact":
            if not (isinstance(returned, tuple) and len(cast("tuple[object]", returned)) == 2):
                raise ValueError("response_format='content_and_artifact' needs a pair as result")
            return cast("tuple[object, object]", returned)[0]
        return returned

    def _function(self) -> Callable[..., object] | None:
        if not self.direct:
            return None
        tool = cast("StructuredTool", self.tool)
        return tool.func or tool.coroutine

    def _tool_input(self, args: JsonObject, context: ToolContext) -> Any:
        given = {**args, **dict.fromkeys(self.contexts, context)}
        if not self.wants_call_id:
            return given
        call_id = context.idempotency_key
        return {"name": self.tool.name, "args": given, "id": call_id, "type": "tool_call"}

    def _check_known(self, args: JsonObject) -> None:
        unknown = [name for name in args if name not in self.fields]
        if unknown and not self.takes_any:
            known = ", ".join(sorted(self.fields)) or "none"
            raise ToolArgumentsInvalid(
                f"{self.tool.name} has no argument {', '.join(map(repr, unknown))}; it has {known}"
            )

    def _mismatches(self, exc: ValidationError) -> str:
        errors = exc.errors(include_url=False, include_context=False, include_input=False)
        lines = [f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}" for e in errors]
        return bounded_text(f"{self.tool.name}: " + "; ".join(lines))


def callable_tool(tool: BaseTool) -> CallableTool:
    """Look at a tool's signature once, so that calls need not."""
    function = _code_of(tool)
    hints, parameters = _hints(function), _parameters(function)
    contexts = {n for n, p in parameters.items() if is_context(n, hints.get(n, p.annotation))}
    injected = {
        name
        for name in parameters.keys() - contexts
        if name in _BY_LANGCHAIN or is_injected(hints.get(name))
    }
    by_key = {p.kind: name for name, p in parameters.items()}
    variadic = {by_key.get(p.VAR_KEYWORD) for p in parameters.values()}
    variadic |= {by_key.get(p.VAR_POSITIONAL) for p in parameters.values()}
    names = frozenset(name for name in variadic if name)
    return CallableTool(
        tool,
        contexts=frozenset(contexts),
        injected=frozenset(injected),
        direct=not injected and _is_simple(tool),
        wants_call_id=any(_has_mark(hint, InjectedToolCallId) for hint in hints.values()),
        takes_any=inspect.Parameter.VAR_KEYWORD in by_key or _allows_extra(tool),
        variadic=names,
        fields=_argument_names(tool, contexts | injected | names),
    )


def is_context(name: str, annotation: object) -> bool:
    """Whether a parameter takes the context: by its type, or as an untyped `context`."""
    if annotation is inspect.Parameter.empty:
        return name == "context"
    if isinstance(annotation, str):  # could not be resolved
        return annotation.replace(" ", "").split("|")[0].endswith("ToolContext")
    if isinstance(annotation, type):
        return issubclass(annotation, ToolContext)
    return any(is_context(name, a) for a in get_args(annotation) if a is not type(None))


def is_injected(annotation: object) -> bool:
    """Whether LangChain fills a parameter of this type itself."""
    kind = get_origin(annotation) or annotation
    if kind is RunnableConfig or (isinstance(kind, type) and issubclass(kind, Injected)):
        return True
    return _has_mark(annotation, InjectedToolArg)


def _is_simple(tool: BaseTool) -> bool:
    return (
        isinstance(tool, StructuredTool)
        and type(tool)._run is StructuredTool._run  # pyright: ignore[reportPrivateUsage] - was it overridden?
        and type(tool)._arun is StructuredTool._arun  # pyright: ignore[reportPrivateUsage] - was it overridden?
        and not tool.callbacks
        and not (tool.handle_tool_error or tool.handle_validation_error)
    )


def _code_of(tool: BaseTool) -> Callable[..., object]:
    code = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    if code is None:
        own = type(tool)._run is not BaseTool._run  # pyright: ignore[reportPrivateUsage] - no public name
        code = tool._run if own else tool._arun  # pyright: ignore[reportPrivateUsage] - no public name
    return cast("Callable[..., object]", code)


def _hints(function: Callable[..., object]) -> dict[str, object]:
    try:
        return cast("dict[str, object]", get_type_hints(function, include_extras=True))
    except Exception:  # foreign annotations may name anything
        return {}


def _parameters(function: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def _has_mark(annotation: object, mark: type) -> bool:
    if get_origin(annotation) is not Annotated:
        return False
    extras = get_args(annotation)[1:]
    return any(
        isinstance(one, mark) or (isinstance(one, type) and issubclass(one, mark)) for one in extras
    )


def _allows_extra(tool: BaseTool) -> bool:
    model = tool.args_schema
    if isinstance(model, type) and issubclass(model, BaseModel):
        return model.model_config.get("extra") == "allow"
    return False


def _argument_names(tool: BaseTool, hidden: set[str] | frozenset[str]) -> dict[str, str]:
    model = tool.args_schema
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return {}
    shown = {name: one for name, one in model.model_fields.items() if name not in hidden}
    aliases = {one.alias: name for name, one in shown.items() if one.alias}
    by_name = model.model_config.get("populate_by_name") or model.model_config.get(
        "validate_by_name"
    )
    plain = {name: name for name, one in shown.items() if not one.alias or by_name}
    return {**plain, **aliases}
