//! `parachron lab linux`: a stock kernel as the judge.

use std::path::PathBuf;
use std::time::Duration;

use host::ClockProvider;
use instruments::duration;
use lab::{Experiment, StockSettings};

use super::options::{LabPlan, RunOptions, providers};
use crate::error::CliError;

/// The kernel's file is any distribution's.
const AFTER: &str = "\
Boots the kernel once for each provider, and for KVM's own kvm-clock, on a machine \
without firmware. Its first program is this one, or that of --initrd, whose /init must \
be parachron; this one must be static (packages are).

  parachron lab linux --kernel /boot/vmlinuz-$(uname -r)

Exit code 1: the kernel did not boot, its time is not the host's, or it selected another \
clock source than its source code implies.";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Args {
    /// The kernel: a bzImage, or an uncompressed vmlinux
    #[arg(long, value_name = "FILE")]
    kernel: PathBuf,

    /// An initramfs whose /init is parachron [default: made of this program]
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,

    /// More parameters for the kernel
    #[arg(long, value_name = "WORDS", default_value = "", allow_hyphen_values = true)]
    append: String,

    /// Add a VMClock in ACPI that treats this machine's clock as correct
    #[arg(long)]
    vmclock: bool,

    /// Kernel module to load, such as ptp_vmclock.ko; repeatable, loaded in order
    #[arg(long, value_name = "FILE")]
    module: Vec<PathBuf>,

    /// Longest time for a boot and the checks in the guest
    #[arg(long, value_name = "TIME", default_value = "2min", value_parser = duration::parse)]
    limit: Duration,

    /// Number of the guest's vCPUs
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=4))]
    vcpus: u16,

    /// Also save each guest to a file, and restore it in other processes after this time
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    away: Option<Duration>,

    /// Have each guest boot the kernel again by kexec, and judge that boot
    #[arg(long, conflicts_with = "initrd")]
    kexec: bool,

    /// How long watch and the kernel's watchdog must report nothing; raise --limit by as much
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration::parse)]
    watch: Duration,

    /// Skip KVM's own kvm-clock
    #[arg(long)]
    no_kernel_clock: bool,

    /// Test only this provider of Parachron; repeatable [default: none, minimal, kvm, hyperv]
    #[arg(long, value_name = "NAME", value_parser = providers())]
    provider: Vec<ClockProvider>,

    #[command(flatten)]
    run: RunOptions,
}

impl Args {
    pub(super) fn plan(&self) -> Result<LabPlan, CliError> {
        std::fs::File::open(&self.kernel).map_err(|error| CliError::Failed {
            cause: format!("cannot read the kernel {}: {error}", self.kernel.display()),
            remedy: "pass --kernel with a bzImage that exists, such as /boot/vmlinuz-$(uname -r)"
                .into(),
        })?;
        let program = PathBuf::from("/proc/self/exe");
        let (initrd, modules) = (self.initrd.as_deref(), &self.module);
        let read = StockSettings::read(&self.kernel, initrd, &program, modules, self.kexec);
        let mut stock = read.map_err(|error| CliError::Failed {
            cause: error.to_string(),
            remedy:
                "pass --kernel with a bzImage; use a static parachron, as packages contain, or --initrd"
                    .into(),
        })?;
        stock.append.clone_from(&self.append);
        (stock.by_kernel, stock.limit) = (!self.no_kernel_clock, self.limit);
        stock.vmclock = self.vmclock;
        stock.away = self.away;
        // `watch` in the guest is told whole seconds.
        stock.watched = Duration::from_secs(self.watch.as_secs_f64().ceil() as u64);
        let mut plan = LabPlan::new(vec![Experiment::Linux], &self.run);
        let settings = &mut plan.session.settings;
        if !self.provider.is_empty() {
            settings.providers.clone_from(&self.provider);
        }
        (settings.vcpus, settings.stock) = (self.vcpus.into(), Some(stock));
        Ok(plan)
    }
}
