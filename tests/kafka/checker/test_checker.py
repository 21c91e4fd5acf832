"""The checker must be able to fail: every anomaly is planted into sound topics, and found under its own name."""

import json
import random
import unittest

from judge import ANOMALIES, Judge
from memory import Memory, DUPLICATE, LATE, UNIQUE
from reading import Reading, Refused

WINDOW, LATENESS, BLOCK = 60_000, 10_000, 6_000
SPEC = {
    "input": "clicks",
    "outputs": {name: f"clicks.{name}" for name in ("unique", "duplicate", "late", "rejected")},
    "event": {"item": ["ip", "ad"], "key": "campaign", "time": "ts", "max_skew_ms": 300_000},
    "dedup": {"window_ms": WINDOW, "lateness_ms": LATENESS, "block_ms": BLOCK, "seen": "first", "false_rate": 0.001},
}
START = 1_700_000_000_000


def payload(ip, time_ms):
    return json.dumps({"ts": time_ms, "ip": ip, "ad": "a", "campaign": "c"}).encode()


def inputs(count=3000, partitions=2):
    """Clicks over some windows, with repeats, stragglers and one in a hundred damaged."""
    draw = random.Random(5)
    offsets = [0] * partitions
    for number in range(count):
        partition = draw.randrange(partitions)
        at = START + number * 100
        time_ms = at - (30_000 if draw.random() < 0.02 else draw.randrange(2_000))
        value = payload(f"10.0.0.{draw.randrange(200)}", time_ms)
        if draw.random() < 0.01:
            value = draw.choice([value[:20], None, b"", b"\xff", payload("x", at + 10**9), b'{"ts":1,"ts":2}'])
        yield ("clicks", partition, offsets[partition], b"k%d" % number, value, at, [("trace", b"%d" % number)])
        offsets[partition] += 1


def honest(records):
    """What a service with an exact memory would put out: {topic: [record]}."""
    outputs = {topic: [] for topic in SPEC["outputs"].values()}
    clocks, accepted, reading = {}, {}, Reading(SPEC["event"], {})
    for _, partition, offset, key, value, at, headers in records:
        own = [("ebb-source", f"clicks/{partition}/{offset}".encode())]
        try:
            item, time_ms = reading.read(value)
            if time_ms > at + 300_000:
                raise Refused("future")
            clock = clocks[partition] = max(clocks.get(partition, time_ms), time_ms)
            seen = accepted.get((partition, item))
            if seen is not None and time_ms - seen <= WINDOW and clock - seen <= WINDOW + LATENESS:
                verdict = "duplicate"
            else:
                verdict = "late" if clock - LATENESS > time_ms else "unique"
                accepted[(partition, item)] = max(time_ms, seen or time_ms)
        except Refused as refused:
            verdict = "rejected"
            own.append(("ebb-reason", refused.args[0].encode()))
        own.append(("ebb-verdict", verdict.encode()))
        topic = outputs[f"clicks.{verdict}"]
        topic.append((f"clicks.{verdict}", partition, len(topic), key, value, at, headers + own))
    return outputs


def judged(outputs, records, ends=None, **changes):
    judge = Judge({**SPEC, **changes})
    for topic in outputs.values():
        for record in topic:
            judge.take_output(record)
    for record in records:
        judge.take_input(record)
    judge.take_ends(ends or {})
    return judge.report()


class DoctoredTopics(unittest.TestCase):
    def setUp(self):
        self.records = list(inputs())
        self.outputs = honest(self.records)

    def found(self, *expected, **changes):
        """The report, in which the expected anomalies were found, and no others."""
        report = judged(self.outputs, self.records, **changes)
        told = {name for name in ANOMALIES if report[name]}
        self.assertEqual(told, set(expected), report)
        self.assertEqual(report["ok"], not expected)
        return report

    def test_sound_topics_pass_and_hold_every_verdict(self):
        report = self.found()
        self.assertEqual(report["inputs"], 3000)
        self.assertEqual(set(report["verdicts"]), set(SPEC["outputs"]))
        self.assertGreaterEqual(set(report["rejected"]), {"parse", "empty", "encoding", "future", "duplicate_key"})
        self.assertGreater(report["verdicts"]["late"], 10)

    def test_a_removed_output_is_lost_and_leaves_a_hole(self):
        del self.outputs["clicks.unique"][10]
        report = self.found("lost", "holes")
        self.assertEqual(report["lost"], 1)

    def test_outputs_missing_at_the_end_are_lost_without_a_hole(self):
        last = {part: max(r[2] for r in self.records if r[1] == part) for part in (0, 1)}
        source = f"clicks/0/{last[0]}".encode()
        for topic in self.outputs.values():
            topic[:] = [record for record in topic if ("ebb-source", source) not in record[6]]
        self.assertEqual(self.found("lost")["lost"], 1)

    def test_a_repeated_output_is_doubled(self):
        topic = self.outputs["clicks.duplicate"]
        topic.append(topic[3])
        self.assertEqual(self.found("doubled")["doubled"], 1)

    def test_a_repeated_output_is_tolerated_where_that_is_the_promise(self):
        topic = self.outputs["clicks.duplicate"]
        topic.append(topic[3])
        report = judged(self.outputs, self.records, delivery="at-least-once")
        self.assertEqual((report["ok"], report["doubled"]), (True, 1))

    def test_a_repeat_with_another_verdict_is_wrong_even_then(self):
        first = self.outputs["clicks.unique"][3]
        headers = [("ebb-verdict", b"duplicate") if h[0] == "ebb-verdict" else h for h in first[6]]
        self.outputs["clicks.duplicate"].append(("clicks.duplicate", *first[1:6], headers))
        report = judged(self.outputs, self.records, delivery="at-least-once")
        self.assertEqual((report["ok"], report["doubled"], report["wrong"]), (False, 1, 1))

    def test_swapped_outputs_are_reordered(self):
        topic = self.outputs["clicks.unique"]
        here = [at for at, record in enumerate(topic) if record[1] == 0][:2]
        topic[here[0]], topic[here[1]] = topic[here[1]], topic[here[0]]
        self.assertEqual(self.found("reordered")["reordered"], 1)

    def move(self, source, target, which):
        """Gives one record another verdict."""
        at = next(at for at, record in enumerate(self.outputs[source]) if which(record))
        record = self.outputs[source].pop(at)
        name = target.removeprefix("clicks.").encode()
        headers = [("ebb-verdict", name) if header[0] == "ebb-verdict" else header for header in record[6]]
        moved = (target, *record[1:6], headers)
        place = [at for at, other in enumerate(self.outputs[target]) if other[5] > record[5]]
        self.outputs[target].insert(place[0] if place else len(self.outputs[target]), moved)

    def test_a_duplicate_within_the_window_that_passes_as_unique_is_wrong(self):
        self.move("clicks.duplicate", "clicks.unique", lambda record: record[5] > START + 100_000)
        self.assertEqual(self.found("wrong")["wrong"], 1)

    def test_a_late_event_that_passes_as_unique_is_wrong(self):
        self.move("clicks.late", "clicks.unique", lambda record: record[5] > START + 100_000)
        self.found("wrong")

    def test_an_event_on_time_that_is_called_late_is_wrong(self):
        self.move("clicks.unique", "clicks.late", lambda record: record[5] > START + 100_000)
        self.found("wrong")

    def test_a_malformed_record_that_passes_is_wrong(self):
        self.move("clicks.rejected", "clicks.unique", lambda record: record[4] == b"\xff")
        self.found("wrong")

    def test_a_good_record_that_is_rejected_is_wrong(self):
        self.move("clicks.duplicate", "clicks.rejected", lambda record: True)
        self.found("wrong")

    def test_another_reason_for_a_rejection_is_wrong(self):
        topic = self.outputs["clicks.rejected"]
        headers = [("ebb-reason", b"schema") if header[0] == "ebb-reason" else header for header in topic[0][6]]
        topic[0] = (*topic[0][:6], headers)
        self.found("wrong")

    def test_one_false_duplicate_is_borne_and_many_are_not(self):
        first = {}
        for record in self.outputs["clicks.unique"]:
            first.setdefault((record[1], json.loads(record[4])["ip"]), record[2])
        chosen = sorted(first.values())
        self.move("clicks.unique", "clicks.duplicate", lambda record: record[2] == chosen[-1])
        report = judged(self.outputs, self.records)
        self.assertEqual(report["false_duplicates"], 1)
        memory = Memory(SPEC["dedup"])
        for number in range(1000):
            memory.judge(f"new{number}", START + number, DUPLICATE if number % 50 == 0 else UNIQUE)
        self.assertEqual(memory.false_duplicates, 20)
        judge = Judge(SPEC)
        judge.memories[0] = memory
        self.assertEqual(judge.report()["wrong"], 1)

    def test_changed_bytes_headers_keys_and_timestamps_are_wrong(self):
        topic = self.outputs["clicks.unique"]
        good = topic[7]
        name, partition, offset, key, value, at, headers = good
        for changed in (
            (name, partition, offset, b"other", value, at, headers),
            (name, partition, offset, key, value + b" ", at, headers),
            (name, partition, offset, key, value, at + 1, headers),
            (name, partition, offset, key, value, at, headers[1:]),
            (name, partition, offset, key, value, at, [("trace", b"?")] + headers[1:]),
        ):
            topic[7] = changed
            self.assertEqual(self.found("wrong")["wrong"], 1)
            topic[7] = good

    def test_a_tombstone_that_becomes_an_empty_value_is_wrong(self):
        topic = self.outputs["clicks.rejected"]
        at = next(at for at, record in enumerate(topic) if record[4] is None)
        topic[at] = (*topic[at][:4], b"", *topic[at][5:])
        self.found("wrong")

    def test_an_output_of_an_input_that_is_not_there_is_wrong(self):
        topic = self.outputs["clicks.unique"]
        strange = [("ebb-source", b"clicks/0/99999"), ("ebb-verdict", b"unique")]
        topic.append((*topic[-1][:6], strange))
        report = judged(self.outputs, self.records)
        self.assertEqual((report["wrong"], report["lost"]), (1, 0) if topic[-1][1] == 0 else (2, 0))

    def test_an_output_without_its_source_is_wrong_and_its_input_lost(self):
        topic = self.outputs["clicks.unique"]
        topic[5] = (*topic[5][:6], [header for header in topic[5][6] if header[0] != "ebb-source"])
        self.found("wrong", "lost", "holes")

    def test_a_verdict_header_that_contradicts_the_topic_is_wrong(self):
        topic = self.outputs["clicks.unique"]
        headers = [("ebb-verdict", b"late") if header[0] == "ebb-verdict" else header for header in topic[5][6]]
        topic[5] = (*topic[5][:6], headers)
        self.found("wrong")

    def test_one_source_in_two_output_partitions_is_wrong(self):
        topic = self.outputs["clicks.unique"]
        topic[5] = (topic[5][0], 7, *topic[5][2:])
        self.assertGreaterEqual(self.found("wrong")["wrong"], 1)

    def test_an_open_transaction_and_an_uncommitted_end_are_found(self):
        ends = {"clicks.unique/0": {"stable": 10, "end": 12}, "clicks/0": {"committed": 5, "end": 5}}
        self.found("open", ends=ends)
        ends = {"clicks.unique/0": {"stable": 12, "end": 12}, "clicks/0": {"committed": 4, "end": 5}}
        self.found("unfinished", ends=ends)

    def test_a_check_of_nothing_does_not_pass(self):
        self.assertFalse(judged({}, [])["ok"])
        self.assertFalse(judged(self.outputs, self.records, least_inputs=3001)["ok"])


class ReadingStrictly(unittest.TestCase):
    def refusal(self, text):
        try:
            Reading({"item": ["a.b"], "time": "t", "value": "v"}, {}).read(text)
            return None
        except Refused as refused:
            return refused.args[0]

    def test_payloads_are_refused_for_their_reasons(self):
        good = b'{"a":{"b":1},"t":5,"v":2.5}'
        self.assertIsNone(self.refusal(good))
        for text, reason in [
            (None, "empty"),
            (b"", "empty"),
            (b"\xef\xbb\xbf" + good, "encoding"),
            (b"\xff", "encoding"),
            (good[:-1], "parse"),
            (good + b"{}", "parse"),
            (good[:-1] + b',"x":NaN}', "parse"),
            (good[:-1] + b',"x":1e999}', "parse"),
            (good[:-1] + b',"x":' + b"[" * 64 + b"]" * 64 + b"}", "limits"),
            (good[:-1] + b',"' + b"k" * 1025 + b'":1}', "limits"),
            (good[:-1] + b',"x":{"y":1,"y":1}}', "duplicate_key"),
            (b"[1]", "schema"),
            (b'{"a":1,"t":5,"v":1}', "schema"),
            (b'{"a":{"b":null},"t":5,"v":1}', "schema"),
            (b'{"a":{"b":[]},"t":5,"v":1}', "schema"),
            (b'{"a":{"b":1},"t":"5","v":1}', "schema"),
            (b'{"a":{"b":1},"t":5,"v":true}', "schema"),
            (b'{"a":{"b":"\\ud800"},"t":5,"v":1}', "encoding"),
            (b'{"a":{"b":"\\u0000"},"t":5,"v":1}', "encoding"),
        ]:
            self.assertEqual(self.refusal(text), reason, text)

    def test_source_forms_are_different_items(self):
        reading = Reading({"item": ["a"]}, {})
        items = {reading.read(b'{"a":%s}' % form)[0] for form in (b"1", b"1.0", b'"1"', b"1e0", b"true", b'"true"')}
        self.assertEqual(len(items), 6)


class RememberingExactly(unittest.TestCase):
    def test_the_window_reaches_to_its_edge_and_a_block_further_is_free(self):
        for age, verdict, wrong, false in [
            (WINDOW, UNIQUE, True, 0),
            (WINDOW + 1, UNIQUE, False, 0),
            (WINDOW + BLOCK, DUPLICATE, False, 0),
            (WINDOW + BLOCK + 1, DUPLICATE, False, 1),
        ]:
            memory = Memory(SPEC["dedup"])
            self.assertIsNone(memory.judge("a", 0, UNIQUE))
            self.assertEqual(memory.judge("a", age, verdict) is not None, wrong, (age, verdict))
            self.assertEqual(memory.false_duplicates, false)

    def test_first_and_last_sightings_open_different_windows(self):
        for seen, wrong in [("first", False), ("last", True)]:
            memory = Memory({**SPEC["dedup"], "seen": seen})
            memory.judge("a", 0, UNIQUE)
            memory.judge("a", WINDOW, DUPLICATE)
            self.assertEqual(memory.judge("a", WINDOW + BLOCK, UNIQUE) is not None, wrong)

    def test_lateness_is_exact(self):
        memory = Memory(SPEC["dedup"])
        memory.judge("a", 100_000, UNIQUE)
        self.assertIsNone(memory.judge("b", 90_000, UNIQUE))
        self.assertIsNotNone(memory.judge("c", 89_999, UNIQUE))
        self.assertIsNone(memory.judge("d", 89_999, LATE))
        self.assertIsNotNone(memory.judge("e", 90_000, LATE))


if __name__ == "__main__":
    unittest.main()
