//! The store returns what was saved, or something older, or nothing, and never anything else.

mod bounded;
mod damage;
mod disk_full;
mod generations;
mod journal;
mod kill;
mod model;
mod support;
