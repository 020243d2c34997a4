//! The machine: vCPUs on their threads, with shared memory and devices.

mod control;
mod file;
mod kernel;
mod network;
mod requests;
mod saved;
mod vmclock;

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use guest::layout::{self, VCPUS_MAX};
use host::{GuestClock, HostClocks, HostEvent, VcpuId};
use kvm_ioctls::{VcpuFd, VmFd};
use pvclock::Hertz;
use vmm_sys_util::signal::register_signal_handler;

use crate::alarm::Alarm;
use crate::barrier::kick_signal;
use crate::devices::{Devices, LocalTimer, SerialPort};
use crate::entry::EntryPoint;
use crate::error::MachineError;
use crate::guest_fault::GuestFault;
use crate::kvm::Counts;
use crate::linux_boot::{self, HypercallPage};
use crate::memory::GuestRam;
use crate::network::{NetworkLink, NetworkThread};
use crate::run_delay::StealMeter;
use crate::settings::{ClockBackend, Settings};
use crate::shared::{Inner, OwnTime, Shared};
use crate::vcpu::{Control, NextExit, RunningVcpu, VcpuStatus};
use crate::{host_clock, image, kvm};

pub use file::FileError;
pub use saved::{RestoredVmClock, SavedMachine};

/// One vCPU as others see it.
struct Handle {
    id: VcpuId,
    control: Sender<Control>,
    status: Arc<VcpuStatus>,
    /// The number of the last request.
    last_request: AtomicU64,
    /// Records taken from its ring.
    tail: AtomicU64,
    /// What KVM counts of it, where it does.
    counts: Option<File>,
}

/// The state in which a vCPU's thread starts.
struct MachineStart {
    id: VcpuId,
    fd: VcpuFd,
    timer: LocalTimer,
    next: NextExit,
    guest_fault: Option<GuestFault>,
    last_request: u64,
    tail: u64,
}

/// A running machine. Dropping it ends its threads and frees its memory.
///
/// A method that takes a vCPU's number panics where there is no such vCPU.
pub struct Machine {
    vcpus: Vec<Handle>,
    // Before the memory in `shared`: fields are dropped in this order.
    vm: VmFd,
    /// Only where there are pages of ours.
    alarm: Option<Alarm>,
    network: Option<NetworkThread>,
    shared: Arc<Shared>,
    settings: Settings,
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
            None => EntryPoint { rip: ram.load(image::GUEST)?, rsi: layout::MAGIC },
            Some(image) => linux_boot::load(&ram, image, settings.vcpus)?,
        };
        if settings.linux.is_some() {
            let has_vmclock = settings.vmclock.is_some();
            linux_boot::write_acpi(&ram, settings.vcpus, &settings.devices, has_vmclock)?;
        }
        kvm::write_tables(&ram)?;
        let vm = kvm::create_vm(&kvm, &ram, settings)?;
        let now = host_clock::read();
        let host = match &settings.backend {
            ClockBackend::Kernel | ClockBackend::KernelHyperV => None,
            ClockBackend::Own(settings) => Some(GuestClock::new(*settings, now)?),
        };
        let leaves = kvm::leaves(&kvm, settings, host.as_ref())?;
        let mut devices = Devices::new(&settings.devices);
        if settings.linux.is_some() {
            devices.connect_serial(kvm::interrupt_line(&vm, SerialPort::INTERRUPT)?);
        }
        let mut inner = Inner::new(host, devices, OwnTime::starting(now));
        inner.hypercalls = settings.has_hypercall_page().then(HypercallPage::default);
        let card = settings.network.map(|delay| network::add(&vm, delay)).transpose()?;
        let mut machine = Self::around(vm, ram, inner, settings, started, card)?;
        for index in 0..settings.vcpus {
            let id = VcpuId(index as u32);
            let fd = kvm::create_vcpu(&kvm, &machine.vm, (id, settings.vcpus), leaves.as_deref())?;
            // Linux starts its other vCPUs itself.
            if settings.linux.is_none() || index == 0 {
                kvm::set_entry(&fd, id, entry, settings.network.is_some())?;
            }
            let khz = fd.get_tsc_khz().map_err(MachineError::kvm("KVM_GET_TSC_KHZ"))?;
            let tsc = Hertz(u64::from(khz) * 1000);
            let timer = LocalTimer::new(id.0, tsc).with_ticks(settings.ticks);
            machine.add(MachineStart {
                id,
                fd,
                timer,
                next: NextExit::Enter,
                guest_fault: None,
                last_request: 0,
                tail: 0,
            })?;
        }
        machine.start_vmclock(&kvm, None)?;
        machine.send_all(|| Control::Resume);
        Ok(machine)
    }

    fn around(
        vm: VmFd,
        ram: GuestRam,
        inner: Inner,
        settings: &Settings,
        started: Instant,
        card: Option<Arc<NetworkLink>>,
    ) -> Result<Self, MachineError> {
        let mut shared = Shared::new(ram, inner);
        shared.network = card;
        let shared = Arc::new(shared);
        let has_pages = shared.has_clock() || settings.vmclock.is_some();
        let alarm = if has_pages { Some(Alarm::start(&shared)?) } else { None };
        let network = shared.network.as_ref().map(|link| network::start(link, settings));
        let (network, settings) = (network.transpose()?, settings.clone());
        Ok(Self { vcpus: Vec::new(), vm, alarm, network, shared, settings, started })
    }

    /// Starts a vCPU's thread, paused: the provider knows all of them before
    /// the first one runs.
    fn add(&mut self, start: MachineStart) -> Result<(), MachineError> {
        register_signal_handler(kick_signal(), on_kick)
            .map_err(|error| MachineError::Kvm { call: "sigaction", error })?;
        let MachineStart { id, fd, timer, next, guest_fault, last_request, tail } = start;
        let tsc_offset = kvm::tsc_offset(&fd)?;
        let counts = kvm::count_file(&fd).ok();
        self.shared.notify(HostEvent::VcpuCreated { vcpu: id, tsc_offset });
        let affinity = &self.settings.affinity;
        let physical_cpu = (!affinity.is_empty()).then(|| affinity[id.0 as usize % affinity.len()]);
        let (control, receiver) = channel();
        let status = Arc::new(VcpuStatus::default());
        if let Some(guest_fault) = guest_fault {
            status.die(guest_fault);
        }
        let (waker, woken) = (control.clone(), Arc::clone(&status));
        // A thread that has ended needs no kick.
        let wake = move || _ = woken.send(&waker, Control::Kicked);
        self.shared.kicks.add(id, Box::new(wake));
        let vcpu = RunningVcpu {
            id,
            fd,
            shared: Arc::clone(&self.shared),
            status: Arc::clone(&status),
            timer,
            tsc_offset,
            control: receiver,
            paused: true,
            next,
            steal: self.shared.has_clock().then(StealMeter::default),
            due: self.shared.with_clock(|host, _, _| host.due_flag(id)).flatten(),
        };
        let thread = std::thread::Builder::new()
            .name(format!("vcpu {}", id.0))
            .spawn(move || vcpu.run())
            .map_err(MachineError::Thread)?;
        let (last_request, tail) = (AtomicU64::new(last_request), AtomicU64::new(tail));
        self.shared.barrier.put_thread(id, thread);
        self.vcpus.push(Handle { id, control, status, last_request, tail, counts });
        match physical_cpu {
            Some(cpu) => self.move_vcpu(id.0 as usize, cpu),
            None => Ok(()),
        }
    }

    /// The next request finds a thread that has ended.
    fn send_all(&self, control: impl Fn() -> Control) {
        for vcpu in &self.vcpus {
            let _ = vcpu.status.send(&vcpu.control, control());
        }
    }

    /// Its number of vCPUs.
    pub fn vcpus(&self) -> usize {
        self.vcpus.len()
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
        self.vcpus[vcpu].status.exits.load(Ordering::Relaxed)
    }

    /// What KVM counts of a vCPU, if it does: exits of all kinds, also those that it
    /// handles itself.
    pub fn counts(&self, vcpu: usize) -> Option<Counts> {
        self.vcpus[vcpu].counts.as_ref().and_then(kvm::read_counts)
    }

    /// The output of the serial port since the last call.
    pub fn serial(&self) -> Vec<u8> {
        self.shared.lock().devices.take_serial_output()
    }

    /// How a vCPU failed, if it did: a Linux that reboots ends by a triple fault.
    pub fn guest_fault(&self) -> Option<GuestFault> {
        self.vcpus.iter().find_map(|vcpu| vcpu.status.guest_fault())
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
        for vcpu in &self.vcpus {
            let _ = vcpu.status.send(&vcpu.control, Control::Stop);
        }
        for vcpu in &self.vcpus {
            self.shared.barrier.join(vcpu.id);
        }
        // The last thread that uses the shared state ends before it is freed.
        self.alarm = None;
        self.network = None;
    }
}
