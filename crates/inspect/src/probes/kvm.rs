//! KVM's clock, read in a virtual machine made for this probe.

use kvm_ioctls::{Cap, Kvm};

use facts::Fact;

const DEVICE: &str = "/dev/kvm";

/// The fields of [`facts::hardware::parse_kvm_host`].
pub(crate) fn host() -> Fact<String> {
    match clock_fields() {
        Ok(text) => Fact::Known(text),
        Err(error) => {
            let error = std::io::Error::from_raw_os_error(error.errno());
            Fact::Unknown(crate::unknown_of(DEVICE, &error))
        }
    }
}

fn clock_fields() -> Result<String, kvm_ioctls::Error> {
    let kvm = Kvm::new()?;
    let vm = kvm.create_vm()?;
    let vcpu = vm.create_vcpu(0);
    // KVM decides whether its clock is stable when the clock is set, and
    // never for a machine without a virtual CPU (arch/x86/kvm/x86.c,
    // pvclock_update_vm_gtod_copy): set it to what it is.
    let mut now = vm.get_clock()?;
    // KVM_SET_CLOCK refuses KVM_GET_CLOCK's flags.
    now.flags = 0;
    vm.set_clock(&now)?;
    let clock = vm.get_clock()?;
    let scaling = u8::from(kvm.check_extension(Cap::TscControl));
    let mut text =
        format!("clock_ns {}\nflags {}\ntsc_control {scaling}\n", clock.clock, clock.flags);
    // Only a virtual CPU has a frequency on kernels before 5.17.
    if kvm.check_extension(Cap::GetTscKhz)
        && let Ok(khz) = vcpu.and_then(|vcpu| vcpu.get_tsc_khz())
    {
        text.push_str(&format!("tsc_khz {khz}\n"));
    }
    Ok(text)
}
