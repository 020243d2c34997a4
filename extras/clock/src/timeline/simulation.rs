//! A machine whose TSC and system clock the test controls, and a program
//! on it that reads its clock.

mod tests;
mod world;
