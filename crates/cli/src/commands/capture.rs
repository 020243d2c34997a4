//! `parachron capture`: this machine's facts, in a folder to read elsewhere.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use facts::Unknown;
use inspect::tree::manifest::Manifest;
use inspect::tree::{Tree, WriteError};

use crate::error::CliError;
use crate::output::table::{Cell, Column, ReportTable};
use crate::output::{self, Format};

/// Save what `parachron doctor` reads, for a diagnosis elsewhere.
///
/// Send the folder to someone who can help: `parachron doctor --root DIR` gives the same
/// diagnosis there. The folder holds no names of hosts, people and programs, no serial numbers and
/// no addresses.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder to write, which must be new or empty; not needed with --dry-run
    #[arg(value_name = "DIR", required_unless_present = "dry_run")]
    folder: Option<PathBuf>,

    /// List what would be saved, and write nothing
    #[arg(long)]
    dry_run: bool,

    /// List every saved item
    #[arg(long, short)]
    verbose: bool,

    /// How to list the saved items; json prints the manifest
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let tree = Tree::live().recording();
    // It saves exactly what is read: there is no second list.
    inspect::read(&tree);
    let recording = tree.into_recording();
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let manifest = recording.manifest(env!("CARGO_PKG_VERSION"), now_s);

    let written = args.folder.as_deref().filter(|_| !args.dry_run);
    if let Some(folder) = written {
        recording.write(folder, &manifest).map_err(|error| failed(&error))?;
    }
    match args.format {
        Format::Json => output::json(&manifest)?,
        Format::Text => output::text(&for_people(&manifest, written, args.verbose))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The tree in a folder that `capture` wrote.
pub(super) fn captured(folder: &Path) -> Result<Tree, CliError> {
    Tree::captured(folder).map_err(|error| CliError::Failed {
        cause: error.to_string(),
        remedy: "name a folder that `parachron capture DIR` wrote, or omit --root".into(),
    })
}

fn for_people(manifest: &Manifest, written: Option<&Path>, verbose: bool) -> String {
    let mut text = answer(manifest, written);
    if written.is_some() && !verbose {
        return text;
    }
    let title = match written {
        Some(_) => "Saved",
        None => "Would be saved",
    };
    let columns = [Column::words("item"), Column::figures("bytes", ""), Column::words("part")];
    let mut taken = ReportTable::new(title, columns);
    for (path, file) in &manifest.taken {
        let kept = file.kept.as_deref().unwrap_or("all");
        let bytes = Cell::figure(file.bytes as f64, 0);
        taken.row([path.as_str().into(), bytes, kept.into()]);
    }
    for (path, names) in &manifest.listed {
        let names = match names.len() {
            0 => "names: none".to_owned(),
            _ => format!("names: {}", names.join(" ")),
        };
        taken.row([path.as_str().into(), Cell::none(), names.into()]);
    }

    let columns = [Column::words("item"), Column::words("reason")];
    let mut missing = ReportTable::new("Not saved", columns);
    for (path, why) in &manifest.not_taken {
        missing.row([path.as_str().into(), reason(path, why).into()]);
    }

    text.extend(["\n", &taken.text()]);
    if !missing.is_empty() {
        text.extend(["\n", &missing.text()]);
    }
    text
}

/// The reason, without the path in the row's first column.
fn reason(path: &str, why: &Unknown) -> String {
    match why {
        Unknown::NotThere { what } if what == path => "not there".to_owned(),
        Unknown::NeedsRoot { what } if what == path => "needs root".to_owned(),
        Unknown::Unreadable { what, error } if what == path => error.clone(),
        other => other.to_string(),
    }
}

fn answer(manifest: &Manifest, written: Option<&Path>) -> String {
    let for_root =
        manifest.not_taken.values().filter(|why| matches!(why, Unknown::NeedsRoot { .. })).count();
    let bytes: u64 = manifest.taken.values().map(|file| file.bytes).sum();
    let files = output::number_of(manifest.taken.len() as u64, "file");
    let mut text = match written {
        Some(folder) => {
            let folder = folder.display();
            format!(
                "{folder}: {files}, {bytes} bytes, and {}.\n\
                 Diagnose it anywhere: parachron doctor --root {folder}\n\
                 Add --verbose to list what was saved, and what was not.\n",
                inspect::tree::manifest::PATH
            )
        }
        None => format!("{files}, {bytes} bytes. Nothing was written.\n"),
    };
    if for_root > 0 {
        text.push_str(&format!("{for_root} more can be saved as root.\n"));
    }
    text
}

fn failed(error: &WriteError) -> CliError {
    let remedy = match error {
        WriteError::NotEmpty { .. } | WriteError::NoName { .. } => {
            "run `parachron capture DIR` with a folder that does not exist yet".to_owned()
        }
        WriteError::Io { path, error } => match (error.kind(), path.parent()) {
            (ErrorKind::NotFound, Some(parent)) if !parent.exists() => {
                format!("run `mkdir {}` first", parent.display())
            }
            (ErrorKind::NotADirectory, _) => {
                "name a DIR below a folder, not below a file".to_owned()
            }
            (ErrorKind::PermissionDenied, _) => "name a DIR that you may write to".to_owned(),
            _ => "name a DIR on another file system; the unfinished one was removed".to_owned(),
        },
    };
    CliError::Failed { cause: error.to_string(), remedy }
}
