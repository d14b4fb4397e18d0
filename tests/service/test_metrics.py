"""Metrics: names, types and labels that dashboards were built on, read by Prometheus' own parser."""

import sys

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from holdfast.service.metrics import Metrics
from holdfast.service.shares import FairShare

TYPES = {
    "holdfast_info": "gauge",
    "holdfast_responses": "counter",
    "holdfast_copies": "counter",
    "holdfast_rounds": "counter",
    "holdfast_shared_rounds": "counter",
    "holdfast_copies_per_second": "gauge",
    "holdfast_requests_open": "gauge",
    "holdfast_requests_capacity": "gauge",
    "holdfast_ready": "gauge",
    "holdfast_answer_seconds": "histogram",
}


def idle() -> Metrics:
    """Of a service that has nothing to do."""
    return Metrics(FairShare(128), ready=lambda: True)


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Each sample's value by its name and the values of its labels."""
    families = text_string_to_metric_families(metrics.text())
    return {(sample.name, *sample.labels.values()): sample.value for each in families for sample in each.samples}


def test_names_and_types_are_those_of_the_dashboards() -> None:
    found = {each.name: each.type for each in text_string_to_metric_families(idle().text())}
    assert TYPES.items() <= found.items()


def test_responses_are_counted_by_route_and_status_and_answers_by_how_long_they_took() -> None:
    metrics = idle()
    for status in (200, 200, 429):
        metrics.responses.labels("/v1/certify", status).inc()
    for seconds in (0.2, 0.4, 400.0):
        metrics.seconds.observe(seconds)
    found = samples(metrics)
    assert found["holdfast_responses_total", "/v1/certify", "200"] == 2
    assert found["holdfast_responses_total", "/v1/certify", "429"] == 1
    assert found["holdfast_answer_seconds_bucket", "0.1"] == 0
    assert found["holdfast_answer_seconds_bucket", "0.5"] == 2
    assert found["holdfast_answer_seconds_bucket", "+Inf"] == found["holdfast_answer_seconds_count",] == 3
    assert found["holdfast_answer_seconds_sum",] == pytest.approx(400.6)


def test_places_and_readiness_are_those_of_the_moment() -> None:
    places, works = FairShare(128), [True]
    metrics = Metrics(places, ready=lambda: works[0])
    assert samples(metrics)["holdfast_requests_open",] == 0
    assert samples(metrics)["holdfast_ready",] == 1
    places.take("somebody", 5)
    works[0] = False
    assert samples(metrics)["holdfast_requests_open",] == 5
    assert samples(metrics)["holdfast_requests_capacity",] == 128
    assert samples(metrics)["holdfast_ready",] == 0


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_the_process_is_watched_too() -> None:
    assert samples(idle())["process_resident_memory_bytes",] > 1e6


def test_two_services_in_one_process_count_for_themselves() -> None:
    first, second = idle(), idle()
    first.responses.labels("/", 200).inc()
    assert ("holdfast_responses_total", "/", "200") not in samples(second)
    assert REGISTRY.get_sample_value("holdfast_responses_total", {"route": "/", "status": "200"}) is None
