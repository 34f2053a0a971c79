//! The programs of the cluster, built from pinned Go modules into the cache.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    cache,
    command::run,
    error::{Error, Result, make_dir, write},
    prerequisites::{self, Need},
    progress::Step,
    release::Release,
};

const ETCD: Module = Module {
    name: "etcd",
    go_mod: include_str!("../cluster/etcd/go.mod"),
    go_sum: include_str!("../cluster/etcd/go.sum"),
};
const KWOK: Module = Module {
    name: "kwok",
    go_mod: include_str!("../cluster/kwok/go.mod"),
    go_sum: include_str!("../cluster/kwok/go.sum"),
};
const KUBERNETES: &[&str] = &[
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "kubectl",
];
/// The stages that kwok plays: nodes become ready at once and stay so by leases; pods start at
/// once, pods of Jobs complete, deleted pods go.
const STAGES: &[&str] = &[
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
];

struct Module {
    name: &'static str,
    go_mod: &'static str,
    go_sum: &'static str,
}

/// Where the built programs are.
#[derive(Debug, Clone)]
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    #[cfg(test)]
    pub(crate) fn at(folder: &str) -> Self {
        Self { folder: folder.into() }
    }

    /// The path of one program, as in `kubectl`, `kube-apiserver`, `etcd`, `kwok`, `pause`.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// The stage files of kwok.
    #[must_use]
    pub fn stages(&self) -> Vec<PathBuf> {
        STAGES.iter().map(|stage| self.folder.join("stages").join(stage)).collect()
    }
}

/// Builds what is missing: minutes the first time, nothing later.
///
/// # Errors
/// If the machine lacks something, or the build fails.
pub fn build(release: &Release) -> Result<Programs> {
    let kubernetes = Module { name: "kubernetes", go_mod: release.go_mod, go_sum: release.go_sum };
    let modules = [&kubernetes, &ETCD, &KWOK];
    let stages = STAGES.join("\n");
    let mut inputs: Vec<(&str, &[u8])> = vec![("stages", stages.as_bytes())];
    for module in modules {
        inputs.push((module.name, module.go_mod.as_bytes()));
        inputs.push((module.name, module.go_sum.as_bytes()));
    }
    let folder = cache::entry("cluster", &cache::key(&inputs), |work| {
        prerequisites::ensure(Need::Cluster)?;
        eprintln!(
            "building the programs of the cluster (Kubernetes {}); the first time takes about ten minutes on two cores",
            release.version
        );
        let flags = link_flags(release);
        go_build(work, &ETCD, "go.etcd.io/etcd/server/v3", "etcd", "-s -w")?;
        for program in KUBERNETES {
            let package = format!("k8s.io/kubernetes/cmd/{program}");
            go_build(work, &kubernetes, &package, program, &flags)?;
        }
        go_build(work, &KWOK, "sigs.k8s.io/kwok/cmd/kwok", "kwok", "-s -w")?;
        copy_stages(work)?;
        build_pause(work, &kubernetes)?;
        remove_sources(work, &modules)
    })?;
    Ok(Programs { folder })
}

/// The linker's flags that tell the programs their version.
fn link_flags(release: &Release) -> String {
    let (major, minor) = release.major_minor();
    let version = release.version;
    let base = "k8s.io/component-base/version";
    format!(
        "-s -w -X {base}.gitVersion=v{version} -X {base}.gitMajor={major} -X {base}.gitMinor={minor} \
         -X k8s.io/client-go/pkg/version.gitVersion=v{version}"
    )
}

fn go_build(
    work: &Path,
    module: &Module,
    package: &str,
    program: &str,
    ldflags: &str,
) -> Result<()> {
    let step = Step::begin(format!("building {program}"), true);
    let bin = work.join("bin");
    make_dir(&bin)?;
    let mut go = go(work, module)?;
    go.args(["build", "-trimpath", "-ldflags", ldflags, "-o"]).arg(bin.join(program)).arg(package);
    run(&mut go)?;
    step.done();
    Ok(())
}

/// A `go` command in the folder of a module, which is written there if it is not.
fn go(work: &Path, module: &Module) -> Result<Command> {
    let source = work.join("src").join(module.name);
    if !source.exists() {
        write(&source.join("go.mod"), module.go_mod)?;
        write(&source.join("go.sum"), module.go_sum)?;
    }
    let mut command = Command::new("go");
    // Flags of the user's shell must not change what is built.
    command.current_dir(source).env("GOTOOLCHAIN", "local").env("GOFLAGS", "").env("GOWORK", "off");
    Ok(command)
}

fn module_folder(work: &Path, module: &Module, path: &str) -> Result<PathBuf> {
    let text = run(go(work, module)?.args(["list", "-m", "-f", "{{.Dir}}", path]))?;
    Ok(PathBuf::from(text.trim()))
}

fn copy_stages(work: &Path) -> Result<()> {
    let from = module_folder(work, &KWOK, "sigs.k8s.io/kwok")?.join("kustomize/stage");
    for stage in STAGES {
        let source = from.join(stage);
        let text = std::fs::read(&source)
            .map_err(Error::io(format!("read the stage {}", source.display())))?;
        write(&work.join("stages").join(stage), text)?;
    }
    Ok(())
}

/// Kubernetes' own pause program: reaps orphans, ends at once on SIGTERM. Static, so that its
/// image holds one file.
fn build_pause(work: &Path, kubernetes: &Module) -> Result<()> {
    let step = Step::begin("building pause", false);
    let source =
        module_folder(work, kubernetes, "k8s.io/kubernetes")?.join("build/pause/linux/pause.c");
    run(Command::new("cc")
        .args(["-Os", "-static", "-s", "-o"])
        .arg(work.join("bin/pause"))
        .arg(source))?;
    step.done();
    Ok(())
}

fn remove_sources(work: &Path, modules: &[&Module]) -> Result<()> {
    for module in modules {
        let source = work.join("src").join(module.name);
        std::fs::remove_dir_all(&source)
            .map_err(Error::io(format!("remove {}", source.display())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::V1_36;

    #[test]
    fn programs_are_told_their_version() {
        let flags = link_flags(&V1_36);
        for part in ["gitVersion=v1.36.3", "gitMajor=1", "gitMinor=36", "pkg/version.gitVersion"] {
            assert!(flags.contains(part), "{part} is not in {flags}");
        }
    }

    #[test]
    fn every_program_is_a_tool_of_the_module() {
        for program in KUBERNETES {
            let line = format!("k8s.io/kubernetes/cmd/{program}\n");
            assert!(V1_36.go_mod.contains(&line), "go.mod lacks {program}");
        }
    }
}
