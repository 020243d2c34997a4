//! The machine: vCPUs on their threads, with shared memory and devices.

mod control;
mod requests;
mod saved;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use guest::layout::{self, VCPUS_MAX};
use host::{GuestClock, HostClocks, HostEvent, VcpuId};
use kvm_ioctls::{VcpuFd, VmFd};
use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::signal::register_signal_handler;

use crate::alarm;
use crate::devices::{Devices, LocalTimer, SerialPort};
use crate::error::MachineError;
use crate::guest_fault::GuestFault;
use crate::handover::{Background, Control, VcpuHandle, kick_signal};
use crate::kvm::{Counts, EntryPoint};
use crate::linux_boot::{self, HypercallPage};
use crate::memory::GuestRam;
use crate::network::{self, NetworkLink};
use crate::run_delay::StealMeter;
use crate::settings::{ClockBackend, Settings};
use crate::shared::{Inner, OwnTime, Shared};
use crate::vcpu::{NextExit, RunningVcpu};
use crate::{host_clock, kvm};

pub use saved::{RestoredVmClock, SavedMachine};

/// Where a vCPU stands, beside what KVM has of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VcpuProgress {
    timer: LocalTimer,
    next: NextExit,
    guest_fault: Option<GuestFault>,
    last_request: u64,
}

impl VcpuProgress {
    /// At its first entry.
    fn starting(timer: LocalTimer) -> Self {
        Self { timer, next: NextExit::Enter, guest_fault: None, last_request: 0 }
    }
}

/// A running machine. Dropping it ends its threads and frees its memory.
///
/// A method that takes a vCPU's number panics where there is no such vCPU.
pub struct Machine {
    // Before the memory in `shared`: fields are dropped in this order.
    pub(crate) vm: VmFd,
    /// The alarm, where there are pages of ours, and the network card's.
    background: Vec<Background>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) settings: Settings,
    started: Instant,
}

extern "C" fn on_kick(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // The signal itself is enough: KVM_RUN returns with EINTR.
}

impl Machine {
    /// Creates a machine, and starts the guest on all of its vCPUs. This
    /// replaces the process's handler of SIGRTMIN for good: that signal brings
    /// a vCPU out of the guest.
    ///
    /// # Errors
    /// No KVM, or invalid settings.
    pub fn start(settings: &Settings) -> Result<Self, MachineError> {
        let started = Instant::now();
        if !(1..=VCPUS_MAX).contains(&settings.vcpus) {
            return Err(MachineError::Vcpus { requested: settings.vcpus, most: VCPUS_MAX });
        }
        settings.backend.check()?;
        let kvm = kvm::open()?;
        let ram = GuestRam::new(settings.memory)?;
        let entry = match &settings.linux {
            None => EntryPoint { rip: ram.load(crate::GUEST)?, rsi: layout::MAGIC },
            Some(image) => linux_boot::load(&ram, image)?,
        };
        if settings.linux.is_some() {
            linux_boot::write_acpi(&ram, settings.vcpus, settings.rtc)?;
        }
        kvm::write_tables(&ram)?;
        let vm = kvm::create_vm(&kvm, &ram, settings)?;
        let now = host_clock::read();
        let host = match &settings.backend {
            ClockBackend::Kernel | ClockBackend::KernelHyperV => None,
            ClockBackend::Own(settings) => Some(GuestClock::new(*settings, now)?),
        };
        let leaves = kvm::leaves(&kvm, settings, host.as_ref())?;
        let line = Self::serial_line(&vm, settings)?;
        let devices = Devices::new(settings.rtc, line);
        let mut inner = Inner::new(host, devices, OwnTime::starting(now));
        inner.hypercalls = settings.has_hypercall_page().then(HypercallPage::default);
        let card = settings.network.map(|delay| NetworkLink::add(&vm, delay)).transpose()?;
        let (mut machine, receivers) = Self::around(vm, ram, inner, settings, started, card)?;
        for (index, control) in receivers.into_iter().enumerate() {
            let id = VcpuId(index as u32);
            let fd = kvm::create_vcpu(&kvm, &machine.vm, id, settings, leaves.as_deref())?;
            // Linux starts its other vCPUs itself.
            if settings.linux.is_none() || index == 0 {
                kvm::set_entry(&fd, id, entry, settings.network.is_some())?;
            }
            let timer = LocalTimer::new(id.0).with_ticks(settings.ticks);
            machine.add(id, fd, control, VcpuProgress::starting(timer))?;
        }
        machine.start_vmclock(&kvm, None)?;
        machine.send_all(|| Control::Resume);
        Ok(machine)
    }

    /// Of the serial port: the lab's own guest takes no interrupt of it.
    fn serial_line(vm: &VmFd, settings: &Settings) -> Result<Option<EventFd>, MachineError> {
        let has_line = settings.linux.is_some();
        has_line.then(|| kvm::interrupt_line(vm, SerialPort::INTERRUPT)).transpose()
    }

    fn around(
        vm: VmFd,
        ram: GuestRam,
        inner: Inner,
        settings: &Settings,
        started: Instant,
        card: Option<Arc<NetworkLink>>,
    ) -> Result<(Self, Vec<Receiver<Control>>), MachineError> {
        let (shared, receivers) = Shared::new(ram, inner, card, settings.vcpus);
        let shared = Arc::new(shared);
        let mut background = Vec::new();
        if shared.has_clock() || settings.vmclock {
            background.push(alarm::start(&shared)?);
        }
        if let Some(link) = &shared.network {
            background.push(network::start(link, settings)?);
        }
        Ok((Self { vm, background, shared, settings: settings.clone(), started }, receivers))
    }

    /// Starts a vCPU's thread, paused: the provider knows all of them before
    /// the first one runs.
    fn add(
        &mut self,
        id: VcpuId,
        fd: VcpuFd,
        control: Receiver<Control>,
        progress: VcpuProgress,
    ) -> Result<(), MachineError> {
        register_signal_handler(kick_signal(), on_kick)
            .map_err(|error| MachineError::Kvm { call: "sigaction", error })?;
        let VcpuProgress { timer, next, guest_fault, last_request } = progress;
        let tsc_offset = kvm::tsc_offset(&fd)?;
        let handle = Arc::clone(self.shared.vcpus.handle(id));
        if let Ok(counts) = kvm::count_file(&fd) {
            let _ = handle.counts.set(counts);
        }
        guest_fault.into_iter().for_each(|fault| handle.die(fault));
        handle.last_request.store(last_request, Ordering::Relaxed);
        self.shared.notify(HostEvent::VcpuCreated { vcpu: id, tsc_offset });
        let vcpu = RunningVcpu {
            id,
            fd,
            shared: Arc::clone(&self.shared),
            handle: Arc::clone(&handle),
            timer,
            tsc_offset,
            control,
            paused: true,
            next,
            steal: self.shared.has_clock().then(StealMeter::default),
            due: self.shared.with_clock(|host, _, _| host.due_flag(id)).flatten(),
        };
        let thread = std::thread::Builder::new()
            .name(format!("vcpu {}", id.0))
            .spawn(move || vcpu.run())
            .map_err(MachineError::Thread)?;
        handle.put_thread(thread);
        match self.settings.cpu(id.0 as usize) {
            Some(cpu) => self.move_vcpu(id.0 as usize, cpu),
            None => Ok(()),
        }
    }

    /// The next request finds a thread that has ended.
    fn send_all(&self, control: impl Fn() -> Control) {
        for vcpu in self.shared.vcpus.all() {
            let _ = vcpu.send(control());
        }
    }

    fn handle(&self, vcpu: usize) -> &VcpuHandle {
        &self.shared.vcpus.all()[vcpu]
    }

    /// Its number of vCPUs.
    pub fn vcpus(&self) -> usize {
        self.shared.vcpus.all().len()
    }

    /// Guest memory.
    pub fn ram(&self) -> &GuestRam {
        &self.shared.ram
    }

    /// When it was created.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// The number of a vCPU's exits to this process.
    pub fn exits(&self, vcpu: usize) -> u64 {
        self.handle(vcpu).exits.load(Ordering::Relaxed)
    }

    /// What KVM counts of a vCPU, if it does: exits of all kinds, also those that it
    /// handles itself.
    pub fn counts(&self, vcpu: usize) -> Option<Counts> {
        self.handle(vcpu).counts.get().and_then(kvm::read_counts)
    }

    /// The output of the serial port since the last call.
    pub fn serial(&self) -> Vec<u8> {
        self.shared.lock().devices.take_serial_output()
    }

    /// How a vCPU failed, if it did: a Linux that reboots ends by a triple fault.
    pub fn guest_fault(&self) -> Option<GuestFault> {
        self.shared.vcpus.all().iter().find_map(|vcpu| vcpu.guest_fault())
    }

    /// Runs `action` with our provider, if the clock is ours, and the host's
    /// clocks read under its lock; vCPUs run meanwhile. To change the guest's
    /// time use [`notify`](Self::notify) or [`with_clock_exclusive`](Self::with_clock_exclusive).
    pub fn with_clock<R>(
        &self,
        action: impl FnOnce(&mut GuestClock, HostClocks, &GuestRam) -> R,
    ) -> Option<R> {
        self.shared.with_clock(action)
    }

    /// The same with all vCPUs out of the guest, so that none reads the old
    /// time while another reads the new one.
    pub fn with_clock_exclusive<R>(
        &self,
        action: impl FnOnce(&mut GuestClock, HostClocks, &GuestRam) -> R,
    ) -> Option<R> {
        self.shared.with_clock_exclusive(action)
    }

    /// Passes an event to our provider, if the clock is ours, with all vCPUs
    /// out of the guest where the event needs that.
    pub fn notify(&self, event: HostEvent) {
        self.shared.notify(event);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.send_all(|| Control::Stop);
        self.shared.vcpus.all().iter().for_each(|vcpu| vcpu.join());
        // The last threads that use the shared state end before it is freed.
        self.background.clear();
    }
}
