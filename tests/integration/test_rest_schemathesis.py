"""The server against its own description: requests of every shape it describes, and of shapes it does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import positive_data_acceptance

from backread import Memory
from backread.server.app import create_app
from backread.server.keys import ADMIN, Keys, hash_key
from backread.testing.fakes import HashEmbedder

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(180)]

EXAMPLES = 12
KEY = {"Authorization": "Bearer root"}
TURN = {"role": "user", "content": "The key is under the pot.", "id": "m1"}


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("rest") / "m.db"
    with Memory.open(path, embedder=HashEmbedder(64)) as memory:
        memory.add(TURN, user_id="ann", session_id="s1")
        app = create_app(memory, keys=Keys({hash_key("root"): ADMIN}))
        yield schemathesis.openapi.from_asgi("/v1/openapi.json", app)  # which starts and ends it for every request


def checked(case: Any, mode: GenerationMode) -> None:
    """Send a request; status, content type, headers and body must be as described, and what is wrong be refused.

    A value of the right shape may still be refused, such as a time that can't be read, but then by `Memory`; and a
    model that is not configured is a failure of the model, never of the server.
    """
    response = case.call(headers=KEY)
    case.validate_response(response, excluded_checks=[not_a_server_error, positive_data_acceptance])
    if response.status_code >= 500:
        assert response.json()["type"].startswith("urn:backread:Model"), response.text
    if mode is GenerationMode.POSITIVE and response.status_code == 422:
        assert response.json()["type"].startswith("urn:backread:"), response.text
    if response.status_code >= 400:
        assert response.json()["detail"], response.text


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_every_operation_does_as_it_says(schema: Any, mode: GenerationMode) -> None:
    seen = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        def run(case: Any) -> None:
            checked(case, mode)

        try:
            run()
        except Unsatisfiable:  # nothing can be wrong with a request that has neither parameters nor a key
            assert operation.path in ("/healthz", "/readyz")
        seen += 1
    assert seen == len([0 for _ in schema.get_all_operations()]) == 24
