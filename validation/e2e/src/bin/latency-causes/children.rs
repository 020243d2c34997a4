//! This program again, as a process that measures, or as the other end of pipes.

use std::fs;
use std::io::{BufRead as _, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use inspect::latency::measure;
use instruments::latency::{FigureKind, Latency};

use crate::plan::{ECHO, plan};

const MEASURES: &str = "child";

/// What a child does beside measuring gaps.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wish {
    /// The control group that it joins.
    pub(crate) group: String,
    /// Its niceness.
    pub(crate) nice: i32,
    pub(crate) length: Duration,
}

/// Runs what a child does; whether these are a child's arguments.
pub(crate) fn run(arguments: &[String]) -> bool {
    match arguments {
        [word, group, nice, length_ms] if word == MEASURES => {
            let (nice, length_ms) = (nice.parse(), length_ms.parse());
            let length = Duration::from_millis(length_ms.expect("a parent of this program"));
            let nice = nice.expect("a parent of this program");
            measures(&Wish { group: group.clone(), nice, length });
        }
        [word] if word == ECHO => {
            let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
            let _ = inspect::pipe_pair::echo(input, Unbuffered(output));
        }
        _ => return false,
    }
    true
}

struct Unbuffered<W>(W);

impl<W: Write> Write for Unbuffered<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.0.write(bytes)?;
        self.0.flush()?;
        Ok(written)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

fn measures(wish: &Wish) {
    if !wish.group.is_empty() {
        let joined =
            fs::write(format!("{}/cgroup.procs", wish.group), std::process::id().to_string());
        joined.expect("the control group takes this process");
    }
    if wish.nice != 0 {
        rustix::process::nice(wish.nice).expect("a process may always be nicer");
    }
    println!("measuring");
    let mut all = plan(&[FigureKind::Gap]);
    all.duration = wish.length;
    let found = measure(&all, &|_| ());
    println!("{}", serde_json::to_string(&found).expect("figures are JSON"));
}

/// A child that measures by now.
pub(crate) struct Measuring {
    pub(crate) process: Child,
    output: BufReader<ChildStdout>,
}

impl Measuring {
    pub(crate) fn start(wish: &Wish) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("a child: {error}");
        let mut command = Command::new("/proc/self/exe");
        let (nice, length_ms) = (wish.nice.to_string(), wish.length.as_millis().to_string());
        command.args([MEASURES, &wish.group, &nice, &length_ms]).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(failed)?;
        let output = process.stdout.take().ok_or("a child without output")?;
        let mut output = BufReader::new(output);
        output.read_line(&mut String::new()).map_err(failed)?;
        Ok(Self { process, output })
    }

    pub(crate) fn finish(mut self) -> Result<Latency, String> {
        let found = serde_json::from_reader(&mut self.output);
        self.process.wait().map_err(|error| format!("a child: {error}"))?;
        found.map_err(|error| format!("a child's figures: {error}"))
    }
}
