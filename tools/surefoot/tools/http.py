"""Built-in tool http_get: one GET, bounded in size, never to a prohibited host.

The standard library is enough for it and starts fastest. The whole call is bounded by the tool
host, which ends the process; `timeout_seconds` bounds each wait for the server.
"""

import urllib.error
import urllib.request
from typing import IO, TYPE_CHECKING, Annotated, TypedDict, cast

from langchain_core.tools import BaseTool, tool
from pydantic import Field

from surefoot.tools.context import ToolContext
from surefoot.tools.effects import Refused, effect
from surefoot.tools.files import decode
from surefoot.tools.limits import MAX_TEXT_BYTES, Access

if TYPE_CHECKING:
    from http.client import HTTPMessage, HTTPResponse

_WORTH_ANOTHER_TRY = (408, 425, 429)
_HEADERS = {"User-Agent": "surefoot", "Accept-Encoding": "identity", "Accept": "*/*"}


class Page(TypedDict):
    """An answer: the URL it came from after redirects, and its text, cut where it is too long."""

    url: str
    status: int
    media_type: str
    text: str
    truncated: bool


class HttpFailed(Exception):
    """The server answered with an error, or not at all; `retryable` says if that may pass."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        self.retryable = retryable
        super().__init__(message)


def _may_pass(exc: BaseException) -> bool:
    return not isinstance(exc, HttpFailed) or exc.retryable


@effect("read", retry_on=_may_pass)
@tool
def http_get(
    context: ToolContext,
    url: Annotated[str, Field(description="An http or https URL.")],
    timeout_seconds: Annotated[
        float, Field(description="The longest wait for the server.", gt=0, le=3600)
    ] = 20.0,
) -> Page:
    """Get a web page or a file as text. An error status is a failure."""
    context.access.check_url(url)
    try:
        request = urllib.request.Request(url, headers=_HEADERS)
        opener = urllib.request.build_opener(_CheckedRedirects(context.access))
        with opener.open(request, timeout=timeout_seconds) as response:
            return _page(cast("HTTPResponse", response))
    except urllib.error.HTTPError as exc:
        with exc:
            again = exc.code >= 500 or exc.code in _WORTH_ANOTHER_TRY
            raise HttpFailed(f"{url}: HTTP {exc.code} {exc.reason}", retryable=again) from None
    except OSError as exc:  # URLError, timeouts and broken connections are of this kind
        raise HttpFailed(f"{url}: {exc}", retryable=True) from exc
    except ValueError as exc:  # a URL that cannot be one
        raise Refused("bad_arguments", f"{url}: {exc}") from exc


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    """Looks at every redirect as at the first URL."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: "HTTPMessage",
        newurl: str,
    ) -> urllib.request.Request | None:
        self._access.check_url(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _page(response: "HTTPResponse") -> Page:
    content = response.read(MAX_TEXT_BYTES + 1)
    charset = response.headers.get_content_charset()
    return {
        "url": response.url,
        "status": response.status,
        "media_type": response.headers.get_content_type(),
        "text": _text(content[:MAX_TEXT_BYTES], charset),
        "truncated": len(content) > MAX_TEXT_BYTES,
    }


def _text(content: bytes, charset: str | None) -> str:
    if charset and charset.lower() not in ("utf-8", "utf8"):
        try:
            return content.decode(charset, "replace")
        except LookupError:  # no such encoding
            pass
    return decode(content)


TOOLS: list[BaseTool] = [http_get]
