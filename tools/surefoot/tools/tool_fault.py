"""What is wrong with a tools module, as a value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFault:
    """Something wrong with a tools module: the code `bad_tools_module`, one message."""

    module: str
    message: str
    code: str = "bad_tools_module"
