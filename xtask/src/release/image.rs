//! An OCI image layout of the static program, made without a daemon
//! (opencontainers/image-spec, image-layout.md). The version names the index of all
//! processors' images, from which each machine takes its own; version and processor name one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{Arch, Made, Release, output};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

pub(super) fn build(release: &Release<'_>, made: &[Made]) -> io::Result<()> {
    let layout = release.work.join("oci");
    fs::create_dir_all(layout.join("blobs/sha256"))?;
    let images = made.iter().map(|made| one(release, &layout, &made.arch, &made.folder));
    let images = images.collect::<io::Result<Vec<_>>>()?;
    let all = blob(&layout, INDEX, index(&images).to_string().as_bytes())?;
    let mut entries = vec![named(&all, &release.version)];
    for (image, made) in images.iter().zip(made) {
        entries.push(named(image, &format!("{}-{}", release.version, made.arch.debian)));
    }
    fs::write(layout.join("index.json"), index(&entries).to_string())?;
    fs::write(layout.join("oci-layout"), json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
    tar(release, &layout, &file(release))
}

/// The archive.
pub(super) fn file(release: &Release<'_>) -> PathBuf {
    release.out.join(format!("parachron-{}.oci.tar", release.version))
}

fn index(entries: &[Value]) -> Value {
    json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": entries })
}

/// A description by a name, which is one's alone: who is asked for it takes the first, or none.
fn named(described: &Value, name: &str) -> Value {
    let mut named = described.clone();
    named["annotations"] = json!({ "org.opencontainers.image.ref.name": name });
    named
}

/// The image of one processor: its descriptor in the index.
fn one(release: &Release<'_>, layout: &Path, arch: &Arch, programs: &Path) -> io::Result<Value> {
    let root = release.work.join("root");
    let folder = root.join("usr/bin");
    fs::create_dir_all(&folder)?;
    fs::copy(programs.join("parachron"), folder.join("parachron"))?;
    let file = release.work.join("layer.tar");
    tar(release, &root, &file)?;
    let layer = blob(layout, LAYER, &fs::read(&file)?)?;
    let created = output(Command::new("date").args([
        "--utc",
        "-d",
        &format!("@{}", release.epoch),
        "+%FT%TZ",
    ]))?;
    let config = json!({
        "created": created.trim(),
        "architecture": arch.debian,
        "os": "linux",
        "config": { "Entrypoint": ["/usr/bin/parachron"], "Cmd": ["doctor"] },
        "rootfs": { "type": "layers", "diff_ids": [layer["digest"]] },
    });
    let config = blob(layout, CONFIG, config.to_string().as_bytes())?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config,
        "layers": [layer],
    });
    let mut described = blob(layout, MANIFEST, manifest.to_string().as_bytes())?;
    described["platform"] = json!({ "architecture": arch.debian, "os": "linux" });
    Ok(described)
}

/// Stores bytes by their sum, and describes them.
fn blob(layout: &Path, kind: &str, bytes: &[u8]) -> io::Result<Value> {
    let file = layout.join("blobs/sha256/part");
    fs::write(&file, bytes)?;
    let sum = output(Command::new("sha256sum").arg(&file))?;
    let sum = sum.split_whitespace().next().unwrap_or_default().to_owned();
    fs::rename(&file, file.with_file_name(&sum))?;
    Ok(json!({ "mediaType": kind, "digest": format!("sha256:{sum}"), "size": bytes.len() }))
}

/// A folder as an archive that is the same each time.
fn tar(release: &Release<'_>, folder: &Path, file: &Path) -> io::Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=ustar"]);
    tar.arg(format!("--mtime=@{}", release.epoch));
    output(tar.arg("-C").arg(folder).arg("-cf").arg(file).arg(".")).map(drop)
}
