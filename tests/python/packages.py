"""How each vendor's own package is asked: one function for each of its operations.

All retries of the packages are off but for `connect_patient`, so whatever a gateway lets through is
seen.
"""

from types import SimpleNamespace

import anthropic
import cohere
import openai
from google import genai
from google.genai import types

# What the simulated provider says, and the vector it gives for every text.
TEXT = "A lane that holds is a lane kept. "
VECTOR = [0.25, -0.5, 1.0]
MESSAGES = [{"role": "user", "content": "Say something."}]
TIMEOUT_SECS = 30


class FailedStream(Exception):
    """A stream whose last event says that the answer failed, where the package shows that event
    instead of raising: OpenAI's Responses and Cohere's chat."""


def refuse_failed(events):
    """Raises FailedStream if the last of a stream's events names a failure."""
    last = events[-1]
    if last.type in ("error", "response.failed"):
        raise FailedStream(last)
    if last.type == "message-end" and last.delta.finish_reason == "ERROR":
        raise FailedStream(last)


def connect(url, key="caller", gemini_version="v1beta"):
    """A client of each package for the gateway at a URL."""
    options = types.HttpOptions(
        base_url=url,
        api_version=gemini_version,
        timeout=TIMEOUT_SECS * 1000,
        retry_options=types.HttpRetryOptions(attempts=1),
    )
    return SimpleNamespace(
        openai=openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=TIMEOUT_SECS),
        anthropic=anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, timeout=TIMEOUT_SECS),
        gemini=genai.Client(api_key=key, http_options=options),
        cohere=cohere.ClientV2(base_url=url, api_key=key, max_retries=0, timeout=TIMEOUT_SECS),
    )


def connect_patient(url, key="caller"):
    """A client of each package with the retries it makes when nobody says otherwise; Google's makes
    none then, so it has its own defaults for those who want them."""
    options = types.HttpOptions(base_url=url, retry_options=types.HttpRetryOptions())
    return SimpleNamespace(
        openai=openai.OpenAI(base_url=f"{url}/v1", api_key=key),
        anthropic=anthropic.Anthropic(base_url=url, api_key=key),
        gemini=genai.Client(api_key=key, http_options=options),
        cohere=cohere.ClientV2(base_url=url, api_key=key),
    )


def openai_chat(clients, model, prompt=MESSAGES):
    answer = clients.openai.chat.completions.create(model=model, messages=prompt)
    return answer.choices[0].message.content


def openai_chat_stream(clients, model, prompt=MESSAGES):
    with clients.openai.chat.completions.create(model=model, messages=prompt, stream=True) as stream:
        return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def openai_completion(clients, model, prompt=MESSAGES):
    answer = clients.openai.completions.create(model=model, prompt=prompt[0]["content"], max_tokens=8)
    return answer.choices[0].text


def openai_completion_stream(clients, model, prompt=MESSAGES):
    text = prompt[0]["content"]
    with clients.openai.completions.create(model=model, prompt=text, max_tokens=8, stream=True) as stream:
        return "".join(chunk.choices[0].text for chunk in stream if chunk.choices)


def openai_embeddings(clients, model, prompt=MESSAGES):
    answer = clients.openai.embeddings.create(model=model, input=[prompt[0]["content"], "Another."])
    return [entry.embedding for entry in answer.data]


def responses(clients, model, prompt=MESSAGES):
    return clients.openai.responses.create(model=model, input=prompt).output_text


def responses_stream(clients, model, prompt=MESSAGES):
    with clients.openai.responses.create(model=model, input=prompt, stream=True) as stream:
        events = list(stream)
    refuse_failed(events)
    names = [event.type for event in events]
    if names[0] != "response.created" or names[-1] != "response.completed":
        raise ValueError(f"the events of a stream are {names}")
    pieces = (event.delta for event in events if event.type == "response.output_text.delta")
    return "".join(pieces)


def anthropic_message(clients, model, prompt=MESSAGES):
    answer = clients.anthropic.messages.create(model=model, messages=prompt, max_tokens=64)
    return answer.content[0].text


def anthropic_stream(clients, model, prompt=MESSAGES):
    with clients.anthropic.messages.stream(model=model, messages=prompt, max_tokens=64) as stream:
        return "".join(stream.text_stream)


def anthropic_count(clients, model, prompt=MESSAGES):
    return clients.anthropic.messages.count_tokens(model=model, messages=prompt).input_tokens


def gemini_generate(clients, model, prompt=MESSAGES):
    return clients.gemini.models.generate_content(model=model, contents=prompt[0]["content"]).text


def gemini_stream(clients, model, prompt=MESSAGES):
    stream = clients.gemini.models.generate_content_stream(model=model, contents=prompt[0]["content"])
    return "".join(chunk.text or "" for chunk in stream)


def gemini_count(clients, model, prompt=MESSAGES):
    return clients.gemini.models.count_tokens(model=model, contents=prompt[0]["content"]).total_tokens


def gemini_embed(clients, model, prompt=MESSAGES):
    answer = clients.gemini.models.embed_content(model=model, contents=prompt[0]["content"])
    return [entry.values for entry in answer.embeddings]


def cohere_chat(clients, model, prompt=MESSAGES):
    return clients.cohere.chat(model=model, messages=prompt).message.content[0].text


def cohere_stream(clients, model, prompt=MESSAGES):
    events = list(clients.cohere.chat_stream(model=model, messages=prompt))
    refuse_failed(events)
    names = [event.type for event in events]
    if names[0] != "message-start" or events[-1].delta.finish_reason != "COMPLETE":
        raise ValueError(f"the events of a stream are {names}")
    pieces = (event.delta.message.content.text for event in events if event.type == "content-delta")
    return "".join(pieces)


# Each protocol's operations, and what a good answer of the simulated provider is.
OPERATIONS = {
    "openai": {
        openai_chat: TEXT,
        openai_chat_stream: TEXT,
        openai_completion: TEXT,
        openai_completion_stream: TEXT,
        openai_embeddings: [VECTOR, VECTOR],
    },
    "responses": {responses: TEXT, responses_stream: TEXT},
    "anthropic": {anthropic_message: TEXT, anthropic_stream: TEXT, anthropic_count: 10},
    "gemini": {
        gemini_generate: TEXT,
        gemini_stream: TEXT,
        gemini_count: 10,
        gemini_embed: [VECTOR],
    },
    "cohere": {cohere_chat: TEXT, cohere_stream: TEXT},
}
