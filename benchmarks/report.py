"""What every measurement prints: one JSON document with the machine it was made on."""

import json
import os
import platform
import time
from importlib.metadata import version
from statistics import median
from typing import Any


def machine() -> dict[str, Any]:
    """Enough to compare two documents: cores, their speed and load, versions."""
    return {
        "cores": os.cpu_count(),
        "loop_ms": round(loop_ms(), 1),
        "load_1min": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "langgraph": version("langgraph"),
        "langgraph-checkpoint-postgres": version("langgraph-checkpoint-postgres"),
    }


def loop_ms() -> float:
    """Milliseconds of a million turns of an empty loop, best of 5: how fast one core is now."""
    return min(_loop_once() for _ in range(5)) * 1000


def _loop_once() -> float:
    begun = time.perf_counter()
    for _ in range(1_000_000):
        pass
    return time.perf_counter() - begun


def middle(values: list[float], digits: int = 3) -> float:
    """The median, rounded."""
    return round(median(values), digits)


def print_document(question: str, **answer: Any) -> None:
    """Print the answer to a question, and nothing else, on standard output."""
    print(json.dumps({"question": question, "machine": machine(), **answer}, indent=1))
