"""Where models are called, and what this process has learnt about each of them.

The environment is read here, at the door of this package, whenever a task's client is made; the
key goes into the request's header and nowhere else.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from surefoot.graph.errors import UsageError
from surefoot.models.brake import Brake

DEFAULT_URL = "https://api.openai.com/v1"
IDLE_S = 60.0
TOTAL_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A server, its key and the patience with one call.

    Attributes:
        base_url: up to and with `/v1`.
        key: never shown: not in `repr`, events, errors or state.
        idle_s: a call ends when nothing comes for so long.
        total_s: and at the latest after so long.
    """

    base_url: str = DEFAULT_URL
    key: str = field(default="", repr=False)
    idle_s: float = IDLE_S
    total_s: float = TOTAL_S

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> "Place":
        """Read OPENAI_BASE_URL, OPENAI_API_KEY and the two time limits.

        Raises:
            UsageError: a time limit is not a number of seconds above 0.
        """
        env = os.environ if environ is None else environ
        return cls(
            base_url=(env.get("OPENAI_BASE_URL") or DEFAULT_URL).strip().rstrip("/"),
            key=(env.get("OPENAI_API_KEY") or "").strip(),
            idle_s=_seconds(env, "SUREFOOT_MODEL_IDLE_SECONDS", IDLE_S),
            total_s=_seconds(env, "SUREFOOT_MODEL_TOTAL_SECONDS", TOTAL_S),
        )

    @property
    def lacks_key(self) -> bool:
        """Whether asking is pointless: the default server answers nobody without a key."""
        return not self.key and self.base_url == DEFAULT_URL

    @property
    def server(self) -> str:
        """Host and port, for messages; never what else stands in the URL."""
        try:
            place = urlsplit(self.base_url).netloc.rpartition("@")[2]
        except ValueError:
            place = ""
        return place or "the server in OPENAI_BASE_URL"

    def scrubbed(self, text: str) -> str:
        """The text without the key, should a server have sent it back."""
        return text.replace(self.key, "***") if len(self.key) >= 6 else text


@dataclass(slots=True)
class Endpoint:
    """One model on one server, as far as this process knows it.

    Attributes:
        brake: shared by everybody who calls it.
        unsupported: fields of a request that it refused once.
    """

    brake: Brake = field(default_factory=Brake)
    unsupported: set[str] = field(default_factory=set[str])


class Endpoints:
    """What a process knows, by (base URL, model)."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Endpoint] = {}

    def of(self, base_url: str, model: str) -> Endpoint:
        """The one entry of an endpoint."""
        return self._known.setdefault((base_url, model), Endpoint())


ENDPOINTS = Endpoints()
"""Those of this process: a brake works only when everybody steps on the same one."""


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name)
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError("bad_setting", f"{name} is {text!r}: give seconds above 0")
    return seconds
