"""The validator: a program that finds everything wrong with a task file without a model.

Pure but for the questions a `World` answers. One run finds all faults; each names its ids and
says what to do, in words that a model can act on.
"""

from surefoot.graph.validation.report import FAULT_CODES, Fault, Report, unreadable
from surefoot.graph.validation.validator import plain_faults, validate_plan, validate_task
from surefoot.graph.validation.world import LocalWorld, World

__all__ = [
    "FAULT_CODES",
    "Fault",
    "LocalWorld",
    "Report",
    "World",
    "plain_faults",
    "unreadable",
    "validate_plan",
    "validate_task",
]
