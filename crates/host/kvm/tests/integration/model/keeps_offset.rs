//! A vCPU of a KVM that ignores the TSC offsets it is given.

use pvclock_kvm::{Error, KvmVcpu};

use super::ModelVcpu;

pub(crate) struct KeepsOffset<'v>(pub(crate) &'v ModelVcpu<'v>);

impl KvmVcpu for KeepsOffset<'_> {
    fn tsc_khz(&self) -> Result<u32, Error> {
        self.0.tsc_khz()
    }

    fn set_tsc_khz(&self, khz: u32) -> Result<(), Error> {
        self.0.set_tsc_khz(khz)
    }

    fn tsc_offset(&self) -> Result<u64, Error> {
        self.0.tsc_offset()
    }

    fn set_tsc_offset(&self, _: u64) -> Result<u64, Error> {
        self.0.tsc_offset()
    }

    fn msr(&self, index: u32) -> Result<Option<u64>, Error> {
        self.0.msr(index)
    }

    fn set_msr(&self, index: u32, value: u64) -> Result<bool, Error> {
        self.0.set_msr(index, value)
    }

    fn announce_stop(&self) -> Result<bool, Error> {
        self.0.announce_stop()
    }
}
