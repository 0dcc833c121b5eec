"""What the validator found: faults and warnings, each with its code, its words and its ids."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from surefoot.graph.errors import UsageError
from surefoot.graph.task import TaskFile
from surefoot.graph.values import JsonObject

FAULT_CODES = (
    "schema",
    "duplicate_id",
    "unknown_dependency",
    "self_dependency",
    "cycle",
    "unknown_tool",
    "bad_tools_module",
    "bad_arguments",
    "unknown_reference",
    "forward_reference",
    "output_conflict",
    "duplicate_work",
    "granularity",
    "uncovered_criterion",
    "unverifiable",
    "no_way_back",
    "prohibited",
    "missing_permission",
    "over_budget",
    "missing_model",
    "missing_price",
    "missing_resource",
)
"""Every code the validator gives, in the order a report lists them."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, in words that say what to do about it.

    Attributes:
        code: one of `FAULT_CODES`.
        message: one sentence or two; names every id it is about.
        subtasks: the ids it is about: subtasks (inner ones as `outer/inner`), and where it is
            about a phase, milestone, objective or acceptance criterion, the id of that.
    """

    code: str
    message: str
    subtasks: tuple[str, ...] = ()

    def as_dict(self) -> JsonObject:
        """JSON-plain, as `surefoot validate --json` shows it."""
        return {"code": self.code, "message": self.message, "subtasks": list(self.subtasks)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The validator's answer. `task` is the parsed file, None unless it is valid."""

    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...]
    task: TaskFile | None = None

    @property
    def valid(self) -> bool:
        """Whether there is no fault; warnings do not count."""
        return not self.faults

    def as_dict(self) -> JsonObject:
        """The document of `surefoot validate --json`."""
        return {
            "valid": self.valid,
            "faults": [fault.as_dict() for fault in self.faults],
            "warnings": [warning.as_dict() for warning in self.warnings],
        }


def unreadable(error: UsageError) -> Report:
    """The report on a file that could not even be read (see `read_task_file`)."""
    code = "schema" if error.code == "schema" else "missing_resource"
    return Report(faults=(Fault(code, str(error)),), warnings=())


@dataclass(slots=True)
class Findings:
    """Collects faults and warnings while the checks run; the same one twice counts once."""

    _faults: dict[Fault, None] = field(default_factory=dict[Fault, None])
    _warnings: dict[Fault, None] = field(default_factory=dict[Fault, None])

    def fault(self, code: str, message: str, subtasks: Iterable[str] = ()) -> None:
        """Note a fault."""
        self._faults.setdefault(Fault(code, message, tuple(subtasks)))

    def warn(self, code: str, message: str, subtasks: Iterable[str] = ()) -> None:
        """Note a warning."""
        self._warnings.setdefault(Fault(code, message, tuple(subtasks)))

    def note(self, code: str, message: str, subtasks: Iterable[str], *, fatal: bool) -> None:
        """Note a fault, or a warning where it is not fatal."""
        (self.fault if fatal else self.warn)(code, message, subtasks)

    def report(self, task: TaskFile | None) -> Report:
        """The report, faults in the order of `FAULT_CODES`, else as found."""
        return Report(
            faults=_in_order(list(self._faults)),
            warnings=_in_order(list(self._warnings)),
            task=None if self._faults else task,
        )


def _in_order(found: Sequence[Fault]) -> tuple[Fault, ...]:
    rank = {code: n for n, code in enumerate(FAULT_CODES)}
    return tuple(sorted(found, key=lambda fault: rank.get(fault.code, len(rank))))
