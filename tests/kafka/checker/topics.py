"""Topics as they stand: every committed record, and where each partition ends."""

from confluent_kafka import Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

BATCH = 10_000
PATIENCE_S = 60
# A batch is waited for that long, however many records are there already.
TURN_S = 0.5


class Topics:
    def __init__(self, brokers):
        self.brokers = brokers
        self.admin = AdminClient({"bootstrap.servers": brokers})

    def partitions(self, topic):
        found = self.admin.list_topics(topic, timeout=PATIENCE_S).topics[topic]
        if found.error is not None:
            raise RuntimeError(f"{topic}: {found.error}")
        return sorted(found.partitions)

    def records(self, topic):
        """Every committed record, each partition in its order."""
        consumer = self._consumer("ebb-checker")
        try:
            awaited = set(self.partitions(topic))
            consumer.assign([TopicPartition(topic, partition, 0) for partition in awaited])
            idle_s = 0
            while awaited:
                messages = consumer.consume(BATCH, timeout=TURN_S)
                idle_s = 0 if messages else idle_s + TURN_S
                if idle_s > PATIENCE_S:
                    raise RuntimeError(f"{topic}: nothing came for {PATIENCE_S} s; waiting for {sorted(awaited)}")
                for message in messages:
                    error = message.error()
                    if error is None:
                        yield (
                            topic,
                            message.partition(),
                            message.offset(),
                            message.key(),
                            message.value(),
                            message.timestamp()[1],
                            message.headers(),
                        )
                    elif error.code() == KafkaError._PARTITION_EOF:
                        awaited.discard(message.partition())
                    elif error.fatal() or not error.retriable():
                        raise RuntimeError(f"{topic}: {error}")
        finally:
            consumer.close()

    def ends(self, topic):
        """{partition: (stable, end)}: where committed records end, and where all do."""
        wanted = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in self.partitions(topic)}
        stable = self._offsets(wanted, IsolationLevel.READ_COMMITTED)
        end = self._offsets(wanted, IsolationLevel.READ_UNCOMMITTED)
        return {partition: (stable[partition], end[partition]) for partition in end}

    def _offsets(self, wanted, isolation):
        found = self.admin.list_offsets(wanted, isolation_level=isolation, request_timeout=PATIENCE_S)
        return {part.partition: future.result().offset for part, future in found.items()}

    def committed(self, group, topic):
        """{partition: offset} of a consumer group; 0 where it has committed nothing."""
        consumer = self._consumer(group)
        try:
            wanted = [TopicPartition(topic, partition) for partition in self.partitions(topic)]
            found = consumer.committed(wanted, timeout=PATIENCE_S)
            return {part.partition: max(part.offset, 0) for part in found}
        finally:
            consumer.close()

    def _consumer(self, group):
        return Consumer(
            {
                "bootstrap.servers": self.brokers,
                "group.id": group,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "check.crcs": True,
                "queued.min.messages": 200_000,
            }
        )
