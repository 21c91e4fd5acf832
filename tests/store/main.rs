//! The store: what was saved comes back, or something older, or nothing; never something else.

mod bounded;
mod damage;
mod disk_full;
mod generations;
mod journal;
mod kill;
mod model;
mod support;
