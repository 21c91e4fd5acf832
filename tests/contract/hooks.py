"""What schemathesis needs to generate valid requests: values of custom formats, exports, and dependent parameters."""

import os
import urllib.request

import schemathesis
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode

SERVICE = os.environ["EBB_URL"]


def fetch(path):
    with urllib.request.urlopen(SERVICE + path) as response:
        return response.read()


durations = st.builds("{}{}".format, st.integers(1, 5000), st.sampled_from(["ms", "s", "m", "h"]))
spans = durations | st.builds("{} events".format, st.integers(1, 100_000))

numbers = st.integers(1, 400).map(lambda hundredths: f"{hundredths / 100:g}")
decays = st.one_of(
    durations.map("window:{}".format),
    durations.map("exponential:half_life={}".format),
    numbers.map("exponential:rate={}".format),
    st.builds("polynomial:alpha={},unit={}".format, numbers, durations),
    durations.map("gaussian:sigma={}".format),
    durations.map("logarithmic:unit={}".format),
    st.just("table:0s=1,1m=0.5,1h=0"),
)
times = st.integers(0, 2**42).map(str) | st.just("2026-11-18T05:00:00Z")

comparisons = st.builds(
    "{} {} {}".format,
    st.sampled_from(["value", "weight"]),
    st.sampled_from(["<", "<=", "=", "==", "!=", "<>", ">=", ">"]),
    numbers,
)
predicates = st.recursive(
    comparisons,
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or", "and not"]), inner),
    max_leaves=6,
)

# Mostly offsets that exist: a request for a later offset waits until its timeout.
existing = st.sampled_from(["0", "0:0", "1:0", "0:0,1:0", "1:2", "0:1"])
offsets = st.one_of(*[existing] * 9, st.builds("{}:{}".format, st.integers(0, 3), st.integers(0, 10**6)))

schemathesis.openapi.format("ebb-span", spans)
schemathesis.openapi.format("ebb-decay", decays)
schemathesis.openapi.format("ebb-time", times)
schemathesis.openapi.format("ebb-predicate", predicates)
schemathesis.openapi.format("ebb-at-least", offsets)


@schemathesis.hook
def map_body(ctx, body):
    """Keeps numeric offsets small, for the same reason."""
    if isinstance(body, dict) and type(body.get("at_least")) is int and body["at_least"] > 2:
        return {**body, "at_least": body["at_least"] % 3}
    return body


# OpenAPI cannot express that query parameters depend on a path parameter: these belong to one statistic each.
STATISTIC_PARAMETERS = {
    "quantiles": {"phi": "0.5,0.99"},
    "rank": {"value": "0.25"},
    "top": {"phi": "0.05"},
    "share": {"where": "value >= 0.25"},
}
OPTIONAL_PARAMETERS = {"top": {"mode"}}
DEPENDENT = {"phi", "value", "where", "mode"}


@schemathesis.hook
def map_case(ctx, case):
    """Makes valid queries fit their statistic: adds what it requires, removes what it refuses."""
    if not case.operation.path.endswith("/{statistic}"):
        return case
    if case.meta is not None and case.meta.generation.mode != GenerationMode.POSITIVE:
        return case
    statistic = case.path_parameters.get("statistic")
    required = STATISTIC_PARAMETERS.get(statistic, {})
    accepted = required.keys() | OPTIONAL_PARAMETERS.get(statistic, set())
    query = {name: value for name, value in case.query.items() if name not in DEPENDENT or name in accepted}
    # A question has one window and one time.
    if "decay" in query:
        query.pop("last", None)
    if "now" in query:
        query.pop("as_of", None)
    for name, value in required.items():
        query.setdefault(name, value)
    if statistic == "top":
        query["phi"] = str(query["phi"]).split(",")[0]
    case.query = query
    return case


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
