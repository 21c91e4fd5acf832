"""An exact memory of one partition: which verdicts about an event no filter may give.

It follows the service where a filter has a choice (an item wrongly called duplicate was not accepted) and contradicts it
where there is none: an accepted item within the window is a duplicate, whatever happened in between.
"""

UNIQUE, DUPLICATE, LATE, REJECTED = 1, 2, 3, 4
NAMES = {UNIQUE: "unique", DUPLICATE: "duplicate", LATE: "late", REJECTED: "rejected"}

PRUNE_EVERY = 100_000


class Memory:
    """The accepted events of one partition."""

    def __init__(self, dedup):
        self.window = dedup["window_ms"]
        self.lateness = dedup["lateness_ms"]
        # A filter counts time in blocks: up to one more than the window, an item may still be remembered.
        self.block = dedup["block_ms"]
        self.measures_from_last = dedup["seen"] == "last"
        self.clock = None
        self.accepted = {}
        self.folded = 0
        self.clean = 0
        self.false_duplicates = 0

    def judge(self, item, time_ms, verdict):
        """What is wrong with the verdict; None when nothing is. Remembers the event as the service did."""
        self.clock = time_ms if self.clock is None else max(self.clock, time_ms)
        seen = self.accepted.get(item)
        wrong = self._contradiction(seen, time_ms, verdict)
        if verdict != DUPLICATE or self.measures_from_last:
            self.accepted[item] = time_ms if seen is None else max(seen, time_ms)
        self.folded += 1
        if self.folded % PRUNE_EVERY == 0:
            horizon = self.clock - self.window - self.lateness - 2 * self.block
            self.accepted = {item: when for item, when in self.accepted.items() if when >= horizon}
        return wrong

    def _contradiction(self, seen, time_ms, verdict):
        is_late = self.clock - self.lateness > time_ms
        remembered = seen is not None and self.clock - seen <= self.window + self.lateness
        if remembered and time_ms - seen <= self.window:
            return None if verdict == DUPLICATE else "accepted within the window, so it is a duplicate"
        if verdict == DUPLICATE:
            if seen is None or time_ms - seen > self.window + self.block:
                self.clean += 1
                self.false_duplicates += 1
            return None
        self.clean += 1
        if verdict == LATE and not is_late:
            return "not older than the lateness allowed, so it is not late"
        if verdict == UNIQUE and is_late:
            return "older than the lateness allowed, so it is not silently unique"
        return None
