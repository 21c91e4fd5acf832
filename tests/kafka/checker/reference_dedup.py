"""An exact deduplication of one partition that finds impossible verdicts.

It follows the service where a filter may be wrong (an item falsely called a duplicate was not accepted) and contradicts
it where a filter may not: an accepted item within the window is a duplicate.
"""

UNIQUE, DUPLICATE, LATE, REJECTED = 1, 2, 3, 4
NAMES = {UNIQUE: "unique", DUPLICATE: "duplicate", LATE: "late", REJECTED: "rejected"}

PRUNE_INTERVAL = 100_000


class ReferenceDedup:
    """The accepted events of one partition."""

    def __init__(self, dedup):
        self.window = dedup["window_ms"]
        self.lateness = dedup["lateness_ms"]
        # A filter measures time in blocks: it may remember an item for up to one block longer than the window.
        self.block = dedup["block_ms"]
        self.measures_from_last = dedup["seen"] == "last"
        self.clock = None
        self.accepted = {}
        self.events = 0
        self.new_items = 0
        self.false_duplicates = 0

    def check(self, item, time_ms, verdict):
        """Why the verdict is impossible; None if it is possible. Then accepts the event as the service did."""
        self.clock = time_ms if self.clock is None else max(self.clock, time_ms)
        seen = self.accepted.get(item)
        contradiction = self._contradiction(seen, time_ms, verdict)
        if verdict != DUPLICATE or self.measures_from_last:
            self.accepted[item] = time_ms if seen is None else max(seen, time_ms)
        self.events += 1
        if self.events % PRUNE_INTERVAL == 0:
            horizon = self.clock - self.window - self.lateness - 2 * self.block
            self.accepted = {item: when for item, when in self.accepted.items() if when >= horizon}
        return contradiction

    def _contradiction(self, seen, time_ms, verdict):
        is_late = self.clock - self.lateness > time_ms
        is_remembered = seen is not None and self.clock - seen <= self.window + self.lateness
        if is_remembered and time_ms - seen <= self.window:
            return None if verdict == DUPLICATE else "the item was accepted within the window: it is a duplicate"
        if verdict == DUPLICATE:
            if seen is None or time_ms - seen > self.window + self.block:
                self.new_items += 1
                self.false_duplicates += 1
            return None
        self.new_items += 1
        if verdict == LATE and not is_late:
            return "the event is within the allowed lateness"
        if verdict == UNIQUE and is_late:
            return "the event exceeds the allowed lateness"
        return None
