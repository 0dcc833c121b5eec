"""A delta channel whose snapshot is gone, while its checkpoint says that there is one.

LangGraph then takes the saver's mark for the snapshot itself. Our reducers leave the mark as it
is, so that whoever reads the state sees what is not whole instead of a shorter truth.
"""

from collections.abc import Iterable, Mapping

MARK = True
"""What the savers write into a checkpoint in the place of a snapshot."""


def is_gone(value: object) -> bool:
    """Whether this is what is read where a snapshot is gone."""
    return value is MARK


def gone_of(state: Mapping[str, object], channels: Iterable[str]) -> list[str]:
    """Those of the delta channels whose snapshot is gone."""
    return [name for name in channels if is_gone(state.get(name))]
