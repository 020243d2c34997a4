//! The machine: vCPUs on their threads, and questions to the guest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use guest::discovery::Found;
use guest::layout::VCPUS_MAX;
use guest::protocol::{Flooded, RECORDS, Words};
use guest::request::{Outcome, Request};
use kvm_ioctls::{VcpuFd, VmFd};
use provider::{Event, Host, Reading, VcpuId};
use vmm_sys_util::signal::{Killable, register_signal_handler};

use crate::board::{Board, Inner, OwnTime};
use crate::devices::{Devices, LocalTimer};
use crate::error::MachineError;
use crate::memory::GuestRam;
use crate::settings::{Backend, Settings};
use crate::vcpu::{Control, Status, Vcpu};
use crate::{host_clock, image, kvm};

/// A question is polled for this long before the waiting thread sleeps.
const SPIN: Duration = Duration::from_micros(300);
/// How long it sleeps then.
const NAP: Duration = Duration::from_micros(50);
/// The real-time signal that ends a KVM_RUN early.
fn kick_signal() -> i32 {
    vmm_sys_util::signal::SIGRTMIN()
}
/// A kick may come just before KVM_RUN and be lost: it is sent again.
const KICK_AGAIN: Duration = Duration::from_millis(1);

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
        register_signal_handler(kick_signal(), on_kick)
            .map_err(|error| MachineError::Kvm { call: "sigaction", error })?;
        let kvm = kvm::open()?;
        let ram = GuestRam::new(settings.memory)?;
        let entry = ram.load(image::GUEST)?;
        kvm::write_tables(&ram)?;
        let vm = kvm::create_vm(&kvm, &ram, &settings.backend)?;
        let now = host_clock::read();
        let host = match &settings.backend {
            Backend::Kernel => None,
            Backend::Own(settings) => Some(Host::new(*settings, now)?),
        };
        let leaves: Option<Vec<_>> = host.as_ref().map(|host| host.cpuid_leaves().collect());
        let inner = Inner {
            host,
            devices: Devices::new(&settings.devices),
            own_time: OwnTime::starting(now),
        };
        let board = Arc::new(Board::new(ram, inner));
        let mut machine =
            Self { vcpus: Vec::new(), board, vm, settings: settings.clone(), started };
        for index in 0..settings.vcpus {
            let id = VcpuId(index as u32);
            let fd = kvm::create_vcpu(&kvm, &machine.vm, id, leaves.as_deref(), entry)?;
            machine.add(id, fd)?;
        }
        for vcpu in &machine.vcpus {
            // A thread that is gone is found out by the first question.
            let _ = vcpu.control.send(Control::Resume);
        }
        Ok(machine)
    }

    /// Starts a vCPU's thread, paused: the provider learns of all of them
    /// before the first one runs.
    fn add(&mut self, id: VcpuId, fd: VcpuFd) -> Result<(), MachineError> {
        let tsc_offset = kvm::tsc_offset(&fd)?;
        let tsc_khz = fd.get_tsc_khz().map_err(MachineError::kvm("KVM_GET_TSC_KHZ"))?;
        let tsc = pvclock::Hertz(u64::from(tsc_khz) * 1000);
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
            timer: LocalTimer::new(id.0, self.settings.apic(), tsc),
            tsc_offset,
            physical_cpu: None,
            control: receiver,
            paused: true,
        };
        let thread = std::thread::Builder::new()
            .name(format!("vcpu {}", id.0))
            .spawn(move || vcpu.run())
            .map_err(MachineError::Thread)?;
        let asked = AtomicU64::new(0);
        let tail = AtomicU64::new(0);
        self.vcpus.push(Handle { thread: Some(thread), control, status, asked, tail });
        match physical_cpu {
            Some(cpu) => self.move_vcpu(id.0 as usize, cpu),
            None => Ok(()),
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

    /// What a vCPU found at its start.
    ///
    /// # Errors
    /// As [`Machine::ask`].
    pub fn discover(&self, vcpu: usize) -> Result<Found, MachineError> {
        let words = self.ask(vcpu, Request::Discover)?;
        Found::decode(&words).ok_or_else(|| MachineError::Nonsense {
            vcpu,
            asked: format!("{:?}", Request::Discover),
            code: Outcome::Done.number(),
            words,
        })
    }

    /// Asks the guest, and waits for the answer.
    ///
    /// # Errors
    /// It died, does not answer in time, declines, or talks nonsense.
    ///
    /// # Panics
    /// There is no such vCPU.
    pub fn ask(&self, vcpu: usize, request: Request) -> Result<Words, MachineError> {
        self.post(vcpu, request);
        self.answer(vcpu, request)
    }

    /// Asks the guest, and does not wait; one question at a time for each
    /// vCPU.
    ///
    /// # Panics
    /// There is no such vCPU.
    pub fn post(&self, vcpu: usize, request: Request) {
        let handle = &self.vcpus[vcpu];
        let number = handle.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let (code, words) = request.encode();
        self.board.shared().vcpu(vcpu).request.post(number, code, &words);
        std::sync::atomic::fence(Ordering::SeqCst);
        if handle.status.idle.swap(false, Ordering::SeqCst) {
            let _ = handle.control.send(Control::Wake);
        }
    }

    /// Waits for the answer to the question that was posted last.
    ///
    /// # Errors
    /// As [`Machine::ask`].
    ///
    /// # Panics
    /// There is no such vCPU.
    pub fn answer(&self, vcpu: usize, request: Request) -> Result<Words, MachineError> {
        let handle = &self.vcpus[vcpu];
        let reply = &self.board.shared().vcpu(vcpu).reply;
        let number = handle.asked.load(Ordering::Relaxed);
        let asked_at = Instant::now();
        while reply.number() != number {
            if let Some(death) = handle.status.death() {
                return Err(MachineError::Died { vcpu, death });
            }
            let waited = asked_at.elapsed();
            if waited > self.settings.patience {
                return Err(MachineError::TimedOut { vcpu, limit: self.settings.patience });
            }
            if waited < SPIN {
                std::hint::spin_loop();
            } else {
                std::thread::sleep(NAP);
            }
        }
        let (code, words) = reply.read();
        let asked = || format!("{request:?}");
        match Outcome::from_number(code) {
            Some(Outcome::Done) => Ok(words),
            Some(outcome) => Err(MachineError::Declined { vcpu, asked: asked(), outcome }),
            None => Err(MachineError::Nonsense { vcpu, asked: asked(), code, words }),
        }
    }

    /// Records that a vCPU has put into its ring, the oldest first.
    ///
    /// # Errors
    /// [`MachineError::Flooded`].
    ///
    /// # Panics
    /// There is no such vCPU.
    pub fn records(&self, vcpu: usize) -> Result<Vec<Words>, MachineError> {
        let handle = &self.vcpus[vcpu];
        let ring = &self.board.shared().vcpu(vcpu).ring;
        let mut tail = handle.tail.load(Ordering::Relaxed);
        let mut records = Vec::new();
        let taken = loop {
            match ring.pop(&mut tail) {
                Ok(Some((_, words))) => records.push(words),
                Ok(None) => break Ok(records),
                Err(Flooded { head, tail }) => {
                    break Err(MachineError::Flooded { vcpu, head, tail, room: RECORDS });
                }
            }
        };
        handle.tail.store(tail, Ordering::Relaxed);
        taken
    }

    /// Has a vCPU's thread run `action` between two entries.
    ///
    /// # Errors
    /// Its thread is gone.
    ///
    /// # Panics
    /// There is no such vCPU.
    pub(crate) fn on_vcpu<R: Send + 'static>(
        &self,
        vcpu: usize,
        action: impl FnOnce(&mut Vcpu) -> R + Send + 'static,
    ) -> Result<R, MachineError> {
        let handle = &self.vcpus[vcpu];
        let (sender, receiver) = channel();
        let gone = || MachineError::Thread(std::io::Error::other("it has ended"));
        let action = Box::new(move |vcpu: &mut Vcpu| {
            // Who asked may have given up.
            let _ = sender.send(action(vcpu));
        });
        handle.control.send(Control::Do(action)).map_err(|_| gone())?;
        loop {
            handle.kick();
            match receiver.recv_timeout(KICK_AGAIN) {
                Ok(result) => return Ok(result),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return Err(gone()),
            }
        }
    }

    /// Calls KVM on a vCPU, on its thread.
    ///
    /// # Errors
    /// Its thread is gone.
    ///
    /// # Panics
    /// There is no such vCPU.
    pub fn call_vcpu<R: Send + 'static>(
        &self,
        vcpu: usize,
        action: impl FnOnce(&mut VcpuFd) -> R + Send + 'static,
    ) -> Result<R, MachineError> {
        self.on_vcpu(vcpu, |vcpu| action(&mut vcpu.fd))
    }

    /// Moves a vCPU to a physical CPU, and keeps it there.
    ///
    /// # Errors
    /// The kernel does not bind it, or the thread is gone.
    ///
    /// # Panics
    /// There is no such vCPU.
    pub fn move_vcpu(&self, vcpu: usize, cpu: u32) -> Result<(), MachineError> {
        self.on_vcpu(vcpu, move |vcpu| {
            let pinned = platform::cpus::pin(cpu)
                .map_err(|error| MachineError::Thread(std::io::Error::other(error)))?;
            // The binding is the thread's for the rest of its life.
            std::mem::forget(pinned);
            vcpu.physical_cpu = Some(cpu);
            vcpu.board.tell(Event::VcpuMoved { vcpu: vcpu.id, physical_cpu: cpu });
            Ok(())
        })?
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
