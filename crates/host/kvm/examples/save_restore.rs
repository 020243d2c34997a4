//! A VMM with one thread per vCPU saves the clocks of its VM, and restores them in another.

use std::error::Error;
use std::sync::mpsc::{Receiver, Sender, channel};

use kvm_ioctls::{Kvm, VcpuFd, VmFd};
use pvclock_host::{HostClocks, RestorePolicy, VcpuId};
use pvclock_kvm::{
    HostCapabilities, HostTsc, KvmClockState, KvmVcpu as _, RestoredClock, RestoredTsc, SavedTsc,
};

/// Messages to the VMM's vCPU threads; these three variants are new.
enum Message {
    SaveTsc(HostTsc, HostClocks, Sender<Result<SavedTsc, pvclock_kvm::Error>>),
    RestoreRate(SavedTsc, HostTsc, Sender<Result<(), pvclock_kvm::Error>>),
    RestoreTsc(SavedTsc, HostTsc, RestoredClock, Sender<Result<RestoredTsc, pvclock_kvm::Error>>),
}

/// On a vCPU's thread, while it does not run the guest.
fn handle(vcpu: &VcpuFd, id: VcpuId, messages: &Receiver<Message>) {
    for message in messages {
        let _ = match message {
            Message::SaveTsc(tsc, taken, reply) => {
                reply.send(SavedTsc::save(vcpu, tsc, taken)).is_ok()
            }
            Message::RestoreRate(saved, tsc, reply) => {
                reply.send(saved.restore_rate(vcpu, tsc)).is_ok()
            }
            Message::RestoreTsc(saved, tsc, clock, reply) => {
                let restored = saved.restore(vcpu, id, tsc, &clock);
                let restored = restored.and_then(|tsc| vcpu.announce_stop().map(|_| tsc));
                reply.send(restored).is_ok()
            }
        };
    }
}

/// All vCPUs are stopped. The clock first, then each TSC as of the same moment.
fn save(
    vm: &VmFd,
    host: &HostCapabilities,
    vcpus: &[Sender<Message>],
) -> Result<KvmClockState, Box<dyn Error>> {
    let clock = pvclock_kvm::save_clock(vm, host.tsc)?;
    let (taken, tsc) = (clock.taken, host.tsc);
    let tscs = ask(vcpus, |_, reply| Message::SaveTsc(tsc, taken, reply))?;
    Ok(KvmClockState::new(clock, host.clone(), tscs))
}

/// Memory, registers and MSRs are restored, and no vCPU has run since.
fn restore(
    vm: &VmFd,
    host: &HostCapabilities,
    vcpus: &[Sender<Message>],
    saved: &KvmClockState,
) -> Result<(), Box<dyn Error>> {
    saved.check(vm, vcpus.len(), host, RestorePolicy::Advance)?;
    let (tscs, tsc) = (&saved.tscs, host.tsc);
    ask(vcpus, |vcpu, reply| Message::RestoreRate(tscs[vcpu], tsc, reply))?;
    let clock = saved.restore_clock(vm, host, RestorePolicy::Advance)?;
    let restored =
        ask(vcpus, |vcpu, reply| Message::RestoreTsc(tscs[vcpu], tsc, clock.clone(), reply))?;
    println!("away {}; the guest's clock steps by {}", clock.plan.away, clock.step);
    // An error: destroy this VM, and restore on a host whose KVM sets TSC offsets.
    Ok(clock.check(&restored)?)
}

fn ask<T>(
    vcpus: &[Sender<Message>],
    message: impl Fn(usize, Sender<Result<T, pvclock_kvm::Error>>) -> Message,
) -> Result<Vec<T>, Box<dyn Error>> {
    let send = |(index, vcpu): (usize, &Sender<Message>)| {
        let (sender, reply) = channel();
        vcpu.send(message(index, sender)).map(|()| reply).map_err(|_| "a vCPU has ended")
    };
    let replies = vcpus.iter().enumerate().map(send).collect::<Result<Vec<_>, _>>()?;
    replies.iter().map(|reply| Ok(reply.recv()??)).collect()
}

/// A VM with two vCPUs and their threads.
type StartedVm = (VmFd, Vec<Sender<Message>>);

/// Its clocks, saved to a file, and half a second later restored in another from there.
pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let kvm = Kvm::new()?;
    let host = HostCapabilities::query(&kvm)?;
    let start = || -> Result<StartedVm, Box<dyn Error>> {
        let vm = kvm.create_vm()?;
        let vcpus = (0..2).map(|id| {
            let (vcpu, (sender, messages)) = (vm.create_vcpu(id.into())?, channel());
            std::thread::spawn(move || handle(&vcpu, VcpuId(id), &messages));
            Ok(sender)
        });
        let vcpus = vcpus.collect::<Result<Vec<_>, Box<dyn Error>>>()?;
        Ok((vm, vcpus))
    };
    let (vm, vcpus) = start()?;
    let file = serde_json::to_string(&save(&vm, &host, &vcpus)?)?;
    drop((vm, vcpus));
    std::thread::sleep(std::time::Duration::from_millis(500));
    let (vm, vcpus) = start()?;
    restore(&vm, &host, &vcpus, &serde_json::from_str(&file)?)
}
