//! The machine: vCPUs on their threads, over one board.

mod control;
mod questions;
mod saved;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use guest::layout::VCPUS_MAX;
use kvm_ioctls::{VcpuFd, VmFd};
use provider::{Event, Host, Reading, VcpuId};
use pvclock::Hertz;
use vmm_sys_util::signal::{Killable, SIGRTMIN, register_signal_handler};

use crate::board::{Board, Inner, OwnTime};
use crate::devices::{Devices, LocalTimer};
use crate::error::MachineError;
use crate::memory::GuestRam;
use crate::settings::{Backend, Settings};
use crate::vcpu::{Control, Status, Vcpu};
use crate::{host_clock, image, kvm};

pub use saved::Saved;

/// How long a thread that waits for another sleeps at a time.
const NAP: Duration = Duration::from_micros(50);

/// The signal that ends a KVM_RUN early.
fn kick_signal() -> libc::c_int {
    SIGRTMIN()
}

/// One vCPU as others see it.
struct Handle {
    thread: Option<JoinHandle<()>>,
    control: Sender<Control>,
    status: Arc<Status>,
    /// The number of the last request.
    asked: AtomicU64,
    /// Records taken from its ring.
    tail: AtomicU64,
}

/// What a vCPU's thread begins with.
struct Start {
    id: VcpuId,
    fd: VcpuFd,
    timer: LocalTimer,
    asked: u64,
    tail: u64,
}

/// A running machine. It ends when it is dropped: threads, memory and all.
pub struct Machine {
    vcpus: Vec<Handle>,
    // Before the memory on the board: fields are dropped in this order.
    vm: VmFd,
    board: Arc<Board>,
    settings: Settings,
    started: Instant,
}

extern "C" fn on_kick(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // Its coming is all that is wanted: KVM_RUN returns with EINTR.
}

impl Machine {
    /// Makes a machine, and starts the guest on all of its vCPUs.
    ///
    /// # Errors
    /// No KVM, or settings that make no machine.
    pub fn start(settings: &Settings) -> Result<Self, MachineError> {
        let started = Instant::now();
        if !(1..=VCPUS_MAX).contains(&settings.vcpus) {
            return Err(MachineError::Vcpus { asked: settings.vcpus, most: VCPUS_MAX });
        }
        let kvm = kvm::open()?;
        let ram = GuestRam::new(settings.memory)?;
        let entry = ram.load(image::GUEST)?;
        kvm::write_tables(&ram)?;
        let vm = kvm::create_vm(&kvm, &ram, &settings.backend)?;
        let now = host_clock::read();
        let host = match &settings.backend {
            Backend::Kernel | Backend::KernelHyperV => None,
            Backend::Own(settings) => Some(Host::new(*settings, now)?),
        };
        let leaves = kvm::leaves(&kvm, &settings.backend, host.as_ref())?;
        let inner = Inner {
            host,
            devices: Devices::new(&settings.devices),
            own_time: OwnTime::starting(now),
        };
        let mut machine = Self::around(vm, ram, inner, settings, started);
        for index in 0..settings.vcpus {
            let id = VcpuId(index as u32);
            let fd = kvm::create_vcpu(&kvm, &machine.vm, id, leaves.as_deref())?;
            kvm::set_entry(&fd, id, entry)?;
            let khz = fd.get_tsc_khz().map_err(MachineError::kvm("KVM_GET_TSC_KHZ"))?;
            let tsc = Hertz(u64::from(khz) * 1000);
            let timer = LocalTimer::new(id.0, settings.apic(), tsc);
            machine.add(Start { id, fd, timer, asked: 0, tail: 0 })?;
        }
        machine.send_all(|| Control::Resume);
        Ok(machine)
    }

    fn around(
        vm: VmFd,
        ram: GuestRam,
        inner: Inner,
        settings: &Settings,
        started: Instant,
    ) -> Self {
        let board = Arc::new(Board::new(ram, inner));
        Self { vcpus: Vec::new(), vm, board, settings: settings.clone(), started }
    }

    /// Starts a vCPU's thread, paused: the provider learns of all of them
    /// before the first one runs.
    fn add(&mut self, start: Start) -> Result<(), MachineError> {
        register_signal_handler(kick_signal(), on_kick)
            .map_err(|error| MachineError::Kvm { call: "sigaction", error })?;
        let Start { id, fd, timer, asked, tail } = start;
        let tsc_offset = kvm::tsc_offset(&fd)?;
        self.board.tell(Event::VcpuCreated { vcpu: id, tsc_offset });
        let affinity = &self.settings.affinity;
        let physical_cpu = (!affinity.is_empty()).then(|| affinity[id.0 as usize % affinity.len()]);
        let (control, receiver) = channel();
        let status = Arc::new(Status::default());
        let vcpu = Vcpu {
            id,
            fd,
            board: Arc::clone(&self.board),
            status: Arc::clone(&status),
            timer,
            tsc_offset,
            control: receiver,
            paused: true,
        };
        let thread = std::thread::Builder::new()
            .name(format!("vcpu {}", id.0))
            .spawn(move || vcpu.run())
            .map_err(MachineError::Thread)?;
        let (asked, tail) = (AtomicU64::new(asked), AtomicU64::new(tail));
        self.vcpus.push(Handle { thread: Some(thread), control, status, asked, tail });
        match physical_cpu {
            Some(cpu) => self.move_vcpu(id.0 as usize, cpu),
            None => Ok(()),
        }
    }

    /// A thread that is gone is found out by the next question.
    fn send_all(&self, control: impl Fn() -> Control) {
        for vcpu in &self.vcpus {
            let _ = vcpu.control.send(control());
        }
    }

    /// How many vCPUs it has.
    pub fn vcpus(&self) -> usize {
        self.vcpus.len()
    }

    /// Guest memory.
    pub fn ram(&self) -> &GuestRam {
        &self.board.ram
    }

    /// KVM's VM: for KVM_GET_CLOCK and its like.
    pub fn vm(&self) -> &VmFd {
        &self.vm
    }

    /// When it was made.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Exits of a vCPU to this process so far.
    ///
    /// # Panics
    /// There is no such vCPU.
    pub fn exits(&self, vcpu: usize) -> u64 {
        self.vcpus[vcpu].status.exits.load(Ordering::Relaxed)
    }

    /// What the guest wrote to its serial port since this was asked last.
    pub fn serial(&self) -> Vec<u8> {
        self.board.lock().devices.take_serial_output()
    }

    /// Our provider, if the clock is ours, with the host's clocks read under
    /// its lock.
    pub fn with_host<R>(
        &self,
        action: impl FnOnce(&mut Host, Reading, &GuestRam) -> R,
    ) -> Option<R> {
        self.board.with_host(action)
    }
}

impl Handle {
    fn kick(&self) {
        if let Some(thread) = &self.thread {
            // A thread that has ended needs no kick.
            let _ = thread.kill(kick_signal());
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for vcpu in &self.vcpus {
            let _ = vcpu.control.send(Control::Stop);
        }
        for vcpu in &mut self.vcpus {
            while vcpu.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
                vcpu.kick();
                std::thread::sleep(NAP);
            }
            if let Some(thread) = vcpu.thread.take() {
                // One that panicked has said so.
                let _ = thread.join();
            }
        }
    }
}
