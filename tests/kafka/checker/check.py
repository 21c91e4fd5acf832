"""Checks the topics of an Ebb run independently of the service: python check.py SPEC.json prints findings as JSON.

Exit status: 0 without findings, 1 with findings, 2 if the check itself failed. Shares no code with the service.
"""

import json
import sys
import traceback

from output_checker import OutputChecker
from topic_reader import TopicReader


def check(spec):
    topics, checker = TopicReader(spec["brokers"]), OutputChecker(spec)
    ends = {}
    for topic in spec["outputs"].values():
        for partition, (stable, end) in topics.ends(topic).items():
            ends[f"{topic}/{partition}"] = {"stable": stable, "end": end}
        for record in topics.records(topic):
            checker.add_output(record)
    committed = topics.committed(spec["group"], spec["input"])
    for partition, (stable, _) in topics.ends(spec["input"]).items():
        ends[f"{spec['input']}/{partition}"] = {"committed": committed[partition], "end": stable}
    for record in topics.records(spec["input"]):
        checker.add_input(record)
    checker.add_ends(ends)
    return checker.report()


def main():
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            report = check(json.load(file))
    except Exception:
        traceback.print_exc()
        return 2
    print(json.dumps(report))
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
