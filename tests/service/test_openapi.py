"""Whatever the OpenAPI document allows, and much that it does not, is answered as the document says; never with a 5xx."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from holdfast.service.limits import Limits
from serving import Running, running

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with running(limits=Limits(copies=2_000, seconds=20.0)) as found:
        yield found


def test_the_service_answers_as_its_document_says(served: Running) -> None:
    document = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    operations = [found.ok() for found in document.get_all_operations() if isinstance(found, Ok)]
    assert len(operations) >= 10
    for operation in operations:
        # Few generated decisions have a confidence and a radius that a service takes.
        @settings(
            max_examples=160 if "decide" in operation.path else 80,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=st.one_of(operation.as_strategy(), operation.as_strategy(GenerationMode.NEGATIVE)))
        def answered(case: Any) -> None:
            case.call_and_validate(checks=CHECKS)

        answered()
    lines = served.service.metrics.text()
    for route in ("certify", "decide", "certify/stream", "decide/stream"):
        assert f'route="/v1/{route}",status="200"' in lines, "no generated question was answered"
    assert served.idle()
    assert served.client.get("/v1/ready").status_code == 200
