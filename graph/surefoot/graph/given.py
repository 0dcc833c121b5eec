"""Telling what was not given from what was given as null."""

from typing import Final


class NotGiven:
    """Stands for a value that was not given."""


NOT_GIVEN: Final = NotGiven()
