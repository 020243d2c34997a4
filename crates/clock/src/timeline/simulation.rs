//! A machine whose TSC and system clock do as the test says, and a program
//! on it that reads its clock.

mod tests;
mod world;
