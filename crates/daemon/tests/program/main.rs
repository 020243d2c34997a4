//! The program parachrond, each test with processes of its own, and the files that go with it.

mod alerts;
mod dashboard;
mod disk;
mod gate;
mod gated;
mod manifests;
mod packaging;
mod reload;
mod running;
mod service;
mod users;
