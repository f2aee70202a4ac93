"""Takes every route of an agent with the vendors' unmodified client packages and prints a tally as
JSON: good answers under every name a model has, and failures as each package's own exceptions.

The agent serves, for each protocol P, the pool P-pool over the lane P-lane of the provider P, and
lanes that fail: P-400, P-503, P-cut (within its answer), P-error (an error in the midst of a stream)
and, as each rests after one call, P-429-0 and up (Retry-After 7). The lanes P-once-429-N and
P-once-503-N fail once, with Retry-After 1, and are good afterwards. The guarded agent lets in the key
"sesame", and that to the pools only.
"""

import argparse
import asyncio
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import anthropic
import cohere
import openai
from cohere.core.api_error import ApiError
from google.genai import errors

import asynchronous
import packages
from packages import OPERATIONS, connect

PROTOCOLS = list(OPERATIONS)
# More than the agent takes.
LARGE = [{"role": "user", "content": "x" * 100_000}]
RETRY_AFTER_SECS = 7

# The exception of each package for each status that has one of its own.
EXCEPTIONS = {
    "openai": {
        400: openai.BadRequestError,
        401: openai.AuthenticationError,
        403: openai.PermissionDeniedError,
        404: openai.NotFoundError,
        413: openai.APIStatusError,
        429: openai.RateLimitError,
        503: openai.InternalServerError,
    },
    "anthropic": {
        400: anthropic.BadRequestError,
        401: anthropic.AuthenticationError,
        403: anthropic.PermissionDeniedError,
        404: anthropic.NotFoundError,
        413: anthropic.RequestTooLargeError,
        429: anthropic.RateLimitError,
        503: anthropic.ServiceUnavailableError,
    },
    "gemini": {
        **{status: errors.ClientError for status in (400, 401, 403, 404, 413, 429)},
        503: errors.ServerError,
    },
    "cohere": {
        400: cohere.BadRequestError,
        401: cohere.UnauthorizedError,
        403: cohere.ForbiddenError,
        404: cohere.NotFoundError,
        413: ApiError,
        429: cohere.TooManyRequestsError,
        503: cohere.ServiceUnavailableError,
    },
}
EXCEPTIONS["responses"] = EXCEPTIONS["openai"]

# What each package raises when an answer breaks off after content; FailedStream is raised by
# packages.py for an event that the package shows.
BREAKS = {
    "openai": (openai.APIError,),
    "responses": (openai.APIError, packages.FailedStream),
    "anthropic": (anthropic.APIError,),
    "gemini": (errors.ServerError,),
    "cohere": (packages.FailedStream,),
}


class Tally:
    def __init__(self):
        self.checks = 0
        self.failures = []

    def equal(self, what, got, expected):
        self.checks += 1
        if got != expected:
            self.failures.append(f"{what}: {got!r}, not {expected!r}")

    def good(self, what, operation, clients, model, expected):
        try:
            got = operation(clients, model)
        except Exception as error:
            got = error
        self.equal(f"{what} {operation.__name__} {model}", got, expected)

    def raises(self, what, operation, clients, model, exceptions, **arguments):
        """Checks that the call raises one of the exceptions, and returns it."""
        self.checks += 1
        what = f"{what} {operation.__name__} {model}"
        try:
            got = operation(clients, model, **arguments)
        except exceptions as error:
            return error
        except Exception as error:
            got = f"{type(error).__module__}.{type(error).__name__}: {error}"
        self.failures.append(f"{what}: {got!r}")
        return None

    def status(self, status, protocol, operation, clients, model, **arguments):
        exceptions = EXCEPTIONS[protocol][status]
        error = self.raises(status, operation, clients, model, exceptions, **arguments)
        if error is None:
            return
        what = f"{status} {operation.__name__} {model}"
        self.equal(f"{what} status", status_of(error), status)
        self.equal(f"{what} message", len(message_of(error)) > 10, True)
        waits = headers_of(error).get("retry-after")
        if status == 429:
            self.equal(f"{what} retry-after", waits, str(RETRY_AFTER_SECS))
        elif status == 503:
            self.equal(f"{what} retry-after", waits is not None and int(waits) > 0, True)


def status_of(error):
    return error.code if isinstance(error, errors.APIError) else error.status_code


def headers_of(error):
    return error.headers if isinstance(error, ApiError) else error.response.headers


def message_of(error):
    """The text, from the place where each vendor's users read it."""
    if isinstance(error, ApiError):
        return error.body["message"]
    if isinstance(error, anthropic.APIStatusError):
        return error.body["error"]["message"]
    return error.message


def good_answers(tally, url):
    for protocol, operations in OPERATIONS.items():
        named = connect(url)
        direct = connect(f"{url}/{protocol}-lane")
        ad_hoc = connect(f"{url}/{protocol}/{protocol}-lane")
        for operation, expected in operations.items():
            for model in (f"{protocol}-pool", f"{protocol}-lane", f"{protocol}/{protocol}-lane"):
                tally.good("by name", operation, named, model, expected)
            tally.good("below a lane", operation, direct, "any", expected)
            tally.good("below provider and lane", operation, ad_hoc, "any", expected)
    v1 = connect(url, gemini_version="v1")
    for operation, expected in OPERATIONS["gemini"].items():
        tally.good("under /v1", operation, v1, "gemini-pool", expected)


def lists(tally, url):
    pools = [f"{protocol}-pool" for protocol in PROTOCOLS]
    clients = connect(url, key="sesame")
    v1 = connect(url, key="sesame", gemini_version="v1")
    listed = {
        "openai": [model.id for model in clients.openai.models.list()],
        "anthropic": [model.id for model in clients.anthropic.models.list()],
        "gemini": [model.name.removeprefix("models/") for model in clients.gemini.models.list()],
        "gemini v1": [model.name.removeprefix("models/") for model in v1.gemini.models.list()],
    }
    for name, models in listed.items():
        tally.equal(f"models of {name}", sorted(models), sorted(pools))
    for name, got in {
        "openai": clients.openai.models.retrieve("openai-pool").id,
        "anthropic": clients.anthropic.models.retrieve("anthropic-pool").display_name,
        "gemini": clients.gemini.models.get(model="gemini-pool").display_name,
    }.items():
        tally.equal(f"one model of {name}", got, f"{name}-pool")


# How the names of operations end that lanes of every other protocol serve. Embeddings are apart: not
# every simulated lane has them.
TRANSLATED = ("_chat", "_message", "_generate", "_stream", "responses")


def failures(tally, url, guarded):
    clients = connect(url)
    stranger = connect(guarded, key="guess")
    known = connect(guarded, key="sesame")
    for protocol, operations in OPERATIONS.items():
        other = "openai-lane" if protocol != "openai" else "cohere-lane"
        for number, operation in enumerate(operations):

            def check(status, clients, model, **arguments):
                tally.status(status, protocol, operation, clients, model, **arguments)

            check(404, clients, "nowhere")
            if operation.__name__.endswith(TRANSLATED) and "completion" not in operation.__name__:
                try:
                    got = operation(clients, other)
                except Exception as error:
                    got = error
                tally.equal(f"{operation.__name__} on {other}", isinstance(got, str) and got != "", True)
            elif "embed" not in operation.__name__:
                check(400, clients, other)
            check(401, stranger, f"{protocol}-pool")
            check(403, known, f"{protocol}-lane")
            check(413, clients, f"{protocol}-pool", prompt=LARGE)
            check(400, clients, f"{protocol}-400")
            check(429, clients, f"{protocol}-429-{number}")
            check(503, clients, f"{protocol}-503")
            if operation.__name__.endswith("_stream"):
                for fault in ("cut", "error"):
                    exceptions = BREAKS[protocol]
                    tally.raises(fault, operation, clients, f"{protocol}-{fault}", exceptions)
            else:
                check(503, clients, f"{protocol}-cut")


async def asynchronous_calls(tally, url):
    """The packages' asynchronous clients, all calls at once: good answers and failures."""
    clients = asynchronous.connect(url)

    async def good(protocol, operation, expected):
        model = f"{protocol}-pool"
        try:
            got = await operation(clients, model)
        except Exception as error:
            got = error
        tally.equal(f"async {operation.__name__} {model}", got, expected)

    async def raises(operation, model, exceptions):
        try:
            got = await operation(clients, model)
        except Exception as error:
            got = error
        what = f"async {operation.__name__} {model}: {got!r}"
        tally.equal(what, isinstance(got, exceptions), True)

    calls = []
    for protocol, operations in asynchronous.OPERATIONS.items():
        for operation, expected in operations.items():
            calls += [good(protocol, operation, expected) for _ in range(3)]
            calls.append(raises(operation, "nowhere", EXCEPTIONS[protocol][404]))
            calls.append(raises(operation, f"{protocol}-503", EXCEPTIONS[protocol][503]))
            if operation.__name__.endswith("_stream"):
                for fault in ("cut", "error"):
                    calls.append(raises(operation, f"{protocol}-{fault}", BREAKS[protocol]))
    await asyncio.gather(*calls)


def retries(tally, url):
    """The packages' own retries wait as long as the gateway says, and succeed."""
    patient = packages.connect_patient(url)
    patient_async = asynchronous.connect_patient(url)
    calls = []
    for protocol, operations in OPERATIONS.items():
        whole, stream = list(operations)[:2]
        whole_async, stream_async = list(asynchronous.OPERATIONS[protocol])[:2]
        for status in (429, 503):
            lane = f"{protocol}-once-{status}"
            calls.append((whole, patient, f"{lane}-0"))
            calls.append((whole_async, patient_async, f"{lane}-1"))
            # Cohere's package tries no stream again.
            if protocol != "cohere":
                calls.append((stream, patient, f"{lane}-2"))
                calls.append((stream_async, patient_async, f"{lane}-3"))

    def timed(call):
        operation, clients, model = call
        began = time.monotonic()
        try:
            got = operation(clients, model)
        except Exception as error:
            got = error
        return got, time.monotonic() - began

    async def timed_async(call):
        operation, clients, model = call
        began = time.monotonic()
        try:
            got = await operation(clients, model)
        except Exception as error:
            got = error
        return got, time.monotonic() - began

    async def all_async(some):
        return await asyncio.gather(*map(timed_async, some))

    blocking = [call for call in calls if call[1] is patient]
    waiting = [call for call in calls if call[1] is patient_async]
    with ThreadPoolExecutor(len(blocking)) as pool:
        running = pool.map(timed, blocking)
        outcomes = list(zip(waiting, asyncio.run(all_async(waiting))))
        outcomes += zip(blocking, running)
    for (operation, _, model), (got, took) in outcomes:
        what = f"with retries {operation.__name__} {model}"
        tally.equal(what, got, packages.TEXT)
        tally.equal(f"{what} waited after {took:.2f} s", took >= 0.99, True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--guarded", required=True)
    parser.add_argument("agent")
    options = parser.parse_args()
    tally = Tally()
    good_answers(tally, options.agent)
    lists(tally, options.guarded)
    failures(tally, options.agent, options.guarded)
    asyncio.run(asynchronous_calls(tally, options.agent))
    retries(tally, options.agent)
    json.dump({"calls": tally.checks, "failures": tally.failures}, sys.stdout)


main()
