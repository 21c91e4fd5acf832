"""Reads committed records and log ends of topics."""

from confluent_kafka import Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

BATCH = 10_000
TIMEOUT_S = 60
# consume() waits this long for a full batch, even if some records are available.
BATCH_TIMEOUT_S = 0.5


class TopicReader:
    def __init__(self, brokers):
        self.brokers = brokers
        self.admin = AdminClient({"bootstrap.servers": brokers})

    def partitions(self, topic):
        found = self.admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        if found.error is not None:
            raise RuntimeError(f"{topic}: {found.error}")
        return sorted(found.partitions)

    def records(self, topic):
        """Yields every committed record, each partition in offset order."""
        consumer = self._consumer("ebb-checker")
        try:
            unfinished = set(self.partitions(topic))
            consumer.assign([TopicPartition(topic, partition, 0) for partition in unfinished])
            idle_s = 0
            while unfinished:
                messages = consumer.consume(BATCH, timeout=BATCH_TIMEOUT_S)
                idle_s = 0 if messages else idle_s + BATCH_TIMEOUT_S
                if idle_s > TIMEOUT_S:
                    raise RuntimeError(f"{topic}: no record within {TIMEOUT_S} s, unfinished: {sorted(unfinished)}")
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
                        unfinished.discard(message.partition())
                    elif error.fatal() or not error.retriable():
                        raise RuntimeError(f"{topic}: {error}")
        finally:
            consumer.close()

    def ends(self, topic):
        """{partition: (last stable offset, high watermark)}"""
        requests = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in self.partitions(topic)}
        stable = self._offsets(requests, IsolationLevel.READ_COMMITTED)
        end = self._offsets(requests, IsolationLevel.READ_UNCOMMITTED)
        return {partition: (stable[partition], end[partition]) for partition in end}

    def _offsets(self, requests, isolation):
        found = self.admin.list_offsets(requests, isolation_level=isolation, request_timeout=TIMEOUT_S)
        return {partition.partition: future.result().offset for partition, future in found.items()}

    def committed(self, group, topic):
        """{partition: committed offset} of a group; 0 where nothing is committed."""
        consumer = self._consumer(group)
        try:
            partitions = [TopicPartition(topic, partition) for partition in self.partitions(topic)]
            found = consumer.committed(partitions, timeout=TIMEOUT_S)
            return {partition.partition: max(partition.offset, 0) for partition in found}
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
