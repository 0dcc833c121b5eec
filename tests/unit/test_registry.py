"""Tools modules: what is taken in, and which faults are found."""

from pathlib import Path
from typing import Any, cast

from surefoot.tools.registry import Registry


def loaded(modules: list[str], task_dir: Path) -> Registry:
    registry = Registry()
    registry.add_builtin()
    for module in dict.fromkeys(modules):
        registry.add_module(module, task_dir)
    return registry


def test_every_bad_module_becomes_a_fault_and_good_ones_count(tmp_path: Path):
    sources = {
        "good.py": "from helper import f\ndef g(x: int) -> int:\n 'G.'\n return f(x)\nTOOLS=[g]",
        "helper.py": "def f(x): return x",
        "raises.py": "\n\n1 / 0",
        "syntax.py": "def",
        "leaves.py": "import sys; sys.exit(4)",
        "none.py": "x = 1",
        "notlist.py": "TOOLS = {'a': 1}",
        "nottool.py": "TOOLS = [3, int]",
        "wrong.py": "from surefoot.tools import effect\neffect('raed')",
        "twice.py": "def g(): 'G.'\nTOOLS=[g]",
    }
    for name, source in sources.items():
        (tmp_path / name).write_text(source)
    modules = [f"./{name}" for name in sources if name != "helper.py"] + ["./missing.py", "no.such"]
    registry = loaded([*modules, "./good.py"], tmp_path)
    said = {fault.module: fault.message for fault in registry.faults}
    assert "ZeroDivisionError: division by zero (raises.py, line 3)" in said["./raises.py"]
    assert "SyntaxError" in said["./syntax.py"]
    assert "sys.exit(4)" in said["./leaves.py"]
    assert "no list TOOLS" in said["./none.py"]
    assert "not dict" in said["./notlist.py"]
    assert "int is not a tool" in said["./nottool.py"]
    assert "did you mean 'read'" in said["./wrong.py"]
    assert "g is also a tool of ./good.py" in said["./twice.py"]
    assert "there is no file" in said["./missing.py"]
    assert "No module named 'no'" in said["no.such"]
    assert cast("Any", registry.tools["g"].callable.tool).func(x=3) == 3
    assert len(registry.tools["g"].spec.digest) == 64


def test_the_built_in_tools_are_there_and_a_users_tool_goes_first():
    registry = loaded([], Path("/nowhere"))
    assert {name: spec.effect for name, spec in registry.specs.items()} == {
        "list_files": "read",
        "read_text": "read",
        "write_text": "idempotent",
        "read_document": "read",
        "write_artifact": "idempotent",
        "read_artifact": "read",
        "run_command": "irreversible",
        "http_get": "read",
    }
    assert all(spec.output_schema for spec in registry.specs.values())

    def read_text(path: str) -> str:
        return path

    registry.add_objects([read_text])
    assert registry.tools["read_text"].spec.module == "object"
    assert registry.faults == []
