"""What schemathesis must know to ask good questions: texts of our own formats, and bytes that are exports."""

import os
import urllib.request

import schemathesis
from hypothesis import strategies as st

SERVICE = os.environ["EBB_URL"]


def fetch(path):
    with urllib.request.urlopen(SERVICE + path) as answer:
        return answer.read()


durations = st.builds("{}{}".format, st.integers(1, 5000), st.sampled_from(["ms", "s", "m", "h"]))
spans = durations | st.builds("{} events".format, st.integers(1, 100_000))

numbers = st.integers(1, 400).map(lambda hundredths: f"{hundredths / 100:g}")
decays = st.one_of(
    durations.map("window:{}".format),
    durations.map("exponential:half_life={}".format),
    numbers.map("exponential:rate={}".format),
    st.builds("polynomial:alpha={},unit={}".format, numbers, durations),
    st.just("table:0s=1,1m=0.5,1h=0"),
)

comparisons = st.builds(
    "{} {} {}".format,
    st.sampled_from(["value", "weight"]),
    st.sampled_from(["<", "<=", "=", "==", "!=", "<>", ">=", ">"]),
    numbers,
)
predicates = st.recursive(
    comparisons,
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or"]), inner),
    max_leaves=6,
)

# Mostly what is there: who asks for more waits.
there = st.sampled_from(["0", "0:0", "1:0", "0:0,1:0", "1:2", "0:1"])
places = st.one_of(*[there] * 9, st.builds("{}:{}".format, st.integers(0, 3), st.integers(0, 10**6)))

schemathesis.openapi.format("ebb-span", spans)
schemathesis.openapi.format("ebb-decay", decays)
schemathesis.openapi.format("ebb-predicate", predicates)
schemathesis.openapi.format("ebb-at-least", places)


@schemathesis.hook
def map_body(ctx, body):
    """As above for offsets that are numbers: what is right stays right."""
    if isinstance(body, dict) and type(body.get("at_least")) is int and body["at_least"] > 2:
        return {**body, "at_least": body["at_least"] % 3}
    return body


EXPORTS = [
    fetch(f"/v1/streams/clicks/aggregates/{aggregate}/export{query}")
    for aggregate in ["spend", "campaigns", "costs"]
    for query in ["", "?partition=0", "?partition=1"]
]
schemathesis.openapi.media_type(
    "application/octet-stream",
    st.lists(st.sampled_from(EXPORTS), min_size=1, max_size=3).map(b"".join),
)


@schemathesis.deserializer("application/octet-stream")
def read_export(ctx, response):
    return response.content.decode("latin-1")
