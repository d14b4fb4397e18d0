"""The service over HTTP: routes, request bodies and error responses."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles
from PIL import Image
from starlette.exceptions import HTTPException

from holdfast.errors import HoldfastError, InvalidArgument, InvalidInput
from holdfast.inputs import range_of
from holdfast.noise import noise_fields
from holdfast.service.callers import Keys
from holdfast.service.connection import EventStream, Upload, out_of_time, upload_of, while_connected
from holdfast.service.metrics import CONTENT_TYPE
from holdfast.service.questions import CertifyQuery, DecideQuery, with_limits
from holdfast.service.refusals import Refusal, error_response, refusals
from holdfast.service.security import SecurityMiddleware
from holdfast.service.service import Event, Service, Watched
from holdfast.service.shares import FairShare
from holdfast.service.uploads import an_input
from holdfast.service.views import measure_view, noise_view, promise_view
from holdfast.version import installed_version

_LAST_WORDS_S = 30.0
_EVENTS = "One JSON object a line; each has an 'event': accepted, chosen, copies, progress, look, done or stopped."
_A_CERTIFICATE = {"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}}


def create_app(service: Service, *, host: str = "127.0.0.1", keys: Keys | None = None) -> SecurityMiddleware:
    """The application for any ASGI server; ``host`` is where it will be bound. It starts the service and closes it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with closing(service):
            service.scheduler.start()
            yield

    app = FastAPI(
        title="Holdfast",
        version=installed_version(),
        summary="Certified confidence: how low can an attacker within radius R push the average score?",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    _handle_refusals(app)
    _add_state(app, service)
    _add_questions(app, service)
    _add_page(app)
    with_limits(app.openapi(), service.limits.copies, service.measures)
    return SecurityMiddleware(app, service.metrics, host=host, keys=keys or Keys())


def _handle_refusals(app: FastAPI) -> None:
    @app.exception_handler(HoldfastError)
    async def refused(request: Request, error: HoldfastError) -> Response:
        asked = 422 if isinstance(error, InvalidArgument | InvalidInput) else 500
        return error_response(request.scope, error.status if isinstance(error, Refusal) else asked, str(error))

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        said = f"the service failed on this request ({type(error).__name__}); its log says more"
        return error_response(request.scope, 500, said)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        unknown = "there is no such parameter here; GET /docs lists them, and a key belongs in the header Authorization"
        faults = {"missing": "expected one, got none", "extra_forbidden": unknown}  # which may be a key
        said = [f"{e['loc'][1]}: " + faults.get(e["type"], f"{e['msg']}, got {e['input']}") for e in error.errors()]
        return error_response(request.scope, 422, "; ".join(said)[:1000])

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        elsewhere = f"{request.method} {request.url.path} is not answered here; GET /docs lists what is"
        said = elsewhere if error.status_code in (404, 405) else str(error.detail)
        return error_response(request.scope, error.status_code, said, error.headers)


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
            raise Refusal(503, "the device does not work")
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
            "drift": None if service.drift is None or service.drift.found is None else service.drift.found.to_dict(),
            "version": installed_version(),
        }

    @app.get(
        "/v1/samples/{position}",
        responses={**refusals(401, 403, 404, 422), 200: {"content": {"image/png": {}}}},
        response_class=Response,
    )
    async def sample(position: int) -> Response:
        """One of the samples, as PNG."""
        if served.samples is None or not 0 <= position < len(served.samples):
            raise Refusal(404, f"there is no sample {position}")
        bytes_ = np.rint(served.samples.image(position) * 255).astype(np.uint8)
        pixels = bytes_[0] if bytes_.shape[0] == 1 else np.moveaxis(bytes_, 0, -1)
        target = io.BytesIO()
        Image.fromarray(pixels).save(target, "PNG")
        label = int(served.samples.labels[position])
        return Response(target.getvalue(), headers={"X-Label": str(label)}, media_type="image/png")


def _add_questions(app: FastAPI, service: Service) -> None:
    refused = refusals(400, 401, 403, 408, 409, 413, 415, 422, 429, 503)
    served, seconds = service.served, service.limits.seconds
    body = an_input(served.shape, within=range_of(served.smoothed.inputs, served.shape))

    given = partial(upload_of, limits=service.limits, room=FairShare(service.limits.bodies))

    async def answer(request: Request, work: Callable[[Upload], Coroutine[Any, Any, Event]]) -> Response:
        async with given(request) as upload:
            with service.scheduler.admission(upload.caller.name):
                found = await while_connected(request.receive, work(upload), seconds)
        return Response(json.dumps(found, allow_nan=False), media_type="application/json")

    async def stream(request: Request, work: Callable[[Upload], Coroutine[Any, Any, Watched]]) -> EventStream:
        async with given(request) as upload:
            with ExitStack() as stack:
                stack.enter_context(service.scheduler.admission(upload.caller.name))
                asked, events = await while_connected(request.receive, work(upload), seconds)
                stack.callback(asked.stop)
                # When the time is up, the stream ends by itself, with what there is; unless its caller does not read on.
                timer = asyncio.get_running_loop().call_later(seconds, asked.stop, out_of_time(seconds))
                stack.callback(timer.cancel)
                return EventStream(events, asked.id, seconds + _LAST_WORDS_S, stack.pop_all())

    @app.post("/v1/certify", responses=refused, openapi_extra=body)
    async def certify(request: Request, question: CertifyQuery) -> Response:
        """A certificate from n copies: that of ``SmoothedClassifier.certify`` with the same seed, as ``to_dict()`` writes it."""
        return await answer(request, partial(service.certify, question=question))

    @app.post("/v1/decide", responses=refused, openapi_extra=body)
    async def decide(request: Request, question: DecideQuery) -> Response:
        """Is the confidence at least so much within the radius? Stops as soon as it knows."""
        return await answer(request, partial(service.decide, question=question))

    @app.post("/v1/triage", responses={**refused, **refusals(404)}, openapi_extra=an_input(served.shape, within=None))
    async def triage(request: Request) -> Response:
        """Accept a class, or hand the input to a human, by the rule that the service was started with."""
        return await answer(request, service.triage)

    streamed = partial(
        app.post,
        responses=refused,
        openapi_extra=body,
        response_class=EventStream,
        response_description=_EVENTS,
        status_code=200,
    )

    @streamed("/v1/certify/stream")
    async def certify_stream(request: Request, question: CertifyQuery) -> EventStream:
        """The same while one watches: a line of JSON for each event. Alpha is divided among the looks that are planned."""
        return await stream(request, partial(service.watch_certify, question=question))

    @streamed("/v1/decide/stream")
    async def decide_stream(request: Request, question: DecideQuery) -> EventStream:
        """A decision while one watches; it costs no alpha to look at it."""
        return await stream(request, partial(service.watch_decide, question=question))

    @app.delete("/v1/requests/{identity}", responses=refusals(401, 403, 404, 422))
    async def stop(identity: str) -> dict[str, str]:
        """Stop a request: the device is free after its present round, and a stream ends with its last look's certificate."""
        if not service.scheduler.stop(identity):
            raise Refusal(404, f"there is no open request {identity[:40]!r}")
        return {"status": "stopped"}

    @app.post("/v1/read", responses=refusals(400, 401, 403, 408, 409, 413, 422, 429, 503), openapi_extra=_A_CERTIFICATE)
    async def read(request: Request) -> Response:
        """A certificate that was exported: its curves, computed again from its counts."""
        return await answer(request, service.read)


def _add_page(app: FastAPI) -> None:
    folder = Path(__file__).parent / "page"
    app.mount("/page", StaticFiles(directory=folder))

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(folder / "index.html")

    @app.get("/docs", include_in_schema=False)
    async def documentation() -> FileResponse:
        return FileResponse(folder / "docs.html")
