//! A distribution's kernel as a guest of Parachron's own virtual machine, on KVM's own clock and
//! on each of our providers. Three questions: does it boot, with the clock source that its source
//! code implies and the host's time; does a guest that was saved and restored keep its
//! clocks; does a second boot, by kexec, find its clocks again.
//!
//! This program is also the guest's first one (`inside`). It prints its checks as JSON, as a row of
//! the machines has them.

mod arrived;
mod boot;
mod expected;
mod host_line;
mod init;
mod inside;
mod judge;
mod kexec;
mod moved;
mod report;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use host::ClockProvider;
use serde::Serialize;

/// What the guest's first program is called with, and again by kexec.
const INSIDE: &str = "inside";
const KEXEC: &str = "kexec";
const AGAIN: &str = "again";

#[derive(Debug, Parser)]
struct Args {
    /// The kernel: a bzImage, or an uncompressed vmlinux
    #[arg(long)]
    kernel: PathBuf,
    /// An initramfs whose /init is this program; for --kexec with the files /kernel and /again
    #[arg(long)]
    initrd: PathBuf,
    /// More parameters for the kernel
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    append: String,
    #[arg(long, default_value_t = 1)]
    vcpus: usize,
    /// Also save each guest, and restore it after so many seconds
    #[arg(long)]
    away_s: Option<u64>,
    /// Have each guest boot the kernel again by kexec, and judge that boot
    #[arg(long)]
    kexec: bool,
    /// The longest time for a boot
    #[arg(long, default_value_t = 120)]
    limit_s: u64,
    /// Clock providers; `kernel` is KVM's own clock
    #[arg(long, value_parser = Provider::parse, value_delimiter = ',',
          default_value = "kernel,none,minimal,kvm,hyperv")]
    provider: Vec<Provider>,
}

/// Who makes the clock: KVM itself, or one of our providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Provider {
    Kernel,
    Own(ClockProvider),
}

impl Provider {
    fn parse(name: &str) -> Result<Self, String> {
        let own = ClockProvider::ALL.into_iter().find(|kind| kind.name() == name).map(Self::Own);
        let kernel = (name == "kernel").then_some(Self::Kernel);
        kernel.or(own).ok_or_else(|| format!("no provider {name}"))
    }

    fn label(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Own(kind) => kind.name(),
        }
    }

    fn is_kvm_clock(self) -> bool {
        matches!(self, Self::Kernel | Self::Own(ClockProvider::Kvm))
    }
}

/// A check of a row.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Check {
    what: String,
    found: String,
    passed: bool,
}

impl Check {
    fn new(what: impl Into<String>, found: impl Into<String>, passed: bool) -> Self {
        Self { what: what.into(), found: found.into(), passed }
    }

    fn prefix(self, title: &str) -> Self {
        Self { what: format!("{title}: {}", self.what), ..self }
    }
}

fn join(found: &[String]) -> String {
    if found.is_empty() { "nothing".to_owned() } else { found.join("; ") }
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [INSIDE, rest @ ..] = &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return inside::run(rest);
    }
    let args = Args::parse();
    let mut checks = Vec::new();
    for &provider in &args.provider {
        let booted = boot::boot(&args, provider);
        let of_boot = judge::judge(&args, provider, booted.as_ref().map_err(String::as_str));
        checks.extend(of_boot.into_iter().map(|check| check.prefix(provider.label())));
        if let (Some(away_s), Ok(boot)) = (args.away_s, booted) {
            checks.extend(moved::run(provider, boot.machine, Duration::from_secs(away_s)));
        }
    }
    let mut output = io::stdout().lock();
    serde_json::to_writer(&mut output, &checks)?;
    output.flush()
}
