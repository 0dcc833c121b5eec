"""Tools by name: users' modules loaded, their TOOLS taken in, faults collected, never raised.

A module is foreign code: whatever its import does wrong becomes a fault that names it.
"""

import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from langchain_core.tools import BaseTool, StructuredTool

from surefoot.graph.plain import clean_text
from surefoot.graph.ports import ToolSpec
from surefoot.tools.calling import CallableTool, callable_tool
from surefoot.tools.effects import Effect, effect_of
from surefoot.tools.limits import bounded_text
from surefoot.tools.schemas import arguments_schema, result_schema
from surefoot.tools.tool_fault import ToolFault

BUILTIN = "builtin"
OBJECT = "object"
BUILTIN_MODULES = (
    "surefoot.tools.files",
    "surefoot.tools.documents",
    "surefoot.tools.store_tools",
    "surefoot.tools.shell",
    "surefoot.tools.http",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredTool:
    """A tool with its declaration and all that is known of it."""

    spec: ToolSpec
    effect: Effect
    callable: CallableTool


@dataclass(slots=True)
class Registry:
    """The tools of one task. A tool of the user's goes before a built-in one of its name."""

    tools: dict[str, RegisteredTool] = field(default_factory=dict[str, RegisteredTool])
    faults: list[ToolFault] = field(default_factory=list[ToolFault])

    @property
    def specs(self) -> Mapping[str, ToolSpec]:
        """The specs by tool name."""
        return {name: one.spec for name, one in self.tools.items()}

    def add_builtin(self) -> None:
        """Take in the tools that come with Surefoot."""
        for name in BUILTIN_MODULES:
            for entry in cast("list[object]", importlib.import_module(name).TOOLS):
                self._add(register(entry, module=BUILTIN, digest=""))

    def add_module(self, module: str, task_dir: Path) -> None:
        """Import a module (a path, or a dotted name) and take in its TOOLS, or note a fault."""
        try:
            loaded = load_module(module, task_dir)
        except BaseException as exc:  # foreign code; SystemExit too
            self._fault(module, _import_failure(exc))
            return
        for place, entry in enumerate(self._entries(module, loaded)):
            self._add_entry(entry, f"TOOLS[{place}]", module, _source_digest(loaded))

    def add_objects(self, objects: Sequence[object]) -> None:
        """Take in tools passed as objects."""
        for place, entry in enumerate(objects):
            self._add_entry(entry, f"tools[{place}]", OBJECT, _object_digest(entry))

    def _entries(self, module: str, loaded: ModuleType) -> list[object]:
        entries = getattr(loaded, "TOOLS", None)
        if entries is None:
            self._fault(module, "it has no list TOOLS; add TOOLS = [my_tool, ...]")
        elif not isinstance(entries, list | tuple):
            self._fault(module, f"TOOLS must be a list of tools, not {type(entries).__name__}")
        else:
            return list(cast("list[object]", entries))
        return []

    def _add_entry(self, entry: object, place: str, module: str, digest: str) -> None:
        try:
            tool = register(entry, module=module, digest=digest)
        except Exception as exc:  # foreign declarations
            self._fault(module, f"{place}: {clean_text(str(exc))}")
            return
        other = self.tools.get(tool.spec.name)
        if other is not None and other.spec.module != BUILTIN:
            where = other.spec.module if other.spec.module != module else "the same list"
            self._fault(module, f"{place}: {tool.spec.name} is also a tool of {where}; rename one")
            return
        self._add(tool)

    def _add(self, tool: RegisteredTool) -> None:
        self.tools[tool.spec.name] = tool

    def _fault(self, module: str, message: str) -> None:
        self.faults.append(ToolFault(module=module, message=f"tools module {module}: {message}"))


def register(entry: object, *, module: str, digest: str) -> RegisteredTool:
    """A tool from an entry of TOOLS: a LangChain tool or a plain function.

    Raises:
        TypeError: it is neither.
    """
    tool = _as_tool(entry)
    effect, ready = effect_of(tool), callable_tool(tool)
    spec = ToolSpec(
        name=tool.name,
        description=clean_text(tool.description),
        schema=arguments_schema(ready),
        effect=effect.kind,
        output_schema=result_schema(tool),
        timeout_s=effect.timeout_seconds,
        max_attempts=effect.max_attempts,
        has_key=effect.key is not None,
        has_probe=effect.probe is not None,
        has_compensate=effect.compensate is not None,
        in_process=effect.in_process or module == OBJECT,
        module=module,
        digest=digest,
    )
    return RegisteredTool(spec=spec, effect=effect, callable=ready)


def load_module(module: str, task_dir: Path) -> ModuleType:
    """Import `./tools.py`-like paths (against the task's folder) and dotted names.

    The folder of a path becomes importable, after the standard library and before what is
    installed, so that a `helpers.py` beside the tools is found and no `json.py` breaks Python.

    Raises:
        FileNotFoundError: there is no such file.
        BaseException: whatever the module's own code raises.
    """
    if not (module.endswith(".py") or "/" in module):
        make_importable(task_dir)
        return importlib.import_module(module)
    path = (task_dir / module).resolve()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    make_importable(path.parent)
    name = _module_name(path)
    loaded = sys.modules.get(name)
    return loaded if loaded is not None else _execute(name, path)


def make_importable(folder: Path) -> None:
    """Put a folder on the import path, before the first folder of installed packages."""
    if str(folder) in sys.path:
        return
    installed = ("site-packages", "dist-packages")
    place = next((n for n, p in enumerate(sys.path) if p.endswith(installed)), len(sys.path))
    sys.path.insert(place, str(folder))
    importlib.invalidate_caches()


def _execute(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _module_name(path: Path) -> str:
    """Its own name, so that neighbours importing it get the same module; else a unique one."""
    try:
        found = importlib.util.find_spec(path.stem)
    except (ImportError, ValueError):
        found = None
    if found is not None and found.origin is not None and Path(found.origin).resolve() == path:
        return path.stem
    return f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


def _as_tool(entry: object) -> BaseTool:
    if isinstance(entry, BaseTool):
        return entry
    if isinstance(entry, type) or not callable(entry):
        kind = entry.__name__ if isinstance(entry, type) else type(entry).__name__
        raise TypeError(f"{kind} is not a tool; put @tool above a function")
    function = cast("Callable[..., Any]", entry)
    said = inspect.getdoc(function) or function.__name__
    if inspect.iscoroutinefunction(function):
        return StructuredTool.from_function(coroutine=function, description=said)
    return StructuredTool.from_function(function, description=said)


def _import_failure(exc: BaseException) -> str:
    if isinstance(exc, FileNotFoundError) and exc.filename is None:
        return str(exc)
    if isinstance(exc, SystemExit):
        return f"it called sys.exit({exc.code!r}) while being imported"
    # A syntax error's lines show the place; of other exceptions the first line says what it is.
    lines = "".join(traceback.format_exception_only(exc)).strip().splitlines()
    last = lines[-1] if isinstance(exc, SyntaxError) else lines[0]
    frames = traceback.extract_tb(exc.__traceback__)
    where = next((f for f in reversed(frames) if "importlib" not in f.filename), None)
    place = f" ({Path(where.filename).name}, line {where.lineno})" if where else ""
    return bounded_text(f"it cannot be imported: {last}{place}")


def _source_digest(module: ModuleType) -> str:
    try:
        return hashlib.sha256(Path(str(module.__file__)).read_bytes()).hexdigest()
    except OSError:
        return ""


def _object_digest(entry: object) -> str:
    code = getattr(entry, "func", None) or getattr(entry, "coroutine", None) or entry
    try:
        return hashlib.sha256(inspect.getsource(cast("Any", code)).encode()).hexdigest()
    except (OSError, TypeError):
        return ""
