//! What runs inside the lab's virtual machine, and the format it reports in.
#![no_std]
#![forbid(unsafe_code)]
