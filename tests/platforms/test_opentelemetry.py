"""Events of a session as OpenTelemetry sees them, by its own exporters in memory."""

import asyncio
import math
from types import SimpleNamespace

import pytest

from dpsdk import Budget, Domain, Integer, PrivateData, Session
from dpsdk.accounting import BasicComposition, PureGuarantee
from dpsdk.errors import BudgetExceeded
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.observe import Charged, OpenTelemetryObserver, Progress
from dpsdk.queries import Count
from platforms.conftest import engine

ROWS = Count(normalized=False)


@pytest.fixture
def telemetry():
    metrics = engine("opentelemetry.sdk.metrics")
    export = engine("opentelemetry.sdk.metrics.export")
    trace = engine("opentelemetry.sdk.trace")
    spans = engine("opentelemetry.sdk.trace.export")
    memory = engine("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    reader = export.InMemoryMetricReader()
    exporter = memory.InMemorySpanExporter()
    tracing = trace.TracerProvider()
    tracing.add_span_processor(spans.SimpleSpanProcessor(exporter))
    provider = metrics.MeterProvider([reader])

    def points(name):
        data = reader.get_metrics_data()
        found = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    if metric.name == name:
                        for point in metric.data.data_points:
                            key = frozenset(point.attributes.items())
                            found[key] = point.value
        return found

    yield SimpleNamespace(
        observer=OpenTelemetryObserver(provider), points=points,
        tracer=tracing.get_tracer("test"), spans=exporter.get_finished_spans,
    )  # fmt: skip
    provider.shutdown()
    tracing.shutdown()


def by(mechanism, scope="", **more):
    named = {"dpsdk.mechanism": mechanism, "dpsdk.scope": scope}
    return frozenset({**named, **{f"dpsdk.{name}": one for name, one in more.items()}}.items())


def test_questions_and_charges_are_counted_and_added_to_the_span(telemetry):
    data = PrivateData.from_columns({"age": [1, 2, 3] * 500}, Domain(Integer("age", 0, 9)))
    session = Session(
        data, Budget(1, "1e-6"), composition=BasicComposition(), observer=telemetry.observer,
        reuse=True,
    )  # fmt: skip
    with telemetry.tracer.start_as_current_span("handler"):
        answer = session.answer(ROWS, using=Laplace("0.1"), request_id="a7")
        scope = session.scope("weekly", "0.5")
        scope.answer(ROWS, using=Laplace("0.1"))
        scope.answer(ROWS, using=Gaussian(epsilon="0.1", delta="1e-8"))
        with pytest.raises(BudgetExceeded):
            session.answer(ROWS, using=Laplace(5))
    session.answer(Count({"age": 3}), using=Laplace("0.2"))  # outside of any span
    assert telemetry.points("dpsdk.questions") == {
        by("Laplace", outcome="opened"): 3,
        by("Laplace", outcome="answered"): 2,
        by("Laplace", "weekly", outcome="opened"): 1,
        by("Laplace", "weekly", outcome="reused"): 1,
        by("Gaussian", "weekly", outcome="opened"): 1,
        by("Gaussian", "weekly", outcome="answered"): 1,
        by("Laplace", outcome="refused"): 1,
    }
    assert telemetry.points("dpsdk.charges") == {by("Laplace"): 2, by("Gaussian", "weekly"): 1}
    epsilon = telemetry.points("dpsdk.epsilon")
    assert set(epsilon) == {by("Laplace")}
    assert math.isclose(epsilon[by("Laplace")], 0.3)
    assert len(telemetry.points("dpsdk.rho")) == 2
    (span,) = telemetry.spans()
    names = [event.name for event in span.events]
    assert names[:3] == ["dpsdk.opened", "dpsdk.charged", "dpsdk.answered"]
    assert names[-1] == "dpsdk.refused"
    charged = dict(span.events[1].attributes)
    assert charged["dpsdk.request_id"] == "a7"
    assert charged["dpsdk.query"] == "Count(normalized=False)"
    told = str([dict(event.attributes) for event in span.events])
    assert str(answer) not in told
    assert str(round(answer)) not in told


def test_there_are_not_too_many_series(telemetry):
    for number in range(200):
        guarantee = PureGuarantee("0.1")
        telemetry.observer(Charged(number, "q", f"M{number}(x={number})", guarantee))
        telemetry.observer(Charged(number, "q", "m", guarantee, scope=f"user {number}"))
    points = telemetry.points("dpsdk.charges")
    assert len(points) <= 130
    assert sum(points.values()) == 400
    assert points[by("other")] > 100


def test_nothing_is_raised_and_progress_is_not_told(telemetry):
    telemetry.observer(Progress("q", "m", 1, 2, "rounds"))
    telemetry.observer(object())
    assert telemetry.points("dpsdk.questions") == {}
    assert repr(telemetry.observer) == "OpenTelemetryObserver()"


def test_a_question_in_a_thread_of_asyncio_is_told_to_the_span_of_its_task(telemetry):
    data = PrivateData.from_columns({"age": [1, 2, 3]}, Domain(Integer("age", 0, 9)))
    session = Session(data, Budget(1), observer=telemetry.observer)

    async def handler(name):
        with telemetry.tracer.start_as_current_span(name):
            await asyncio.to_thread(session.answer, ROWS, using=Laplace("0.1"), request_id=name)

    async def served():
        await asyncio.gather(*(handler(f"request {number}") for number in range(3)))

    asyncio.run(served())
    spans = telemetry.spans()
    assert len(spans) == 3
    for span in spans:
        (told,) = [one for one in span.events if one.name == "dpsdk.charged"]
        assert dict(told.attributes)["dpsdk.request_id"] == span.name
