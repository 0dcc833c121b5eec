"""The status document as Python code and notebooks get it."""

from typing import Any


class Status(dict[str, Any]):
    """The status document; in a notebook it shows itself as a bar and a few lines."""

    @property
    def completed(self) -> bool:
        """Whether the task has ended well."""
        return self["status"] == "completed"

    def _repr_html_(self) -> str:
        from surefoot.service.notebook import status_html

        return status_html(self)
