"""Compares outputs with inputs: every input exactly once, in order, in the right topic, with unchanged bytes.

All outputs are added first, then all inputs in offset order. A record is a tuple
(topic, partition, offset, key, value, timestamp, headers).

Anomalies: `lost` (no output), `doubled` (several outputs), `reordered`, `wrong` (verdict, topic, bytes or headers),
`holes` (lost although a later input has an output), `open` (an open transaction), `unfinished` (uncommitted inputs).
"""

from array import array
from collections import Counter

from event_parser import EventParser, Rejected
from reference_dedup import NAMES, REJECTED, ReferenceDedup

VERDICTS = {name: verdict for verdict, name in NAMES.items()}
MAX_EXAMPLES = 5
ANOMALIES = ("lost", "doubled", "reordered", "wrong", "holes", "open", "unfinished")


class SourcePartition:
    """The outputs of one source partition, by source offset."""

    def __init__(self):
        self.verdicts = bytearray()
        self.digests = array("Q")
        self.reasons = {}
        self.last_offset = {}
        self.output_partition = {}
        self.max_offset = -1

    def reserve(self, offset):
        if offset >= len(self.verdicts):
            growth = max(offset + 1, 2 * len(self.verdicts), 1024) - len(self.verdicts)
            self.verdicts.extend(bytes(growth))
            self.digests.frombytes(bytes(8 * growth))


class OutputChecker:
    def __init__(self, spec):
        self.spec = spec
        self.input = spec["input"]
        self.verdict_of_topic = {topic: VERDICTS[name] for name, topic in spec["outputs"].items()}
        missing = set(VERDICTS) - set(spec["outputs"])
        if missing:
            raise ValueError(f"no output topic for {sorted(missing)}; the checker needs one for every verdict")
        self.added_prefixes = tuple(spec.get("own_headers", ("ebb-", "__streams.errors.")))
        self.parser = EventParser(spec["event"], spec.get("limits", {}))
        self.max_skew = spec["event"].get("max_skew_ms", 300_000)
        self.partitions = {}
        self.dedups = {}
        self.counts = Counter({name: 0 for name in ANOMALIES})
        self.examples = {}
        self.inputs = 0
        self.verdicts = Counter()
        self.reasons = Counter()

    def record_anomaly(self, anomaly, description):
        self.counts[anomaly] += 1
        examples = self.examples.setdefault(anomaly, [])
        if len(examples) < MAX_EXAMPLES:
            examples.append(description)

    def digest(self, key, value, timestamp, headers):
        """A hash of everything that an output must preserve."""
        preserved = ()
        if headers:
            preserved = tuple((name, text) for name, text in headers if not name.startswith(self.added_prefixes))
        return hash((key, value, timestamp, preserved)) & 0xFFFF_FFFF_FFFF_FFFF

    def add_output(self, record):
        topic, partition, offset, key, value, timestamp, headers = record
        location = f"{topic}/{partition}/{offset}"
        added = {name: text for name, text in headers or () if name.startswith(self.added_prefixes)}
        try:
            source, source_partition, source_offset = added["ebb-source"].decode().rsplit("/", 2)
            source_partition, source_offset = int(source_partition), int(source_offset)
        except (KeyError, ValueError):
            return self.record_anomaly("wrong", f"{location}: no valid ebb-source header")
        if source != self.input or source_offset < 0:
            return self.record_anomaly("wrong", f"{location}: unknown source {added['ebb-source']!r}")
        verdict = self.verdict_of_topic[topic]
        header = added.get("ebb-verdict")
        if header is not None and header.decode() != NAMES[verdict]:
            self.record_anomaly("wrong", f"{location}: verdict header {header!r} in topic {topic}")
        known = self.partitions.setdefault(source_partition, SourcePartition())
        if verdict == REJECTED:
            reason = added.get("ebb-reason")
            known.reasons[source_offset] = reason.decode() if reason else None
        source = f"{source_partition}/{source_offset}"
        self._check_order(known, source, source_offset, topic, partition, location)
        digest = self.digest(key, value, timestamp, headers)
        self._store_verdict(known, source, source_offset, verdict, digest, location)

    def _check_order(self, known, source, offset, topic, partition, location):
        """Checks the order within the topic and that each source partition has one output partition."""
        expected = known.output_partition.setdefault(topic, partition)
        if expected != partition:
            self.record_anomaly("wrong", f"{location}: other outputs of its source partition are in {expected}")
        last = known.last_offset.get(topic, -1)
        if offset < last:
            known.reserve(offset)
            # A second copy is doubled, not reordered.
            if not known.verdicts[offset]:
                self.record_anomaly("reordered", f"{location}: source {source} after offset {last}")
        else:
            known.last_offset[topic] = offset

    def _store_verdict(self, known, source, offset, verdict, digest, location):
        known.reserve(offset)
        known.max_offset = max(known.max_offset, offset)
        first = known.verdicts[offset]
        if not first:
            known.verdicts[offset] = verdict
            known.digests[offset] = digest
            return
        self.record_anomaly("doubled", f"{location}: source {source} again, first as {NAMES[first]}")
        if first != verdict or known.digests[offset] != digest:
            self.record_anomaly("wrong", f"{location}: source {source} differs from its first output")

    def add_input(self, record):
        _, partition, offset, key, value, timestamp, headers = record
        self.inputs += 1
        known = self.partitions.setdefault(partition, SourcePartition())
        known.reserve(offset)
        location = f"{self.input}/{partition}/{offset}"
        verdict = known.verdicts[offset]
        if not verdict:
            self.record_anomaly("lost", location)
            if offset < known.max_offset:
                self.record_anomaly("holes", f"{location}: no output, but {known.max_offset} has one")
            return
        # Verdicts that are left at the end belong to outputs without an input.
        known.verdicts[offset] = 0
        self.verdicts[NAMES[verdict]] += 1
        if known.digests[offset] != self.digest(key, value, timestamp, headers):
            self.record_anomaly("wrong", f"{location}: the output changed key, value, headers or timestamp")
        contradiction = self._contradiction(known, partition, offset, value, timestamp, verdict)
        if contradiction:
            self.record_anomaly("wrong", f"{location}: {NAMES[verdict]}, but {contradiction}")

    def _contradiction(self, known, partition, offset, value, timestamp, verdict):
        """Why the verdict is impossible; None if it is possible."""
        reported = known.reasons.get(offset)
        try:
            item, time_ms = self.parser.parse(value)
            time_ms = timestamp if time_ms is None else time_ms
            if time_ms > timestamp + self.max_skew:
                raise Rejected("future")
        except Rejected as rejected:
            reason = rejected.args[0]
            self.reasons[reason] += 1
            if verdict != REJECTED:
                return f"the record must be rejected ({reason})"
            return f"the reason is {reported} instead of {reason}" if reported not in (None, reason) else None
        if verdict == REJECTED:
            return f"the record is a valid event (reason {reported})"
        dedup = self.dedups.get(partition)
        if dedup is None:
            dedup = self.dedups[partition] = ReferenceDedup(self.spec["dedup"])
        return dedup.check(item, time_ms, verdict)

    def add_ends(self, ends):
        """ends: {"topic/partition": {"stable": LSO, "end": HW}} of outputs, and {"committed", "end"} of the input."""
        for name, end in ends.items():
            if "stable" in end and end["stable"] != end["end"]:
                self.record_anomaly("open", f"{name}: {end['end'] - end['stable']} offsets in an open transaction")
            if "committed" in end and end["committed"] != end["end"]:
                self.record_anomaly("unfinished", f"{name}: committed {end['committed']} of {end['end']}")

    def report(self):
        for partition, known in sorted(self.partitions.items()):
            for offset in (offset for offset, verdict in enumerate(known.verdicts) if verdict):
                self.record_anomaly("wrong", f"an output of {self.input}/{partition}/{offset}, which does not exist")
        new_items = sum(dedup.new_items for dedup in self.dedups.values())
        false = sum(dedup.false_duplicates for dedup in self.dedups.values())
        # Five standard deviations above the expected count, and a constant for small counts.
        expected = new_items * self.spec["dedup"]["false_rate"]
        limit = expected + 5 * expected**0.5 + 5
        if false > limit:
            self.record_anomaly("wrong", f"{false} false duplicates among {new_items} new items, limit {limit:.0f}")
        tolerated = ("doubled",) if self.spec.get("delivery") == "at-least-once" else ()
        failures = {name: self.counts[name] for name in ANOMALIES if name not in tolerated}
        return {
            "ok": not any(failures.values()) and self.inputs >= self.spec.get("min_inputs", 1),
            "inputs": self.inputs,
            **{name: self.counts[name] for name in ANOMALIES},
            "false_duplicates": false,
            "new_items": new_items,
            "verdicts": dict(self.verdicts),
            "rejected": dict(self.reasons),
            "examples": self.examples,
        }
