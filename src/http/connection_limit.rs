//! Limits on the number of open connections, in total and per client address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus::IntGauge;

/// Grants permits for connections up to both limits.
#[derive(Debug, Clone)]
pub(super) struct ConnectionLimit {
    counts: Arc<Mutex<ConnectionCounts>>,
    max_total: usize,
    max_per_address: usize,
    gauge: IntGauge,
}

#[derive(Debug, Default)]
struct ConnectionCounts {
    total: usize,
    by_address: BTreeMap<IpAddr, usize>,
}

/// Permission for one open connection; returned when dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    limit: ConnectionLimit,
    address: IpAddr,
}

impl ConnectionLimit {
    /// `gauge` follows the number of open connections.
    pub(super) fn new(max_total: usize, max_per_address: Option<usize>, gauge: IntGauge) -> Self {
        Self { counts: Arc::default(), max_total, max_per_address: max_per_address.unwrap_or(usize::MAX), gauge }
    }

    /// `None` when a limit is reached.
    pub(super) fn acquire(&self, address: IpAddr) -> Option<ConnectionPermit> {
        let mut counts = self.lock();
        let from_address = counts.by_address.get(&address).copied().unwrap_or(0);
        if counts.total >= self.max_total || from_address >= self.max_per_address {
            return None;
        }
        counts.total += 1;
        counts.by_address.insert(address, from_address + 1);
        self.gauge.inc();
        Some(ConnectionPermit { limit: self.clone(), address })
    }

    pub(super) fn open(&self) -> usize {
        self.lock().total
    }

    /// A poisoned lock is usable: no update of the counts can panic half-way.
    fn lock(&self) -> MutexGuard<'_, ConnectionCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut counts = self.limit.lock();
        counts.total -= 1;
        if let Some(from_address) = counts.by_address.get_mut(&self.address) {
            *from_address -= 1;
            if *from_address == 0 {
                counts.by_address.remove(&self.address);
            }
        }
        self.limit.gauge.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gauge() -> IntGauge {
        IntGauge::new("open", "open").unwrap()
    }

    #[test]
    fn connections_are_limited_in_total_and_per_address() {
        let [one, two]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        let limit = ConnectionLimit::new(3, Some(2), gauge());
        let permits = [limit.acquire(one), limit.acquire(one)];
        assert!(permits.iter().all(Option::is_some));
        assert!(limit.acquire(one).is_none(), "two per address");
        let third = limit.acquire(two);
        assert!(third.is_some());
        assert!(limit.acquire(two).is_none(), "three in total");
        assert_eq!((limit.open(), limit.gauge.get()), (3, 3));
    }

    #[test]
    fn dropping_a_permit_frees_it_and_forgets_the_address() {
        let address = [10, 0, 0, 1].into();
        let limit = ConnectionLimit::new(1, None, gauge());
        for _ in 0..3 {
            let permit = limit.acquire(address);
            assert!(permit.is_some() && limit.acquire(address).is_none());
        }
        assert_eq!((limit.open(), limit.gauge.get()), (0, 0));
        assert!(limit.lock().by_address.is_empty());
    }
}
