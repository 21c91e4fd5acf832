"""Compares what came out with what went in: each input exactly once, in order, in the right topic, to the byte.

Outputs are taken first, then inputs in the order of their offsets. A record is a tuple
(topic, partition, offset, key, value, timestamp, headers).
"""

from array import array
from collections import Counter

from memory import DUPLICATE, LATE, NAMES, REJECTED, UNIQUE, Memory
from reading import Reading, Refused

VERDICTS = {name: verdict for verdict, name in NAMES.items()}
MOST_EXAMPLES = 5
ANOMALIES = ("lost", "doubled", "reordered", "wrong", "holes", "open", "unfinished")


class Partition:
    """What is known of the outputs of one source partition, by source offset."""

    def __init__(self):
        self.verdicts = bytearray()
        self.prints = array("Q")
        self.reasons = {}
        self.last = {}
        self.target = {}
        self.highest = -1

    def grow(self, offset):
        if offset >= len(self.verdicts):
            more = max(offset + 1, 2 * len(self.verdicts), 1024) - len(self.verdicts)
            self.verdicts.extend(bytes(more))
            self.prints.frombytes(bytes(8 * more))


class Judge:
    def __init__(self, spec):
        self.spec = spec
        self.input = spec["input"]
        self.verdict_of = {topic: VERDICTS[name] for name, topic in spec["outputs"].items()}
        missing = set(VERDICTS) - set(spec["outputs"])
        if missing:
            raise ValueError(f"every verdict needs a topic to be checked: {sorted(missing)} have none")
        self.own_prefixes = tuple(spec.get("own_headers", ("ebb-", "__streams.errors.")))
        self.reading = Reading(spec["event"], spec.get("limits", {}))
        self.max_skew = spec["event"].get("max_skew_ms", 300_000)
        self.partitions = {}
        self.memories = {}
        self.counts = Counter({name: 0 for name in ANOMALIES})
        self.examples = {}
        self.inputs = 0
        self.verdicts = Counter()
        self.reasons = Counter()

    def note(self, anomaly, what):
        self.counts[anomaly] += 1
        examples = self.examples.setdefault(anomaly, [])
        if len(examples) < MOST_EXAMPLES:
            examples.append(what)

    def print_of(self, key, value, timestamp, headers):
        """A number for everything of a record that must be preserved."""
        kept = ()
        if headers:
            kept = tuple((name, text) for name, text in headers if not name.startswith(self.own_prefixes))
        return hash((key, value, timestamp, kept)) & 0xFFFF_FFFF_FFFF_FFFF

    def take_output(self, record):
        topic, partition, offset, key, value, timestamp, headers = record
        where = f"{topic}/{partition}/{offset}"
        own = {name: text for name, text in headers or () if name.startswith(self.own_prefixes)}
        try:
            source, number, position = own["ebb-source"].decode().rsplit("/", 2)
            number, position = int(number), int(position)
        except (KeyError, ValueError):
            return self.note("wrong", f"{where}: no source position in its headers")
        if source != self.input or position < 0:
            return self.note("wrong", f"{where}: comes from {own['ebb-source']!r}")
        verdict = self.verdict_of[topic]
        told = own.get("ebb-verdict")
        if told is not None and told.decode() != NAMES[verdict]:
            self.note("wrong", f"{where}: is called {told!r} in topic {topic}")
        if verdict == REJECTED:
            self._take_reason(number, position, own)
        self._place(number, position, topic, partition, where)
        self._remember(number, position, verdict, self.print_of(key, value, timestamp, headers), where)

    def _take_reason(self, number, position, own):
        reason = own.get("ebb-reason")
        self.partitions.setdefault(number, Partition()).reasons[position] = reason.decode() if reason else None

    def _place(self, number, position, topic, partition, where):
        """Order within the topic, and one output partition for each source partition."""
        known = self.partitions.setdefault(number, Partition())
        if known.target.setdefault(topic, partition) != partition:
            self.note("wrong", f"{where}: source partition {number} also went to partition {known.target[topic]}")
        if position < known.last.get(topic, -1):
            known.grow(position)
            # A second copy is doubled, not reordered.
            if not known.verdicts[position]:
                self.note("reordered", f"{where}: source {number}/{position} after {known.last[topic]}")
        else:
            known.last[topic] = position

    def _remember(self, number, position, verdict, mark, where):
        known = self.partitions[number]
        known.grow(position)
        known.highest = max(known.highest, position)
        before = known.verdicts[position]
        if not before:
            known.verdicts[position] = verdict
            known.prints[position] = mark
            return
        self.note("doubled", f"{where}: source {number}/{position} again, first as {NAMES[before]}")
        if before != verdict or known.prints[position] != mark:
            self.note("wrong", f"{where}: source {number}/{position} differs from its first output")

    def take_input(self, record):
        _, number, position, key, value, timestamp, headers = record
        self.inputs += 1
        known = self.partitions.setdefault(number, Partition())
        known.grow(position)
        where = f"{self.input}/{number}/{position}"
        verdict = known.verdicts[position]
        if not verdict:
            self.note("lost", where)
            if position < known.highest:
                self.note("holes", f"{where}: although {known.highest} came out")
            return
        # What is left over at the end came from nowhere.
        known.verdicts[position] = 0
        self.verdicts[NAMES[verdict]] += 1
        if known.prints[position] != self.print_of(key, value, timestamp, headers):
            self.note("wrong", f"{where}: key, value, headers or timestamp were changed on the way")
        wrong = self._contradiction(known, number, position, value, timestamp, verdict)
        if wrong:
            self.note("wrong", f"{where}: {NAMES[verdict]}, but {wrong}")

    def _contradiction(self, known, number, position, value, timestamp, verdict):
        try:
            item, time_ms = self.reading.read(value)
            time_ms = timestamp if time_ms is None else time_ms
            if time_ms > timestamp + self.max_skew:
                raise Refused("future")
        except Refused as refused:
            reason = refused.args[0]
            self.reasons[reason] += 1
            if verdict != REJECTED:
                return f"it is no event ({reason})"
            told = known.reasons.get(position)
            return f"for {told} instead of {reason}" if told is not None and told != reason else None
        if verdict == REJECTED:
            return f"it is an event (rejected as {known.reasons.get(position)})"
        memory = self.memories.get(number)
        if memory is None:
            memory = self.memories[number] = Memory(self.spec["dedup"])
        return memory.judge(item, time_ms, verdict)

    def take_ends(self, ends):
        """ends: {"topic/partition": {"stable": LSO, "end": HW}} of the outputs, and {"committed", "end"} of the input."""
        for name, end in ends.items():
            if "stable" in end and end["stable"] != end["end"]:
                self.note("open", f"{name}: {end['end'] - end['stable']} offsets behind an open transaction")
            if "committed" in end and end["committed"] != end["end"]:
                self.note("unfinished", f"{name}: committed {end['committed']} of {end['end']}")

    def report(self):
        for number, known in sorted(self.partitions.items()):
            for position in (at for at, verdict in enumerate(known.verdicts) if verdict):
                self.note("wrong", f"an output of {self.input}/{number}/{position}, which is not there")
        clean = sum(memory.clean for memory in self.memories.values())
        false = sum(memory.false_duplicates for memory in self.memories.values())
        # Five standard deviations above the expected rate, and a few for small counts.
        most = clean * self.spec["dedup"]["false_rate"]
        most = most + 5 * most**0.5 + 5
        if false > most:
            self.note("wrong", f"{false} of {clean} new items were called duplicates, more than {most:.0f}")
        tolerated = ("doubled",) if self.spec.get("delivery") == "at-least-once" else ()
        failures = {name: self.counts[name] for name in ANOMALIES if name not in tolerated}
        return {
            "ok": not any(failures.values()) and self.inputs >= self.spec.get("least_inputs", 1),
            "inputs": self.inputs,
            **{name: self.counts[name] for name in ANOMALIES},
            "false_duplicates": false,
            "new_items": clean,
            "verdicts": dict(self.verdicts),
            "rejected": dict(self.reasons),
            "examples": self.examples,
        }
