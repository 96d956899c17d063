//! Copying between layouts and stores: what arrives, what is refused, and what a crash leaves.

mod differences;
mod faults;
mod forgetful;
mod holes;
mod lacking;
mod pairs;
mod stage;
