//! Copying between layouts and stores: results, errors and crashes.

mod differences;
mod faults;
mod forgetful;
mod holes;
mod lacking;
mod pairs;
mod stage;
