"""Modules of `examples/` for tests: scripts beside a task file, not an installed package."""

import importlib
import sys
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
CONTRACT_REVIEW = EXAMPLES / "contract-review"
FLAKY_STEPS = EXAMPLES / "flaky-steps"
REFUNDS = EXAMPLES / "refunds"


def example_module(folder: Path, name: str) -> Any:
    """Import a module of an example the way a tools module does: its folder is importable.

    Neighbours are forgotten afterwards, because two examples may use one name for two modules.
    """
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))
        for added in set(sys.modules) - before:
            origin = getattr(sys.modules[added], "__file__", None)
            if origin is not None and Path(origin).is_relative_to(folder):
                del sys.modules[added]
