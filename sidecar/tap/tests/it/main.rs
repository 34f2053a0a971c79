//! The tap between real clients and the vendor emulator.

mod bench;
mod ending;
mod holding;
mod intents;
mod limits;
mod polls;
mod principals;
mod programs;
mod reading;
mod secrets;
