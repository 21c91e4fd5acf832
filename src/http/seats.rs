//! How many connections are open, in all and from one address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus::IntGauge;

/// A bounded number of seats; who finds none is sent away.
#[derive(Debug, Clone)]
pub(super) struct Seats {
    taken: Arc<Mutex<Taken>>,
    most: usize,
    most_by_address: usize,
    open: IntGauge,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_address: BTreeMap<IpAddr, usize>,
}

/// A taken seat; free again when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Seats,
    address: IpAddr,
}

impl Seats {
    pub(super) fn new(most: usize, most_by_address: Option<usize>, open: IntGauge) -> Self {
        Self { taken: Arc::default(), most, most_by_address: most_by_address.unwrap_or(usize::MAX), open }
    }

    pub(super) fn take(&self, address: IpAddr) -> Option<Seat> {
        let mut taken = self.lock();
        let here = taken.by_address.get(&address).copied().unwrap_or(0);
        if taken.all >= self.most || here >= self.most_by_address {
            return None;
        }
        taken.all += 1;
        taken.by_address.insert(address, here + 1);
        self.open.inc();
        Some(Seat { seats: self.clone(), address })
    }

    pub(super) fn taken(&self) -> usize {
        self.lock().all
    }

    /// Counts are only changed by steps that cannot panic half-way.
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.lock();
        taken.all -= 1;
        if let Some(here) = taken.by_address.get_mut(&self.address) {
            *here -= 1;
            if *here == 0 {
                taken.by_address.remove(&self.address);
            }
        }
        self.seats.open.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gauge() -> IntGauge {
        IntGauge::new("open", "open").unwrap()
    }

    #[test]
    fn seats_are_bounded_in_all_and_for_each_address() {
        let [one, two]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        let seats = Seats::new(3, Some(2), gauge());
        let held = [seats.take(one), seats.take(one)];
        assert!(held.iter().all(Option::is_some));
        assert!(seats.take(one).is_none(), "two from one address");
        let third = seats.take(two);
        assert!(third.is_some());
        assert!(seats.take(two).is_none(), "three in all");
        assert_eq!((seats.taken(), seats.open.get()), (3, 3));
    }

    #[test]
    fn a_seat_is_free_again_when_its_connection_ends() {
        let address = [10, 0, 0, 1].into();
        let seats = Seats::new(1, None, gauge());
        for _ in 0..3 {
            let seat = seats.take(address);
            assert!(seat.is_some() && seats.take(address).is_none());
        }
        assert_eq!((seats.taken(), seats.open.get()), (0, 0));
        assert!(seats.lock().by_address.is_empty(), "addresses are not kept");
    }
}
