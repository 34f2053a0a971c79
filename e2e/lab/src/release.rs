//! What differs between versions of Kubernetes, in one table.

/// One version of Kubernetes that the lab can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The version, without the `v`.
    pub version: &'static str,
    /// go.mod of the module that pins it.
    pub go_mod: &'static str,
    /// go.sum of that module.
    pub go_sum: &'static str,
    /// Feature gates that API server and controller manager are given.
    pub gates: &'static [&'static str],
    /// Feature gates that the scheduler is given on top.
    pub scheduler_gates: &'static [&'static str],
    /// `--runtime-config` of the API server.
    pub runtime_config: &'static str,
}

/// Kubernetes 1.36: gangs are alpha, with a gate of their own in the scheduler.
pub const V1_36: Release = Release {
    version: "1.36.3",
    go_mod: include_str!("../cluster/kubernetes/go.mod"),
    go_sum: include_str!("../cluster/kubernetes/go.sum"),
    gates: &["GenericWorkload"],
    scheduler_gates: &["GangScheduling"],
    runtime_config: "scheduling.k8s.io/v1alpha2=true",
};

/// All of them, the default first.
pub const ALL: &[&Release] = &[&V1_36];

impl Release {
    /// The release whose version begins with `text`, as in `1.36`.
    #[must_use]
    pub fn of(text: &str) -> Option<&'static Self> {
        let text = text.trim_start_matches('v');
        ALL.iter().copied().find(|release| {
            release.version == text || release.version.starts_with(&format!("{text}."))
        })
    }

    /// Major and minor number, as in `("1", "36")`.
    #[must_use]
    pub fn major_minor(&self) -> (&'static str, &'static str) {
        let mut parts = self.version.split('.');
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_by_their_beginning() {
        assert_eq!(Release::of("1.36"), Some(&V1_36));
        assert_eq!(Release::of("v1.36.3"), Some(&V1_36));
        assert_eq!(Release::of("1.3"), None);
        assert_eq!(Release::of("2.0"), None);
    }

    #[test]
    fn the_module_pins_the_version_it_is_listed_with() {
        for release in ALL {
            let pin = format!("k8s.io/kubernetes v{}", release.version);
            assert!(release.go_mod.contains(&pin), "go.mod lacks `{pin}`");
        }
    }
}
