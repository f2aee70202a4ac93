"""Calls agents with the vendors' unmodified client packages and prints a tally as JSON.

The calls take turns over the packages and over whole answers and streams. The packages' own retries
are off, so a failure that the agent lets through is counted as one.
"""

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor

import packages
from packages import TEXT

# Each call, and the pool it goes to.
CALLS = [
    (packages.openai_chat, "chat"),
    (packages.anthropic_message, "claude"),
    (packages.gemini_generate, "gemini"),
    (packages.cohere_chat, "cohere"),
    (packages.responses, "responses"),
    (packages.openai_chat_stream, "chat"),
    (packages.anthropic_stream, "claude"),
    (packages.gemini_stream, "gemini"),
    (packages.cohere_stream, "cohere"),
    (packages.responses_stream, "responses"),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--parallel", type=int, default=8)
    parser.add_argument("agents", nargs="+")
    options = parser.parse_args()
    clients = [packages.connect(url) for url in options.agents]

    def call(number):
        kind, model = CALLS[number % len(CALLS)]
        agent = clients[number // len(CALLS) % len(clients)]
        try:
            text = kind(agent, model)
        except Exception as error:  # whatever the package raises is what a caller would see
            return f"{kind.__name__}: {type(error).__name__}: {error}"
        return None if text == TEXT else f"{kind.__name__}: wrong text: {text!r}"

    with ThreadPoolExecutor(options.parallel) as pool:
        outcomes = list(pool.map(call, range(options.calls)))
    failures = [outcome for outcome in outcomes if outcome]
    json.dump({"calls": len(outcomes), "failures": failures}, sys.stdout)


main()
