"""Which series the expressions of alerts ask for.

Reads a JSON list of expressions; prints for each the names and label names of its selectors. An
expression that is no PromQL ends it with the parser's word.
"""

import json
import sys

import promql_parser


def selectors(node):
    if isinstance(node, promql_parser.VectorSelector):
        yield {"name": node.name, "labels": [matcher.name for matcher in node.matchers.matchers]}
    for field in ("expr", "lhs", "rhs", "vector_selector", "args"):
        below = getattr(node, field, None)
        for child in below if isinstance(below, list) else [below]:
            if child is not None:
                yield from selectors(child)


print(json.dumps([list(selectors(promql_parser.parse(text))) for text in json.load(sys.stdin)]))
