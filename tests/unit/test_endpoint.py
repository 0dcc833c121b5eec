"""Where models are called: what the environment says, and what may be shown of it."""

import pytest

from surefoot.models.endpoint import Place


def test_only_the_default_server_needs_a_key() -> None:
    assert Place.from_environment({}).lacks_key
    assert not Place.from_environment({"OPENAI_API_KEY": "k"}).lacks_key
    assert not Place.from_environment({"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"}).lacks_key


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:8000/v1", "127.0.0.1:8000"),
        ("https://me:secret@models.example/v1", "models.example"),
        ("me:secret@models.example/v1", "the server in OPENAI_BASE_URL"),
        ("http://[broken/v1", "the server in OPENAI_BASE_URL"),
    ],
)
def test_of_a_url_only_host_and_port_are_shown(url: str, shown: str) -> None:
    assert Place(base_url=url).server == shown
