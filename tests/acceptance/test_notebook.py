"""The notebooks run from top to bottom, on an embedded server of their own."""

import asyncio
import os
from pathlib import Path
from typing import Any, cast

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def execute(path: Path, home: Path) -> Any:
    """Run a notebook in a kernel of its own and return it with its outputs."""
    notebook: Any = cast("Any", nbformat).read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SUREFOOT_")}
    environment["SUREFOOT_HOME"] = str(home)
    asyncio.run(client.async_execute(env=environment))
    return notebook


def shown(notebook: Any) -> str:
    """Everything the cells printed or displayed."""
    texts: list[str] = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            texts.append(output.get("text") or data.get("text/html") or data.get("text/plain", ""))
    return "\n".join(texts)


@pytest.mark.filterwarnings("default")  # the kernel manager's own
def test_run_and_look_shows_the_tree_the_progress_and_the_history(home: Path) -> None:
    seen = shown(execute(ROOT / "notebooks" / "01_run_and_look.ipynb", home))
    assert "12 of 12 subtasks" in seen
    assert "21 attempts" in seen
    assert "retry rate 0.75" in seen
    assert "step12" in seen
    assert "('step2', 'retry', 'RuntimeError: step 2 failed')" in seen
    assert "step12/summary.json" in seen


def test_every_notebook_is_run_by_a_test() -> None:
    assert [path.name for path in NOTEBOOKS] == ["01_run_and_look.ipynb"]
