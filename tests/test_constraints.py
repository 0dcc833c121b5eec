"""`constraints.txt` still fits `pyproject.toml`: the pins are complete, within bounds, and bare."""

import re
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
PIN = re.compile(r"^[a-z0-9-]+==[\w.]+( ; [\w'\"<>=!., ()]+)?$")


def requirements() -> list[str]:
    """All of `pyproject.toml`: the core and every extra."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    return [*project["dependencies"], *(line for extra in extras.values() for line in extra)]


def pins() -> dict[str, list[str]]:
    """Package -> its pinned versions (several where a marker tells platforms apart)."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for line in LINES:
        pin = Requirement(line)
        found[canonicalize_name(pin.name)] += [spec.version for spec in pin.specifier]
    return found


@pytest.mark.parametrize("line", requirements())
def test_every_requirement_is_pinned_within_its_bounds(line: str) -> None:
    requirement = Requirement(line)
    versions = pins()[canonicalize_name(requirement.name)]
    assert versions
    assert all(requirement.specifier.contains(version) for version in versions)


def test_constraints_are_bare_pins_without_addresses() -> None:
    assert [line for line in LINES if not PIN.match(line)] == []
