"""Tests of the checker: every anomaly planted in correct topics is found under its own name."""

import json
import random
import unittest

from event_parser import EventParser, Rejected
from output_checker import ANOMALIES, OutputChecker
from reference_dedup import DUPLICATE, LATE, UNIQUE, ReferenceDedup

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
    """Clicks over several windows with repeats, late events and 1 % malformed records."""
    rng = random.Random(5)
    offsets = [0] * partitions
    for number in range(count):
        partition = rng.randrange(partitions)
        at = START + number * 100
        time_ms = at - (30_000 if rng.random() < 0.02 else rng.randrange(2_000))
        value = payload(f"10.0.0.{rng.randrange(200)}", time_ms)
        if rng.random() < 0.01:
            value = rng.choice([value[:20], None, b"", b"\xff", payload("x", at + 10**9), b'{"ts":1,"ts":2}'])
        yield ("clicks", partition, offsets[partition], b"k%d" % number, value, at, [("trace", b"%d" % number)])
        offsets[partition] += 1


def correct_outputs(records):
    """The outputs of an exact deduplication: {topic: [record]}."""
    outputs = {topic: [] for topic in SPEC["outputs"].values()}
    clocks, accepted, parser = {}, {}, EventParser(SPEC["event"], {})
    for _, partition, offset, key, value, at, headers in records:
        added = [("ebb-source", f"clicks/{partition}/{offset}".encode())]
        try:
            item, time_ms = parser.parse(value)
            if time_ms > at + 300_000:
                raise Rejected("future")
            clock = clocks[partition] = max(clocks.get(partition, time_ms), time_ms)
            seen = accepted.get((partition, item))
            if seen is not None and time_ms - seen <= WINDOW and clock - seen <= WINDOW + LATENESS:
                verdict = "duplicate"
            else:
                verdict = "late" if clock - LATENESS > time_ms else "unique"
                accepted[(partition, item)] = max(time_ms, seen or time_ms)
        except Rejected as rejected:
            verdict = "rejected"
            added.append(("ebb-reason", rejected.args[0].encode()))
        added.append(("ebb-verdict", verdict.encode()))
        topic = outputs[f"clicks.{verdict}"]
        topic.append((f"clicks.{verdict}", partition, len(topic), key, value, at, headers + added))
    return outputs


def check(outputs, records, ends=None, **changes):
    checker = OutputChecker({**SPEC, **changes})
    for topic in outputs.values():
        for record in topic:
            checker.add_output(record)
    for record in records:
        checker.add_input(record)
    checker.add_ends(ends or {})
    return checker.report()


class PlantedAnomalies(unittest.TestCase):
    def setUp(self):
        self.records = list(inputs())
        self.outputs = correct_outputs(self.records)

    def assert_found(self, *expected, **changes):
        """Asserts that exactly the expected anomalies are found, and returns the report."""
        report = check(self.outputs, self.records, **changes)
        found = {name for name in ANOMALIES if report[name]}
        self.assertEqual(found, set(expected), report)
        self.assertEqual(report["ok"], not expected)
        return report

    def test_correct_topics_pass_and_contain_every_verdict(self):
        report = self.assert_found()
        self.assertEqual(report["inputs"], 3000)
        self.assertEqual(set(report["verdicts"]), set(SPEC["outputs"]))
        self.assertGreaterEqual(set(report["rejected"]), {"parse", "empty", "encoding", "future", "duplicate_key"})
        self.assertGreater(report["verdicts"]["late"], 10)

    def test_removed_output_is_lost_and_leaves_a_hole(self):
        del self.outputs["clicks.unique"][10]
        report = self.assert_found("lost", "holes")
        self.assertEqual(report["lost"], 1)

    def test_outputs_missing_at_the_end_are_lost_without_a_hole(self):
        last = max(record[2] for record in self.records if record[1] == 0)
        source = f"clicks/0/{last}".encode()
        for topic in self.outputs.values():
            topic[:] = [record for record in topic if ("ebb-source", source) not in record[6]]
        self.assertEqual(self.assert_found("lost")["lost"], 1)

    def test_repeated_output_is_doubled(self):
        topic = self.outputs["clicks.duplicate"]
        topic.append(topic[3])
        self.assertEqual(self.assert_found("doubled")["doubled"], 1)

    def test_repeated_output_is_tolerated_with_at_least_once_delivery(self):
        topic = self.outputs["clicks.duplicate"]
        topic.append(topic[3])
        report = check(self.outputs, self.records, delivery="at-least-once")
        self.assertEqual((report["ok"], report["doubled"]), (True, 1))

    def test_repeat_with_another_verdict_is_wrong_with_at_least_once_delivery(self):
        first = self.outputs["clicks.unique"][3]
        headers = [("ebb-verdict", b"duplicate") if h[0] == "ebb-verdict" else h for h in first[6]]
        self.outputs["clicks.duplicate"].append(("clicks.duplicate", *first[1:6], headers))
        report = check(self.outputs, self.records, delivery="at-least-once")
        self.assertEqual((report["ok"], report["doubled"], report["wrong"]), (False, 1, 1))

    def test_swapped_outputs_are_reordered(self):
        topic = self.outputs["clicks.unique"]
        first, second = [index for index, record in enumerate(topic) if record[1] == 0][:2]
        topic[first], topic[second] = topic[second], topic[first]
        self.assertEqual(self.assert_found("reordered")["reordered"], 1)

    def move(self, source, target, condition):
        """Moves the first matching record to the topic of another verdict."""
        index = next(index for index, record in enumerate(self.outputs[source]) if condition(record))
        record = self.outputs[source].pop(index)
        name = target.removeprefix("clicks.").encode()
        headers = [("ebb-verdict", name) if header[0] == "ebb-verdict" else header for header in record[6]]
        moved = (target, *record[1:6], headers)
        later = [index for index, other in enumerate(self.outputs[target]) if other[5] > record[5]]
        self.outputs[target].insert(later[0] if later else len(self.outputs[target]), moved)

    def test_duplicate_within_the_window_as_unique_is_wrong(self):
        self.move("clicks.duplicate", "clicks.unique", lambda record: record[5] > START + 100_000)
        self.assertEqual(self.assert_found("wrong")["wrong"], 1)

    def test_late_event_as_unique_is_wrong(self):
        self.move("clicks.late", "clicks.unique", lambda record: record[5] > START + 100_000)
        self.assert_found("wrong")

    def test_timely_event_as_late_is_wrong(self):
        self.move("clicks.unique", "clicks.late", lambda record: record[5] > START + 100_000)
        self.assert_found("wrong")

    def test_malformed_record_as_unique_is_wrong(self):
        self.move("clicks.rejected", "clicks.unique", lambda record: record[4] == b"\xff")
        self.assert_found("wrong")

    def test_valid_record_as_rejected_is_wrong(self):
        self.move("clicks.duplicate", "clicks.rejected", lambda record: True)
        self.assert_found("wrong")

    def test_different_rejection_reason_is_wrong(self):
        topic = self.outputs["clicks.rejected"]
        headers = [("ebb-reason", b"schema") if header[0] == "ebb-reason" else header for header in topic[0][6]]
        topic[0] = (*topic[0][:6], headers)
        self.assert_found("wrong")

    def test_false_duplicates_are_tolerated_up_to_the_expected_rate(self):
        first = {}
        for record in self.outputs["clicks.unique"]:
            first.setdefault((record[1], json.loads(record[4])["ip"]), record[2])
        chosen = sorted(first.values())
        self.move("clicks.unique", "clicks.duplicate", lambda record: record[2] == chosen[-1])
        report = check(self.outputs, self.records)
        self.assertEqual(report["false_duplicates"], 1)
        dedup = ReferenceDedup(SPEC["dedup"])
        for number in range(1000):
            dedup.check(f"new{number}", START + number, DUPLICATE if number % 50 == 0 else UNIQUE)
        self.assertEqual(dedup.false_duplicates, 20)
        checker = OutputChecker(SPEC)
        checker.dedups[0] = dedup
        self.assertEqual(checker.report()["wrong"], 1)

    def test_changed_bytes_headers_keys_and_timestamps_are_wrong(self):
        topic = self.outputs["clicks.unique"]
        original = topic[7]
        name, partition, offset, key, value, at, headers = original
        for changed in (
            (name, partition, offset, b"other", value, at, headers),
            (name, partition, offset, key, value + b" ", at, headers),
            (name, partition, offset, key, value, at + 1, headers),
            (name, partition, offset, key, value, at, headers[1:]),
            (name, partition, offset, key, value, at, [("trace", b"?")] + headers[1:]),
        ):
            topic[7] = changed
            self.assertEqual(self.assert_found("wrong")["wrong"], 1)
            topic[7] = original

    def test_tombstone_with_an_empty_value_is_wrong(self):
        topic = self.outputs["clicks.rejected"]
        index = next(index for index, record in enumerate(topic) if record[4] is None)
        topic[index] = (*topic[index][:4], b"", *topic[index][5:])
        self.assert_found("wrong")

    def test_output_without_an_input_is_wrong(self):
        topic = self.outputs["clicks.unique"]
        headers = [("ebb-source", b"clicks/0/99999"), ("ebb-verdict", b"unique")]
        topic.append((*topic[-1][:6], headers))
        report = check(self.outputs, self.records)
        self.assertEqual((report["wrong"], report["lost"]), (1, 0) if topic[-1][1] == 0 else (2, 0))

    def test_output_without_a_source_is_wrong_and_its_input_lost(self):
        topic = self.outputs["clicks.unique"]
        topic[5] = (*topic[5][:6], [header for header in topic[5][6] if header[0] != "ebb-source"])
        self.assert_found("wrong", "lost", "holes")

    def test_verdict_header_of_another_topic_is_wrong(self):
        topic = self.outputs["clicks.unique"]
        headers = [("ebb-verdict", b"late") if header[0] == "ebb-verdict" else header for header in topic[5][6]]
        topic[5] = (*topic[5][:6], headers)
        self.assert_found("wrong")

    def test_source_partition_in_two_output_partitions_is_wrong(self):
        topic = self.outputs["clicks.unique"]
        topic[5] = (topic[5][0], 7, *topic[5][2:])
        self.assertGreaterEqual(self.assert_found("wrong")["wrong"], 1)

    def test_open_transactions_and_uncommitted_inputs_are_found(self):
        ends = {"clicks.unique/0": {"stable": 10, "end": 12}, "clicks/0": {"committed": 5, "end": 5}}
        self.assert_found("open", ends=ends)
        ends = {"clicks.unique/0": {"stable": 12, "end": 12}, "clicks/0": {"committed": 4, "end": 5}}
        self.assert_found("unfinished", ends=ends)

    def test_empty_topics_do_not_pass(self):
        self.assertFalse(check({}, [])["ok"])
        self.assertFalse(check(self.outputs, self.records, min_inputs=3001)["ok"])


class EventParserTests(unittest.TestCase):
    def rejection(self, text):
        try:
            EventParser({"item": ["a.b"], "time": "t", "value": "v"}, {}).parse(text)
            return None
        except Rejected as rejected:
            return rejected.args[0]

    def test_invalid_payloads_are_rejected_with_their_reason(self):
        valid = b'{"a":{"b":1},"t":5,"v":2.5}'
        self.assertIsNone(self.rejection(valid))
        for text, reason in [
            (None, "empty"),
            (b"", "empty"),
            (b"\xef\xbb\xbf" + valid, "encoding"),
            (b"\xff", "encoding"),
            (valid[:-1], "parse"),
            (valid + b"{}", "parse"),
            (valid[:-1] + b',"x":NaN}', "parse"),
            (valid[:-1] + b',"x":1e999}', "parse"),
            (valid[:-1] + b',"x":' + b"[" * 64 + b"]" * 64 + b"}", "limits"),
            (valid[:-1] + b',"' + b"k" * 1025 + b'":1}', "limits"),
            (valid[:-1] + b',"x":{"y":1,"y":1}}', "duplicate_key"),
            (b"[1]", "schema"),
            (b'{"a":1,"t":5,"v":1}', "schema"),
            (b'{"a":{"b":null},"t":5,"v":1}', "schema"),
            (b'{"a":{"b":[]},"t":5,"v":1}', "schema"),
            (b'{"a":{"b":1},"t":"5","v":1}', "schema"),
            (b'{"a":{"b":1},"t":5,"v":true}', "schema"),
            (b'{"a":{"b":"\\ud800"},"t":5,"v":1}', "encoding"),
            (b'{"a":{"b":"\\u0000"},"t":5,"v":1}', "encoding"),
        ]:
            self.assertEqual(self.rejection(text), reason, text)

    def test_different_literals_are_different_items(self):
        parser = EventParser({"item": ["a"]}, {})
        items = {parser.parse(b'{"a":%s}' % form)[0] for form in (b"1", b"1.0", b'"1"', b"1e0", b"true", b'"true"')}
        self.assertEqual(len(items), 6)


class ReferenceDedupTests(unittest.TestCase):
    def test_duplicates_are_required_within_the_window_and_permitted_for_one_more_block(self):
        for age, verdict, is_wrong, false in [
            (WINDOW, UNIQUE, True, 0),
            (WINDOW + 1, UNIQUE, False, 0),
            (WINDOW + BLOCK, DUPLICATE, False, 0),
            (WINDOW + BLOCK + 1, DUPLICATE, False, 1),
        ]:
            dedup = ReferenceDedup(SPEC["dedup"])
            self.assertIsNone(dedup.check("a", 0, UNIQUE))
            self.assertEqual(dedup.check("a", age, verdict) is not None, is_wrong, (age, verdict))
            self.assertEqual(dedup.false_duplicates, false)

    def test_window_is_measured_from_the_first_or_the_last_event(self):
        for seen, is_wrong in [("first", False), ("last", True)]:
            dedup = ReferenceDedup({**SPEC["dedup"], "seen": seen})
            dedup.check("a", 0, UNIQUE)
            dedup.check("a", WINDOW, DUPLICATE)
            self.assertEqual(dedup.check("a", WINDOW + BLOCK, UNIQUE) is not None, is_wrong)

    def test_lateness_is_exact(self):
        dedup = ReferenceDedup(SPEC["dedup"])
        dedup.check("a", 100_000, UNIQUE)
        self.assertIsNone(dedup.check("b", 90_000, UNIQUE))
        self.assertIsNotNone(dedup.check("c", 89_999, UNIQUE))
        self.assertIsNone(dedup.check("d", 89_999, LATE))
        self.assertIsNotNone(dedup.check("e", 90_000, LATE))


if __name__ == "__main__":
    unittest.main()
