"""The source roots, and the sizes and names of files."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("graph", "nodes", "tools", "checkpointing", "models", "service")
SOURCES = [
    path
    for folder in (*FOLDERS, "tests", "benchmarks", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
MOST_LINES = 500
VAGUE_NAMES = {"utils", "helpers", "common", "misc", "manager"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_source_root_holds_exactly_its_own_package(folder: str) -> None:
    inside = {p.name for p in (ROOT / folder).iterdir()} - {"__pycache__"}
    assert inside == {"README.md", "surefoot"}
    packages = {p.name for p in (ROOT / folder / "surefoot").iterdir()} - {"__pycache__"}
    assert packages == {folder}
    assert (ROOT / folder / "surefoot" / folder / "py.typed").is_file()


def test_no_module_is_loaded_under_a_second_name() -> None:
    tops = {name.split(".")[0] for name in sys.modules}
    assert tops.isdisjoint(FOLDERS)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_file_is_too_long_or_vaguely_named(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
    assert path.stem not in VAGUE_NAMES
