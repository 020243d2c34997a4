//! How long it takes from a new Debian and a package to the doctor's first line.

use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::release::checked::missing;
use crate::release::{Made, PROGRAMS, Release, output};

const BAR_S: f64 = 5.0;
const TIMES: usize = 5;

/// Among mounts of its own, installs the package and asks the doctor.
const TRY: &str = "mount --make-rprivate / && mount -t proc none \"$1/proc\" && \
    mount --rbind /sys \"$1/sys\" && mount --rbind /dev \"$1/dev\" && \
    chroot \"$1\" dpkg -i /package.deb >/dev/null && exec chroot \"$1\" parachron doctor";

pub(super) fn from_deb(release: &Release<'_>, made: &Made) -> io::Result<String> {
    if let Some(skipped) = missing("mmdebstrap", "mmdebstrap") {
        return Ok(skipped);
    }
    let root = release.work.join("debian");
    let mut make = Command::new("mmdebstrap");
    make.args(["--quiet", "--variant=essential", "--aptopt=APT::Sandbox::User \"root\""]);
    if let Err(error) = output(make.arg("bookworm").arg(&root)) {
        return Ok(format!("skipped: no Debian to install on: {error}"));
    }
    let name = PROGRAMS[0];
    let file = format!("{name}_{}_{}.deb", release.version, made.arch.debian);
    fs::copy(release.out.join(file), root.join("package.deb"))?;
    let mut took_s = Vec::new();
    for _ in 0..TIMES {
        let start = Instant::now();
        let mut child = Command::new("unshare")
            .args(["--mount", "sh", "-c", TRY, "sh"])
            .arg(&root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut said =
            BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?).lines();
        let first = said.next().transpose()?.unwrap_or_default();
        took_s.push(start.elapsed().as_secs_f64());
        said.try_for_each(|line| line.map(drop))?;
        if !child.wait()?.success() || !first.starts_with("The clock ") {
            return Err(io::Error::other(format!(
                "installed on a new Debian, doctor says {first:?}"
            )));
        }
        output(Command::new("chroot").arg(&root).args(["dpkg", "--purge", name]))?;
    }
    took_s.sort_by(f64::total_cmp);
    let [low, median, high] = [took_s[0], took_s[TIMES / 2], took_s[TIMES - 1]];
    let figure = format!(
        "new Debian to doctor's first line, from .deb: {median:.2} s ({low:.2} to {high:.2} s, \
         {TIMES} times; bar {BAR_S} s)\n"
    );
    if median > BAR_S { Err(io::Error::other(figure)) } else { Ok(figure) }
}
