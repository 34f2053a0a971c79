//! What the machine must have, checked before anything else, and all of it at once.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    command::run,
    error::{Error, Result},
    progress::Step,
};

/// A program and the Debian package that brings it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tool {
    /// A name to look up in PATH, or a path.
    pub(crate) program: &'static str,
    /// The Debian package.
    pub(crate) package: &'static str,
}

/// What the cluster needs from the distribution.
pub(crate) const TOOLS: &[Tool] = &[
    Tool { program: "containerd", package: "containerd" },
    Tool { program: "ctr", package: "containerd" },
    Tool { program: "containerd-shim-runc-v2", package: "containerd" },
    Tool { program: "runc", package: "runc" },
    Tool { program: "/usr/lib/cni/bridge", package: "containernetworking-plugins" },
    Tool { program: "/etc/ssl/certs/ca-certificates.crt", package: "ca-certificates" },
    Tool { program: "nft", package: "nftables" },
    Tool { program: "iptables", package: "iptables" },
    Tool { program: "conntrack", package: "conntrack" },
    Tool { program: "ip", package: "iproute2" },
    Tool { program: "mount", package: "mount" },
    Tool { program: "setsid", package: "util-linux" },
    Tool { program: "cc", package: "gcc" },
    Tool { program: "ldd", package: "libc-bin" },
    Tool { program: "/bin/busybox", package: "busybox-static" },
    Tool { program: "/usr/bin/curl", package: "curl" },
];

const GO: (u32, u32) = (1, 26);
const RUST: (u32, u32) = (1, 95);
// amazon-braket-sdk 1.127 says so.
const PYTHON: (u32, u32) = (3, 11);

/// What was found on the machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// Is this Linux?
    pub(crate) linux: bool,
    /// Is this user root?
    pub(crate) root: bool,
    /// Version of Go, if it is there.
    pub(crate) go: Option<(u32, u32)>,
    /// Version of cargo, if it is there.
    pub(crate) rust: Option<(u32, u32)>,
    /// Version of Python, if it is there.
    pub(crate) python: Option<(u32, u32)>,
    /// Can Python make virtual environments with pip?
    pub(crate) venv: bool,
    /// The programs of [`TOOLS`] that are there.
    pub(crate) programs: BTreeSet<&'static str>,
}

/// What is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Missing {
    /// Debian packages that bring missing programs.
    pub(crate) packages: BTreeSet<&'static str>,
    /// What a person has to do, one sentence each.
    pub(crate) advice: Vec<String>,
}

/// Which part of the work is to be done; each needs something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Building and running the cluster.
    Cluster,
    /// Building the Python environment only.
    Python,
}

/// Compares what is there with what is needed.
#[must_use]
pub(crate) fn missing(facts: &Facts, need: Need) -> Missing {
    let mut missing = Missing::default();
    let advice = &mut missing.advice;
    if need == Need::Python {
        python(facts, advice);
        return missing;
    }
    if !facts.linux {
        advice.push(
            "this is not Linux: the cluster runs real containers; use a Linux machine or VM".into(),
        );
    }
    if !facts.root {
        advice.push("you are not root: containers, mounts and networks need it; run it as root (`sudo -E`) or in a container with --privileged".into());
    }
    let mut version = |name: &str, found: Option<(u32, u32)>, wanted: (u32, u32), from: &str| {
        let (major, minor) = wanted;
        match found {
            None => advice.push(format!(
                "{name} is not in PATH: install {name} {major}.{minor} or newer from {from}"
            )),
            Some(found) if found < wanted => advice.push(format!(
                "{name} is {}.{}, too old: install {major}.{minor} or newer from {from}",
                found.0, found.1
            )),
            Some(_) => {}
        }
    };
    version("go", facts.go, GO, "https://go.dev/dl");
    version("cargo", facts.rust, RUST, "https://rustup.rs");
    for tool in TOOLS.iter().filter(|tool| !facts.programs.contains(tool.program)) {
        missing.packages.insert(tool.package);
    }
    missing
}

fn python(facts: &Facts, advice: &mut Vec<String>) {
    let (major, minor) = PYTHON;
    match facts.python {
        None => advice.push(format!(
            "python3 is not in PATH: install Python {major}.{minor} or newer (Debian: python3 python3-venv)"
        )),
        Some(found) if found < PYTHON => advice.push(format!(
            "python3 is {}.{}, too old: install {major}.{minor} or newer and put it first in PATH",
            found.0, found.1
        )),
        Some(_) if !facts.venv => advice.push(
            "python3 cannot make virtual environments: install the package python3-venv".into(),
        ),
        Some(_) => {}
    }
}

/// Everything that is missing in one text; nothing if nothing is.
#[must_use]
pub(crate) fn message(missing: &Missing) -> Option<String> {
    let mut lines = missing.advice.clone();
    if !missing.packages.is_empty() {
        let names: Vec<_> = missing.packages.iter().copied().collect();
        lines.push(format!(
            "programs are missing: run `apt-get install {}` (or your distribution's packages of these programs)",
            names.join(" ")
        ));
    }
    if lines.is_empty() {
        return None;
    }
    Some(format!("this machine lacks what the lab needs:\n  - {}", lines.join("\n  - ")))
}

/// Checks the machine; missing Debian packages are installed if that is possible.
///
/// # Errors
/// One message that names everything that is missing, and what to do.
pub(crate) fn ensure(need: Need) -> Result<()> {
    let mut facts = gather();
    let lacking = missing(&facts, need);
    if !lacking.packages.is_empty() && facts.root && find("apt-get").is_some() {
        let names: Vec<_> = lacking.packages.iter().copied().collect();
        let step = Step::begin(format!("installing Debian packages: {}", names.join(" ")), true);
        install(&names)?;
        step.done();
        facts = gather();
    }
    message(&missing(&facts, need)).map_or(Ok(()), |text| Err(Error::Missing(text)))
}

fn install(packages: &[&str]) -> Result<()> {
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-qq", "-o", "Acquire::Retries=3"]).args(args);
        run(command.env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["update"])?;
    let mut args = vec!["install", "-y", "--no-install-recommends"];
    args.extend(packages);
    apt(&args)?;
    Ok(())
}

fn gather() -> Facts {
    Facts {
        linux: cfg!(target_os = "linux"),
        root: rustix::process::geteuid().is_root(),
        go: version_of("go", &["env", "GOVERSION"]),
        rust: version_of("cargo", &["--version"]),
        python: version_of("python3", &["--version"]),
        venv: Command::new("python3")
            .args(["-c", "import venv, ensurepip"])
            .output()
            .is_ok_and(|output| output.status.success()),
        programs: TOOLS.iter().map(|t| t.program).filter(|p| find(p).is_some()).collect(),
    }
}

fn version_of(program: &str, args: &[&str]) -> Option<(u32, u32)> {
    let mut command = Command::new(program);
    // The toolchain that is there, not one that would be fetched.
    let text = run(command.args(args).env("GOTOOLCHAIN", "local")).ok()?;
    first_version(&text)
}

/// The first `N.M` in a text, as in `go1.26.8` or `Python 3.11.7`.
fn first_version(text: &str) -> Option<(u32, u32)> {
    let from = text.find(|c: char| c.is_ascii_digit())?;
    let mut numbers = text[from..].split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Where a program is: in PATH, or in the folders that PATH often lacks for root.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    if program.starts_with('/') {
        return Path::new(program).exists().then(|| PathBuf::from(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete() -> Facts {
        Facts {
            linux: true,
            root: true,
            go: Some((1, 26)),
            rust: Some((1, 95)),
            python: Some((3, 11)),
            venv: true,
            programs: TOOLS.iter().map(|tool| tool.program).collect(),
        }
    }

    #[test]
    fn nothing_is_said_when_nothing_is_missing() {
        assert_eq!(message(&missing(&complete(), Need::Cluster)), None);
        assert_eq!(message(&missing(&complete(), Need::Python)), None);
    }

    #[test]
    fn all_is_named_in_one_message() {
        let facts = Facts { go: Some((1, 21)), ..Facts::default() };
        let text = message(&missing(&facts, Need::Cluster)).expect("much is missing");
        for word in ["Linux", "root", "go is 1.21", "cargo", "containerd", "runc", "conntrack"] {
            assert!(text.contains(word), "{word} is not in:\n{text}");
        }
    }

    #[test]
    fn each_lack_is_seen() {
        let lacks: [(&str, Facts, Need); 5] = [
            ("go", Facts { go: None, ..complete() }, Need::Cluster),
            ("cargo", Facts { rust: Some((1, 80)), ..complete() }, Need::Cluster),
            ("root", Facts { root: false, ..complete() }, Need::Cluster),
            ("python3", Facts { python: Some((3, 9)), ..complete() }, Need::Python),
            ("python3-venv", Facts { venv: false, ..complete() }, Need::Python),
        ];
        for (word, facts, need) in lacks {
            let text = message(&missing(&facts, need)).expect(word);
            assert!(text.contains(word), "{word}: {text}");
        }
    }

    #[test]
    fn a_package_is_named_once() {
        let facts = Facts { programs: BTreeSet::from(["runc"]), ..complete() };
        let lacking = missing(&facts, Need::Cluster);
        assert!(lacking.packages.contains("containerd") && !lacking.packages.contains("runc"));
    }

    #[test]
    fn versions_are_read_from_any_spelling() {
        assert_eq!(first_version("go1.26.8"), Some((1, 26)));
        assert_eq!(first_version("cargo 1.95.0 (abc 2026-03-21)"), Some((1, 95)));
        assert_eq!(first_version("Python 3.11.7\n"), Some((3, 11)));
        assert_eq!(first_version("none"), None);
    }
}
