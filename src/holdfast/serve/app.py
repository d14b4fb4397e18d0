"""The service over HTTP: routes, request bodies and error responses."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager
from importlib.resources import files
from typing import Any, TypeVar

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from PIL import Image
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from holdfast.errors import HoldfastError, InvalidArgument, InvalidInput
from holdfast.inputs import range_of
from holdfast.noise import noise_fields
from holdfast.serve.limits import Limits
from holdfast.serve.metrics import CONTENT_TYPE
from holdfast.serve.questions import CertifyQuery, DecideQuery
from holdfast.serve.refusals import BadRequest, OutOfTime, Refusal, Stopped, TooLarge, TooSlow, Unknown, error_response
from holdfast.serve.requests import AnyServed
from holdfast.serve.schema import body_of_a_certificate, body_of_an_input, refusals, stream_of, with_limits
from holdfast.serve.security import SecurityMiddleware
from holdfast.serve.service import Service
from holdfast.serve.streaming import EventStream, gone
from holdfast.serve.views import measure_view, noise_view, promise_view
from holdfast.version import installed_version

T = TypeVar("T")
_PAGE = {"index.html": "text/html", "page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_SCRIPTS = ("chart.js", "client.js", "wording.js")
_PAGE |= dict.fromkeys(_SCRIPTS, "text/javascript")


def create_app(service: Service, *, host: str = "127.0.0.1", key: str | None = None) -> SecurityMiddleware:
    """The application for any ASGI server; ``host`` is where it will be bound. It starts the service and closes it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        try:
            yield
        finally:
            service.close()

    app = FastAPI(
        title="Holdfast",
        version=installed_version(),
        summary="Certified confidence: how low can an attacker within radius R push the average score?",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    _handle_refusals(app)
    _add_state(app, service)
    _add_questions(app, service)
    _add_page(app)
    with_limits(app.openapi(), service.limits.copies, service.measures)
    return SecurityMiddleware(app, service.metrics, host=host, key=key)


def _handle_refusals(app: FastAPI) -> None:
    @app.exception_handler(HoldfastError)
    async def refused(_: Request, error: HoldfastError) -> Response:
        if isinstance(error, Refusal):
            return error_response(error.status, str(error), error.headers)
        status = 422 if isinstance(error, InvalidArgument | InvalidInput) else 500
        return error_response(status, str(error))

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:
        return error_response(500, f"the service failed on this request ({type(error).__name__}); its log says more")

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        said = [f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in error.errors()]
        return error_response(422, "; ".join(said)[:1000])

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> Response:
        return error_response(error.status_code, str(error.detail), error.headers)


def _add_state(app: FastAPI, service: Service) -> None:
    served, limits = service.served, service.limits

    @app.get("/v1/health", responses=refusals(403))
    async def health() -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    @app.get("/v1/ready", responses=refusals(403, 503))
    async def ready() -> dict[str, str]:
        """The device works; 503 if it does not."""
        if not service.scheduler.alive:
            raise OutOfTime("the device does not work")
        return {"status": "ready"}

    @app.get("/v1/metrics", responses=refusals(401, 403), response_class=PlainTextResponse)
    async def metrics() -> Response:
        """For Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    @app.get("/v1/model", responses=refusals(401, 403))
    async def model() -> dict[str, Any]:
        """What is served, and within which limits."""
        return {
            "name": served.name,
            **noise_fields(served.smoothed.noise),
            "noise": noise_view(served.smoothed.noise),
            "measures": [measure_view(info) for info in service.measures],
            "shape": list(served.shape),
            "labels": list(served.labels),
            "samples": 0 if served.samples is None else len(served.samples),
            "limits": {"copies": limits.copies, "seconds": limits.seconds, "upload": limits.upload},
            "triage": None if served.triage is None else promise_view(served.triage),
            "version": installed_version(),
        }

    @app.get("/v1/samples/{position}", responses=refusals(401, 403, 404, 422), response_class=_Picture)
    async def sample(position: int) -> Response:
        """One of the samples, as PNG."""
        if served.samples is None or not 0 <= position < len(served.samples):
            raise Unknown(f"there is no sample {position}")
        bytes_ = np.rint(served.samples.image(position) * 255).astype(np.uint8)
        pixels = bytes_[0] if bytes_.shape[0] == 1 else np.moveaxis(bytes_, 0, -1)
        target = io.BytesIO()
        Image.fromarray(pixels).save(target, "PNG")
        label = int(served.samples.labels[position])
        return _Picture(target.getvalue(), headers={"X-Label": str(label)})


class _Picture(Response):
    media_type = "image/png"


def _add_questions(app: FastAPI, service: Service) -> None:
    refused = refusals(400, 401, 403, 408, 409, 413, 415, 422, 429, 503)
    served = service.served
    an_input = body_of_an_input(served.shape, within=range_of(served.smoothed.inputs, served.shape))

    @app.post("/v1/certify", responses=refused, openapi_extra=an_input)
    async def certify(request: Request, question: CertifyQuery) -> Response:
        """A certificate from n copies: that of ``SmoothedClassifier.certify`` with the same seed, as ``to_dict()`` writes it."""
        with service.scheduler.admission():
            content = await _body(request, service.limits)
            asking = service.certify(content, _type_of(request), question, watched=False)
            pending = await _waited(request, service, asking)
            await _finished(request, service, pending.request)
            found = await _waited(request, service, service.certificate(pending))
            return Response(found, media_type="application/json")

    @app.post("/v1/decide", responses=refused, openapi_extra=an_input)
    async def decide(request: Request, question: DecideQuery) -> Response:
        """Is the confidence at least so much within the radius? Stops as soon as it knows."""
        with service.scheduler.admission():
            content = await _body(request, service.limits)
            asked = await service.decide(content, _type_of(request), question, watched=False)
            await _finished(request, service, asked)
            return Response(await service.decision(asked), media_type="application/json")

    @app.post(
        "/v1/triage",
        responses={**refused, **refusals(404)},
        openapi_extra=body_of_an_input(served.shape, within=None),
    )
    async def triage(request: Request) -> Response:
        """Accept a class, or hand the input to a human, by the rule that the service was started with."""
        with service.scheduler.admission():
            content = await _body(request, service.limits)
            pending = await service.triage(content, _type_of(request))
            await _finished(request, service, pending.request)
            found = await _waited(request, service, service.verdict(pending))
            return Response(found, media_type="application/json")

    @app.post(
        "/v1/certify/stream",
        responses={**refused, **stream_of()},
        openapi_extra=an_input,
        response_class=EventStream,
        status_code=200,
    )
    async def certify_stream(request: Request, question: CertifyQuery) -> EventStream:
        """The same while one watches: a line of JSON for each event. Alpha is divided among the looks that are planned."""
        with ExitStack() as stack:
            stack.enter_context(service.scheduler.admission())
            content = await _body(request, service.limits)
            asking = service.certify(content, _type_of(request), question, watched=True)
            pending = await _waited(request, service, asking)
            stack.callback(service.forget, pending.request)
            events = service.certify_events(pending, _changes(pending.request))
            return EventStream(events, pending.request, service.limits.seconds, stack.pop_all())

    @app.post(
        "/v1/decide/stream",
        responses={**refused, **stream_of()},
        openapi_extra=an_input,
        response_class=EventStream,
        status_code=200,
    )
    async def decide_stream(request: Request, question: DecideQuery) -> EventStream:
        """A decision while one watches; it costs no alpha to look at it."""
        with ExitStack() as stack:
            stack.enter_context(service.scheduler.admission())
            content = await _body(request, service.limits)
            asked = await service.decide(content, _type_of(request), question, watched=True)
            stack.callback(service.forget, asked)
            return EventStream(
                service.decide_events(asked, _changes(asked)), asked, service.limits.seconds, stack.pop_all()
            )

    @app.delete("/v1/requests/{identity}", responses=refusals(401, 403, 404, 422))
    async def stop(identity: str) -> dict[str, str]:
        """Stop a request: the device is free after its present round, and a stream ends with its last look's certificate."""
        if not service.stop(identity):
            raise Unknown(f"there is no open request {identity[:40]!r}")
        return {"status": "stopped"}

    @app.post(
        "/v1/read",
        responses=refusals(400, 401, 403, 408, 409, 413, 422, 429, 503),
        openapi_extra=body_of_a_certificate(),
    )
    async def read(request: Request) -> Response:
        """A certificate that was exported: its curves, computed again from its counts."""
        with service.scheduler.admission():
            content = await _body(request, service.limits)
            return Response(await _waited(request, service, service.read(content)), media_type="application/json")


def _add_page(app: FastAPI) -> None:
    folder = files("holdfast.serve").joinpath("page")

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return Response(folder.joinpath("index.html").read_bytes(), media_type="text/html")

    @app.get("/page/{name}", include_in_schema=False)
    async def part(name: str) -> Response:
        if name not in _PAGE:
            raise Unknown(f"the page has no part {name[:40]!r}")
        return Response(folder.joinpath(name).read_bytes(), media_type=_PAGE[name])


async def _body(request: Request, limits: Limits) -> bytes:
    """All bytes of a body, within the limits of size and time."""
    claimed = request.headers.get("content-length", "0")
    if claimed.isdecimal() and int(claimed) > limits.upload:
        raise TooLarge(f"expected at most {limits.upload:,} bytes, got {int(claimed):,}")
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.upload_seconds):
            async for part in request.stream():
                size += len(part)
                if size > limits.upload:
                    raise TooLarge(f"expected at most {limits.upload:,} bytes, got more")
                parts.append(part)
    except TimeoutError as error:
        raise TooSlow(f"the body did not arrive within {limits.upload_seconds:g} s") from error
    except ClientDisconnect as error:
        raise BadRequest("the body ended early") from error
    return b"".join(parts)


def _type_of(request: Request) -> str:
    return request.headers.get("content-type", "")


def _changes(asked: AnyServed) -> asyncio.Event:
    """An event that is set whenever the request has changed."""
    changed, loop = asyncio.Event(), asyncio.get_running_loop()
    asked.listen(_in_loop(loop, changed.set))
    return changed


def _in_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> Callable[[], None]:
    def listener() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(call)

    return listener


async def _waited(request: Request, service: Service, work: Coroutine[Any, Any, T]) -> T:
    """Wait for work off the device. If the caller disconnects or the time is up, work that has not begun is cancelled."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone(request.receive))
    try:
        seconds = service.limits.seconds
        done, _ = await asyncio.wait({working, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if working in done:
            return working.result()
        raise Stopped("the caller went away") if done else OutOfTime(f"not finished within {seconds:g} s")
    finally:
        working.cancel()
        leaving.cancel()
        # Answered only when that has arrived: until then, what waits in a queue could still begin.
        await asyncio.wait({working, leaving})


async def _finished(request: Request, service: Service, asked: AnyServed) -> None:
    """Wait until the device is done, the caller disconnects, or the time is up; then stop the request."""

    async def over() -> None:
        changed = _changes(asked)
        while not asked.over:
            await changed.wait()
            changed.clear()

    waiting = [asyncio.ensure_future(over()), asyncio.ensure_future(gone(request.receive))]
    try:
        done, _ = await asyncio.wait(waiting, timeout=service.limits.seconds, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            asked.stop(OutOfTime(f"not finished within {service.limits.seconds:g} s; ask for fewer copies"))
        elif waiting[0] not in done:
            asked.stop(Stopped("the caller went away"))
    finally:
        for each in waiting:
            each.cancel()
        service.forget(asked)
