//! The images of the lab, and loading images into the node.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    archive::{self, Image},
    command::{run, run_async},
    error::{Error, Result, make_dir},
    lab::Lab,
    layout::Layout,
    prerequisites::find,
    programs::Programs,
    python::PythonEnv,
    settings::PAUSE_IMAGE,
};

/// An image with busybox (`sh`, `sleep`, `nc` and more) and `curl`.
pub const TOOLS_IMAGE: &str = "sluice.local/tools:lab";
/// An image that runs the Python of the host, which comes in by mounts.
pub const PYTHON_IMAGE: &str = "sluice.local/python:lab";

/// The root certificates of Debian's package ca-certificates.
const ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";
const BUSYBOX: &str = "/bin/busybox";
// busybox's own wget crashes when it is static: it would load libraries to look up names.
const CURL: &str = "/usr/bin/curl";
const TOOLS: &[&str] = &[
    "sh", "ash", "cat", "cp", "date", "echo", "env", "false", "grep", "head", "id", "ls", "mkdir",
    "nc", "printf", "ps", "rm", "sed", "seq", "sleep", "sort", "tail", "test", "touch", "true",
    "wc",
];

/// The image of the sandbox process.
pub(crate) fn pause(programs: &Programs) -> Image {
    Image {
        name: PAUSE_IMAGE.to_owned(),
        files: vec![("/pause".into(), programs.path("pause"))],
        entrypoint: vec!["/pause".to_owned()],
        ..Image::default()
    }
}

/// The image of [`TOOLS_IMAGE`].
#[must_use]
pub fn tools() -> Image {
    Image {
        name: TOOLS_IMAGE.to_owned(),
        files: vec![("/bin/busybox".into(), BUSYBOX.into()), ("/bin/curl".into(), CURL.into())],
        links: TOOLS.iter().map(|tool| (Path::new("/bin").join(tool), "busybox".into())).collect(),
        entrypoint: vec!["/bin/sh".to_owned()],
        env: vec!["PATH=/bin".to_owned()],
        ..Image::default()
    }
}

/// An image for Python programs: it has the places for [`PythonEnv::mounts`] and starts the
/// environment's interpreter.
#[must_use]
pub fn python(env: &PythonEnv) -> Image {
    let python = env.python();
    Image {
        name: PYTHON_IMAGE.to_owned(),
        folders: env.host_paths(),
        entrypoint: vec![python.display().to_string()],
        env: vec![
            format!("PATH={}:/usr/bin", env.venv.join("bin").display()),
            "HOME=/tmp".to_owned(),
            // The packages are mounted read-only.
            "PYTHONDONTWRITEBYTECODE=1".to_owned(),
            "PYTHONUNBUFFERED=1".to_owned(),
        ],
        ..Image::default()
    }
}

/// An image of one program of the workspace, placed at `/<binary>` and started by default, with
/// the machine's root certificates: a program that speaks TLS to the world expects some.
#[must_use]
pub fn program(name: &str, binary: &Path) -> Image {
    let place = Path::new("/").join(binary.file_name().unwrap_or_default());
    Image {
        name: name.to_owned(),
        entrypoint: vec![place.display().to_string()],
        files: vec![(place, binary.to_owned()), (ROOTS.into(), ROOTS.into())],
        ..Image::default()
    }
}

/// Builds programs of the workspace and says where they are. `SLUICE_PROFILE` chooses the
/// cargo profile, `dev` if unset; `CARGO_TARGET_DIR` is followed.
///
/// # Errors
/// If cargo fails.
pub fn cargo_build(packages: &[&str]) -> Result<Vec<PathBuf>> {
    let profile = std::env::var("SLUICE_PROFILE").unwrap_or_else(|_| "dev".to_owned());
    let mut cargo = Command::new("cargo");
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args([
        "build",
        "--message-format=json-render-diagnostics",
        "--profile",
        &profile,
        // Features are then those of all other builds here: nothing is compiled twice.
        "--workspace",
    ]);
    for package in packages {
        cargo.args(["--bin", package]);
    }
    let messages = run(&mut cargo)?;
    packages
        .iter()
        .map(|&package| {
            executable(&messages, package).ok_or_else(|| {
                Error::Invalid(format!("cargo built no program {package}: it must be a binary of the package of that name"))
            })
        })
        .collect()
}

/// The executable of a binary in cargo's messages.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find_map(|message| {
            let of_name =
                message["target"]["name"] == name && message["target"]["kind"][0] == "bin";
            of_name.then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
        })
}

/// Reads `NAME:TAG --file /path/bin=/bin/name` of the command line.
///
/// # Errors
/// If the text is not `SOURCE=PLACE`.
pub fn parse_file(text: &str) -> std::result::Result<(PathBuf, PathBuf), String> {
    let (from, place) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is not of the form /path/of/file=/place/in/image"))?;
    Ok((PathBuf::from(place), PathBuf::from(from)))
}

impl Lab {
    /// Writes an image and loads it into the node. Use it with `imagePullPolicy: Never` or a tag
    /// other than `latest`.
    ///
    /// # Errors
    /// If a file is missing or containerd refuses the image.
    pub async fn load_image(&self, image: &Image) -> Result<()> {
        load(self.layout(), image).await
    }
}

pub(crate) async fn load(layout: &Layout, image: &Image) -> Result<()> {
    let name: String =
        image.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let file = layout.images().join(format!("{name}.tar"));
    make_dir(&layout.images())?;
    archive::save(image, &file)?;
    let mut ctr = Command::new(find("ctr").unwrap_or_else(|| PathBuf::from("ctr")));
    ctr.arg("--address").arg(layout.socket()).args(["--namespace", "k8s.io", "images", "import"]);
    // Without unpacking here the first pod would do it.
    ctr.args(["--snapshotter", snapshotter(layout)]).arg(&file);
    run_async(ctr).await?;
    std::fs::remove_file(&file).map_err(Error::io(format!("remove {}", file.display())))
}

fn snapshotter(layout: &Layout) -> &'static str {
    if crate::host::takes_overlay(layout.root()) { "overlayfs" } else { "native" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_in_cargos_messages() {
        let messages = r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"app"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"app"},"executable":"/t/debug/app"}
not json"#;
        assert_eq!(executable(messages, "app"), Some("/t/debug/app".into()));
        assert_eq!(executable(messages, "other"), None);
    }

    #[test]
    fn files_of_the_command_line_are_read() {
        assert_eq!(parse_file("/a/b=/bin/b"), Ok(("/bin/b".into(), "/a/b".into())));
        assert!(parse_file("/a/b").is_err());
    }
}
