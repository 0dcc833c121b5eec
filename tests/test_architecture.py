"""The direction of imports (who may know whom), read from the source with `ast`.

Local imports and imports for type checkers count as well, and so do modules named in a string.
"""

import ast
import re
import sys
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("graph", "nodes", "tools", "checkpointing", "models", "service")
FILES = [p for folder in FOLDERS for p in sorted(ROOT.glob(f"{folder}/surefoot/**/*.py"))]

ROOF = {
    f"surefoot.graph.{name}"
    for name in (
        *("build", "assembly", "goes", "nesting", "group_ports", "group_threads", "subtask", "app"),
        *(
            "session",
            "opening",
            "creation",
            "holding",
            "hosting",
            "modelling",
            "stepping_in",
            "inspection",
            "housekeeping",
            "edits",
            "halting",
            "plan_alone",
        ),
    )
}
MAY_IMPORT = {
    "ground": {"ground"},
    "tools": {"ground", "tools"},
    "checkpointing": {"ground", "checkpointing"},
    "models": {"ground", "models"},
    "nodes": {"ground", "nodes"},
    "roof": {"ground", "tools", "checkpointing", "models", "nodes", "roof"},
    "service": {"ground", "tools", "checkpointing", "models", "nodes", "roof", "service"},
}
GROUND_MAY_USE = {
    *(*sys.stdlib_module_names, "pydantic", "pydantic_core"),
    *("jsonschema", "referencing"),  # its way of naming schemas
}
MAY_ALSO_USE = {
    "surefoot.graph.state": {"langgraph"},
    "surefoot.graph.subtask_state": {"langgraph"},
    "surefoot.graph.yaml_reader": {"yaml"},
}


def module_of(path: Path) -> str:
    """`graph/surefoot/graph/plan.py` -> `surefoot.graph.plan`; a package's name for `__init__`."""
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def floor_of(module: str) -> str:
    folder = module.split(".")[1]
    return folder if folder != "graph" else "roof" if module in ROOF else "ground"


def imported_by(source: str, package: str) -> set[str]:
    """Everything a source names: modules, and of our own also `from surefoot.graph import plan`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=module, names=names, level=level):
                base = resolve_name("." * level + (module or ""), package)
                inner = {f"{base}.{alias.name}" for alias in names} & MODULES.keys()
                found |= inner or {base}
            case ast.Constant(value=str(text)) if re.fullmatch(r"surefoot(\.\w+){2,}", text):
                found.add(text)
            case _:
                pass
    return found


def imports_of(module: str) -> set[str]:
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return imported_by(path.read_text(encoding="utf-8"), package)


OURS = {
    name: {target for target in imports_of(name) if target.startswith("surefoot.")}
    for name in MODULES
}


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down_only(module: str) -> None:
    allowed = MAY_IMPORT[floor_of(module)]
    assert {target for target in OURS[module] if floor_of(target) not in allowed} == set()


@pytest.mark.parametrize("module", [name for name in MODULES if floor_of(name) == "ground"])
def test_ground_floor_uses_the_standard_library_and_pydantic_only(module: str) -> None:
    allowed = GROUND_MAY_USE | MAY_ALSO_USE.get(module, set())
    foreign = {target.split(".")[0] for target in imports_of(module) - OURS[module]}
    assert foreign <= allowed


@pytest.mark.parametrize(
    "module", sorted({"surefoot.nodes.think", "surefoot.nodes.act"} & MODULES.keys())
)
def test_execution_sees_a_work_order_and_never_the_state(module: str) -> None:
    seen, todo = set[str](), [module]
    while todo:
        name = todo.pop()
        seen.add(name)
        todo += OURS.get(name, set()) - seen
    assert "surefoot.graph.state" not in seen


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert list(TopologicalSorter(OURS).static_order())


def test_importing_the_floor_does_not_pull_in_the_roof() -> None:
    assert imports_of("surefoot.graph") == set()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import surefoot.nodes.load", "surefoot.nodes.load"),
        ("from surefoot.graph import plan", "surefoot.graph.plan"),
        ("from surefoot.graph.plan import Plan", "surefoot.graph.plan"),
        ("if TYPE_CHECKING:\n    from surefoot.graph.plan import Plan", "surefoot.graph.plan"),
        ("def f():\n    from .plan import Plan", "surefoot.graph.plan"),
        ("from . import plan", "surefoot.graph.plan"),
        ("from ..graph.plan import Plan", "surefoot.graph.plan"),
        ("from surefoot import graph", "surefoot.graph"),
        ("import_module('surefoot.service.cli')", "surefoot.service.cli"),
    ],
)
def test_no_way_of_importing_is_overlooked(source: str, found: str) -> None:
    assert found in imported_by(source, "surefoot.graph")
