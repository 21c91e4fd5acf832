"""Checks a run of Ebb from outside: python check.py SPEC.json, findings as JSON on standard output.

Exit status: 0 nothing found, 1 something found, 2 the check itself could not be made. Shares no code with the service.
"""

import json
import sys
import traceback

from judge import Judge
from topics import Topics


def check(spec):
    topics, judge = Topics(spec["brokers"]), Judge(spec)
    ends = {}
    for topic in spec["outputs"].values():
        for partition, (stable, end) in topics.ends(topic).items():
            ends[f"{topic}/{partition}"] = {"stable": stable, "end": end}
        for record in topics.records(topic):
            judge.take_output(record)
    committed = topics.committed(spec["group"], spec["input"])
    for partition, (stable, _) in topics.ends(spec["input"]).items():
        ends[f"{spec['input']}/{partition}"] = {"committed": committed[partition], "end": stable}
    for record in topics.records(spec["input"]):
        judge.take_input(record)
    judge.take_ends(ends)
    return judge.report()


def main():
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            found = check(json.load(file))
    except Exception:
        traceback.print_exc()
        return 2
    print(json.dumps(found))
    return 0 if found["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
