"""Calls agents with the vendors' unmodified client packages and prints a tally as JSON.

Every fourth call is one of: OpenAI whole, OpenAI stream, Anthropic whole, Anthropic stream. The
packages' own retries are off, so a failure that the agent lets through is counted as one.
"""

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor

import anthropic
import openai

TEXT = "A lane that holds is a lane kept. "
MESSAGES = [{"role": "user", "content": "Say something."}]
TIMEOUT_SECS = 30


def openai_whole(client, model):
    answer = client.chat.completions.create(model=model, messages=MESSAGES)
    return answer.choices[0].message.content


def openai_stream(client, model):
    with client.chat.completions.create(model=model, messages=MESSAGES, stream=True) as stream:
        return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def anthropic_whole(client, model):
    answer = client.messages.create(model=model, messages=MESSAGES, max_tokens=64)
    return answer.content[0].text


def anthropic_stream(client, model):
    with client.messages.stream(model=model, messages=MESSAGES, max_tokens=64) as stream:
        return "".join(stream.text_stream)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--parallel", type=int, default=8)
    parser.add_argument("agents", nargs="+")
    options = parser.parse_args()

    clients = [
        (
            openai.OpenAI(base_url=f"{url}/v1", api_key="caller", max_retries=0, timeout=TIMEOUT_SECS),
            anthropic.Anthropic(base_url=url, api_key="caller", max_retries=0, timeout=TIMEOUT_SECS),
        )
        for url in options.agents
    ]

    def call(number):
        openai_client, anthropic_client = clients[number // 4 % len(clients)]
        kind, client, model = [
            (openai_whole, openai_client, "chat"),
            (openai_stream, openai_client, "chat"),
            (anthropic_whole, anthropic_client, "claude"),
            (anthropic_stream, anthropic_client, "claude"),
        ][number % 4]
        try:
            text = kind(client, model)
        except Exception as error:  # whatever the package raises is what a caller would see
            return f"{kind.__name__}: {type(error).__name__}: {error}"
        return None if text == TEXT else f"{kind.__name__}: wrong text: {text!r}"

    with ThreadPoolExecutor(options.parallel) as pool:
        outcomes = list(pool.map(call, range(options.calls)))
    failures = [outcome for outcome in outcomes if outcome]
    json.dump({"calls": len(outcomes), "failures": failures}, sys.stdout)


main()
