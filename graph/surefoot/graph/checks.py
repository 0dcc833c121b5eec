"""Declarations of checks: what must hold before something counts as done.

Only their shapes live here. Programs evaluate them in `surefoot.tools.verification`.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Check(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str | None = None


class ResultCheck(_Check):
    """Something about the JSON result: present, equal, long enough, or of a shape."""

    type: Literal["result"]
    path: str | None = None
    equals: Any = None
    min_items: int | None = Field(default=None, ge=0)
    json_schema: dict[str, Any] | bool | None = None


class ArtifactCheck(_Check):
    """Something about an artifact's newest good version."""

    type: Literal["artifact"]
    name: str = Field(min_length=1)
    min_bytes: int | None = Field(default=None, ge=0)
    json_schema: dict[str, Any] | bool | None = None
    contains: str | None = None
    regex: str | None = None


class FileCheck(_Check):
    """Something about a file in the workspace (or a declared input)."""

    type: Literal["file"]
    path: str = Field(min_length=1)
    exists: bool = True
    contains: str | None = None


class CommandCheck(_Check):
    """A command in the workspace that must exit with 0."""

    type: Literal["command"]
    run: str | list[str]
    timeout_seconds: float | None = Field(default=None, gt=0)


class PythonCheck(_Check):
    """A function `f(context) -> bool | str`; a text or a raise means it failed."""

    type: Literal["python"]
    call: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")


class JudgeCheck(_Check):
    """A model's verdict against a rubric; asked after the programs."""

    type: Literal["judge"]
    rubric: str = Field(min_length=1)


class PersonCheck(_Check):
    """A person's verdict, on a sample of `sample` items where given; asked last."""

    type: Literal["person"]
    question: str = Field(min_length=1)
    sample: int | None = Field(default=None, ge=1)


Check = Annotated[
    ResultCheck | ArtifactCheck | FileCheck | CommandCheck | PythonCheck | JudgeCheck | PersonCheck,
    Field(discriminator="type"),
]
"""Any one check, told apart by `type`."""

PROGRAM_CHECKS = ("result", "artifact", "file", "command", "python")
"""The check types a program decides alone; they run before `judge` and `person`."""
