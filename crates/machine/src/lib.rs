//! A virtual machine on /dev/kvm whose time is ours to arrange.

pub mod devices;
