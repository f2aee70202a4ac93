"""How each vendor's own package is asked from asynchronous code, as packages.py does it otherwise."""

from types import SimpleNamespace

import anthropic
import cohere
import openai
from google import genai
from google.genai import types

from packages import MESSAGES, TEXT, TIMEOUT_SECS, VECTOR, refuse_failed

PROMPT = MESSAGES[0]["content"]


def connect(url, key="caller"):
    """An asynchronous client of each package for the gateway at a URL, without retries."""
    options = types.HttpOptions(base_url=url, timeout=TIMEOUT_SECS * 1000)
    return SimpleNamespace(
        openai=openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=TIMEOUT_SECS),
        anthropic=anthropic.AsyncAnthropic(base_url=url, api_key=key, max_retries=0, timeout=TIMEOUT_SECS),
        gemini=genai.Client(api_key=key, http_options=options).aio,
        cohere=cohere.AsyncClientV2(base_url=url, api_key=key, max_retries=0, timeout=TIMEOUT_SECS),
    )


def connect_patient(url, key="caller"):
    """The same with the retries that the packages make when nobody says otherwise; Google's makes
    none then, so it has its own defaults for those who want them."""
    options = types.HttpOptions(base_url=url, retry_options=types.HttpRetryOptions())
    return SimpleNamespace(
        openai=openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key),
        anthropic=anthropic.AsyncAnthropic(base_url=url, api_key=key),
        gemini=genai.Client(api_key=key, http_options=options).aio,
        cohere=cohere.AsyncClientV2(base_url=url, api_key=key),
    )


async def openai_chat(clients, model):
    answer = await clients.openai.chat.completions.create(model=model, messages=MESSAGES)
    return answer.choices[0].message.content


async def openai_chat_stream(clients, model):
    stream = await clients.openai.chat.completions.create(model=model, messages=MESSAGES, stream=True)
    async with stream:
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])


async def openai_embeddings(clients, model):
    answer = await clients.openai.embeddings.create(model=model, input=[PROMPT, "Another."])
    return [entry.embedding for entry in answer.data]


async def responses(clients, model):
    return (await clients.openai.responses.create(model=model, input=MESSAGES)).output_text


async def responses_stream(clients, model):
    stream = await clients.openai.responses.create(model=model, input=MESSAGES, stream=True)
    async with stream:
        events = [event async for event in stream]
    refuse_failed(events)
    if events[-1].type != "response.completed":
        raise ValueError(f"the stream ended with {events[-1].type}")
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


async def anthropic_message(clients, model):
    answer = await clients.anthropic.messages.create(model=model, messages=MESSAGES, max_tokens=64)
    return answer.content[0].text


async def anthropic_stream(clients, model):
    async with clients.anthropic.messages.stream(model=model, messages=MESSAGES, max_tokens=64) as stream:
        return "".join([text async for text in stream.text_stream])


async def gemini_generate(clients, model):
    return (await clients.gemini.models.generate_content(model=model, contents=PROMPT)).text


async def gemini_stream(clients, model):
    stream = await clients.gemini.models.generate_content_stream(model=model, contents=PROMPT)
    return "".join([chunk.text or "" async for chunk in stream])


async def cohere_chat(clients, model):
    return (await clients.cohere.chat(model=model, messages=MESSAGES)).message.content[0].text


async def cohere_stream(clients, model):
    events = [event async for event in clients.cohere.chat_stream(model=model, messages=MESSAGES)]
    refuse_failed(events)
    if events[-1].delta.finish_reason != "COMPLETE":
        raise ValueError(f"the stream ended with {events[-1]}")
    pieces = (event.delta.message.content.text for event in events if event.type == "content-delta")
    return "".join(pieces)


# Each protocol's operations, and what a good answer of the simulated provider is.
OPERATIONS = {
    "openai": {openai_chat: TEXT, openai_chat_stream: TEXT, openai_embeddings: [VECTOR, VECTOR]},
    "responses": {responses: TEXT, responses_stream: TEXT},
    "anthropic": {anthropic_message: TEXT, anthropic_stream: TEXT},
    "gemini": {gemini_generate: TEXT, gemini_stream: TEXT},
    "cohere": {cohere_chat: TEXT, cohere_stream: TEXT},
}
