//! Boots a Linux kernel, pauses it, saves it to a file, restores it in new processes, one
//! by each policy, and asserts what the guest's clock did: by the times in its own log.
//!
//! `cargo run -p parachron-vmm --example linux_snapshot -- /boot/vmlinuz`

use std::error::Error;
use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};

use host::RestorePolicy;
use vmm::{ClockBackend, LinuxImage, Machine, SavedMachine, Settings};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Without a first program the kernel panics in the end: each of its functions is
/// logged, which leaves time to save it before.
const PARAMETERS: &str = "console=ttyS0 acpi=off reboot=t panic=-1 ignore_loglevel initcall_debug";
/// How long the guest is away, and what a restore and the next line may take, s.
const AWAY: Duration = Duration::from_secs(3);
const TAKES_S: f64 = 2.0;
/// When it is saved, by its own clock, s.
const SAVED_AT_S: f64 = 0.5;
const LIMIT: Duration = Duration::from_secs(120);

/// The times of the log's lines: `[    0.523419] calling …`.
fn times(log: &str) -> impl DoubleEndedIterator<Item = f64> {
    let times = log.lines().filter_map(|line| line.strip_prefix('[')?.split_once(']'));
    times.filter_map(|(time, _)| time.trim().parse().ok())
}

/// Waits for a line that the guest writes after `since`, and returns its time.
fn logged(machine: &Machine, log: &mut String, since: f64) -> Result<f64> {
    let started = Instant::now();
    loop {
        let fault = machine.guest_fault();
        log.push_str(&String::from_utf8_lossy(&machine.serial()));
        if let Some(time) = times(log).find(|time| *time > since) {
            return Ok(time);
        }
        if fault.is_some() || started.elapsed() > LIMIT {
            return Err(format!("nothing after {since} s, {fault:?}:\n{log}").into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns when the guest last wrote a line.
fn save(kernel: &str, file: &str) -> Result<f64> {
    let kernel = std::fs::read(kernel)?.into();
    let image = LinuxImage { kernel, initrd: None, command_line: PARAMETERS.to_owned() };
    let machine = Machine::start(&Settings::linux(ClockBackend::Kernel, image))?;
    let mut log = String::new();
    logged(&machine, &mut log, SAVED_AT_S)?;
    machine.pause()?;
    log.push_str(&String::from_utf8_lossy(&machine.serial()));
    machine.save()?.write_to(File::create(file)?)?;
    times(&log).next_back().ok_or_else(|| "no line".into())
}

fn restore(file: &str, policy: &str, last: f64) -> Result<()> {
    let policy =
        RestorePolicy::ALL.into_iter().find(|one| one.name() == policy).ok_or("a policy")?;
    let saved = SavedMachine::read_from(File::open(file)?)?;
    let (machine, clock) = Machine::restore(&saved, policy)?;
    let passed = logged(&machine, &mut String::new(), last)? - last;
    println!("{}: {passed:.6} s passed in the guest, {} by plan", policy.name(), clock.away);
    let least = if policy == RestorePolicy::Advance { AWAY.as_secs_f64() } else { 0.0 };
    assert!((least..least + TAKES_S).contains(&passed), "{passed}");
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[1..] {
        ["restore", file, policy, last] => restore(file, policy, last.parse()?),
        [kernel] => {
            let file = std::env::temp_dir().join(format!("linux-{}.saved", std::process::id()));
            let file = file.to_str().ok_or("a folder of temporary files in UTF-8")?;
            let last = save(kernel, file)?;
            println!("saved at {last:.6} s of its log");
            std::thread::sleep(AWAY);
            let mut all = true;
            for policy in [RestorePolicy::Freeze, RestorePolicy::Advance] {
                let mut new = Command::new("/proc/self/exe");
                new.args(["restore", file, policy.name(), &last.to_string()]);
                all &= new.status()?.success();
            }
            std::fs::remove_file(file)?;
            assert!(all, "restored by each policy");
            Ok(())
        }
        _ => Err("usage: linux_snapshot KERNEL".into()),
    }
}
