//! A vCPU that remembers in which order it was set.

use std::cell::RefCell;

use pvclock_kvm::{Error, KvmVcpu};

use super::{ModelVcpu, ModelVm};

/// A vCPU with two MSRs more than the model's, and in which order it was set.
pub(crate) struct Recorded<'v> {
    vcpu: &'v ModelVcpu<'v>,
    adjust: Option<u64>,
    steal_time: Option<u64>,
    pub(crate) set: RefCell<Vec<(&'static str, u64)>>,
}

impl<'v> Recorded<'v> {
    pub(crate) fn new(vm: &'v ModelVm<'v>, adjust: Option<u64>, steal_time: Option<u64>) -> Self {
        Self { vcpu: &vm.vcpus[0], adjust, steal_time, set: RefCell::default() }
    }
}

impl KvmVcpu for Recorded<'_> {
    fn tsc_khz(&self) -> Result<u32, Error> {
        self.vcpu.tsc_khz()
    }

    fn set_tsc_khz(&self, khz: u32) -> Result<(), Error> {
        self.set.borrow_mut().push(("rate", khz.into()));
        self.vcpu.set_tsc_khz(khz)
    }

    fn tsc_offset(&self) -> Result<u64, Error> {
        self.vcpu.tsc_offset()
    }

    fn set_tsc_offset(&self, offset: u64) -> Result<u64, Error> {
        self.set.borrow_mut().push(("offset", 0));
        self.vcpu.set_tsc_offset(offset)
    }

    fn msr(&self, index: u32) -> Result<Option<u64>, Error> {
        match index {
            0x3b => Ok(self.adjust),
            0x4b56_4d03 => Ok(self.steal_time),
            _ => self.vcpu.msr(index),
        }
    }

    fn set_msr(&self, index: u32, value: u64) -> Result<bool, Error> {
        let (name, known) = match index {
            0x3b => ("adjust", self.adjust.is_some()),
            0x4b56_4d03 => ("steal time", self.steal_time.is_some()),
            0x6e0 => ("deadline", self.vcpu.set_msr(index, value)?),
            0x4b56_4d01 => ("page", self.vcpu.set_msr(index, value)?),
            _ => ("another", false),
        };
        self.set.borrow_mut().push((name, value));
        Ok(known)
    }

    fn announce_stop(&self) -> Result<bool, Error> {
        self.set.borrow_mut().push(("stop", 0));
        self.vcpu.announce_stop()
    }
}
