//! Log messages of the service that tests wait for or count: the only place that repeats their wording.

/// The group assigned partitions to this instance.
pub const PARTITIONS_ASSIGNED: &str = "partitions assigned";
/// A worker restored one partition and reads it.
pub const PARTITION_RESTORED: &str = "partition state loaded";
/// A worker refuses to process one partition.
pub const PARTITION_REFUSED: &str = "partition refused";
/// Uncommitted work was discarded.
pub const RESUMED_FROM_COMMITTED: &str = "transaction given up";
/// A pending transaction of an unknown producer is ignored after a timeout.
pub const PENDING_TRANSACTION_IGNORED: &str = "a transaction hangs";
/// Reasons for a refusal.
pub const RETENTION_REMOVED_RECORDS: &str = "retention deleted";
pub const TOPIC_RECREATED: &str = "recreated";
pub const LAST_RECORD_DIFFERS: &str = "is not the one that was folded last";
pub const PARTITIONS_ADDED: &str = "partitions were added";
