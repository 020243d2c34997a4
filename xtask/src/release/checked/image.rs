//! The image by OCI's own tool (the schemas of the specification, sums and sizes), and by
//! umoci, which finds each processor's by its name and unpacks it.

use std::fs;
use std::io;
use std::process::Command;

use super::missing;
use crate::release::{Made, PROGRAMS, Release, image, output};

pub(super) fn check(release: &Release<'_>, made: &[Made]) -> io::Result<String> {
    let layout = release.work.join("image");
    fs::create_dir_all(&layout)?;
    output(Command::new("tar").arg("-C").arg(&layout).arg("-xf").arg(image::file(release)))?;
    let mut said = String::new();
    match missing("oci-image-tool", "oci-image-tool") {
        Some(skipped) => said += &skipped,
        None => {
            let mut tool = Command::new("oci-image-tool");
            output(tool.args(["validate", "--type", "image"]).arg(&layout))?;
            said += "oci-image-tool: the image is valid\n";
        }
    }
    if let Some(skipped) = missing("umoci", "umoci") {
        return Ok(said + &skipped);
    }
    for made in made {
        let arch = made.arch.debian;
        let bundle = release.work.join(format!("image-{arch}"));
        let image = format!("{}:{}-{arch}", layout.display(), release.version);
        output(
            Command::new("umoci")
                .args(["unpack", "--rootless", "--image"])
                .args([&image])
                .arg(&bundle),
        )?;
        let unpacked = fs::read(bundle.join("rootfs/usr/bin").join(PROGRAMS[0]))?;
        if unpacked != fs::read(made.folder.join(PROGRAMS[0]))? {
            return Err(io::Error::other(format!("umoci unpacks another program for {arch}")));
        }
        said += &format!("umoci unpacks the image of {arch}\n");
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::Project;
    use crate::release::{ARCHS, stage::Package};

    /// Two processors' programs of a line each.
    fn made(folder: &std::path::Path) -> Vec<Made> {
        let empty = || Package { name: "", summary: "", description: "", files: Vec::new() };
        let made = |arch: &crate::release::Arch| {
            let folder = folder.join(arch.target);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(PROGRAMS[0]), arch.target).unwrap();
            Made { arch: *arch, folder, packages: [empty(), empty()] }
        };
        ARCHS.iter().map(made).collect()
    }

    #[test]
    fn each_name_in_an_image_is_of_one_and_its_version_of_all() {
        let top = std::env::temp_dir().join(format!("parachron-image-{}", std::process::id()));
        let [out, work] = ["out", "work"].map(|name| top.join(name));
        for folder in [&out, &work] {
            fs::create_dir_all(folder).unwrap();
        }
        let project = Project::here();
        let (version, epoch) = ("1.0".to_owned(), "1700000000".to_owned());
        let release = Release { project: &project, version, epoch, out, work };
        let made = made(&top);
        image::build(&release, &made).unwrap();
        println!("{}", check(&release, &made).unwrap());
        let index = fs::read(release.work.join("image/index.json")).unwrap();
        fs::remove_dir_all(&top).unwrap();
        let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
        let name = |entry: &serde_json::Value| {
            let name = &entry["annotations"]["org.opencontainers.image.ref.name"];
            name.as_str().unwrap().to_owned()
        };
        let names: Vec<String> = index["manifests"].as_array().unwrap().iter().map(name).collect();
        assert_eq!(names, ["1.0", "1.0-amd64", "1.0-arm64"]);
    }
}
