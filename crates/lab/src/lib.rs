//! Experiments on a clock from inside and outside of a virtual machine.
