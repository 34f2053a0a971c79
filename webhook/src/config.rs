//! The configuration of admission, validated once.

use sluice_shared::stamp::Mode;

/// Everything that decides an answer besides the review itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The sidecar that producers get.
    pub sidecar: Sidecar,
    /// The gate on consumers.
    pub gate: String,
    /// Mode of Jobs of more than one pod that do not name one.
    pub default_mode: Mode,
    /// Priority class of consumers whose user set none.
    pub priority_class: Option<String>,
    /// Something in the cluster advertises the qpu, so producers keep their request.
    pub keep_qpu: bool,
}

/// The sidecar that producers get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sidecar {
    /// Its image.
    pub image: String,
    /// When the image is pulled: `Always`, `IfNotPresent`, `Never`.
    pub pull_policy: String,
    /// Secrets appended to the pod's own for pulling it.
    pub pull_secrets: Vec<String>,
    /// Requests, and limits too, by resource name.
    pub resources: Vec<(String, String)>,
}

/// A setting that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{flag} is {value:?}: {problem}")]
pub struct Invalid {
    /// The flag.
    pub flag: &'static str,
    /// Its value.
    pub value: String,
    /// What is wrong and what to give instead.
    pub problem: &'static str,
}

impl Config {
    /// Checks what the API server would refuse later, for every pod.
    ///
    /// # Errors
    /// The first setting that cannot work.
    pub fn validated(self) -> Result<Self, Invalid> {
        let fail =
            |flag, value: &str, problem| Err(Invalid { flag, value: value.to_owned(), problem });
        if self.sidecar.image.trim().is_empty() {
            return fail("--sidecar-image", &self.sidecar.image, "name the image of the sidecar");
        }
        if !["Always", "IfNotPresent", "Never"].contains(&self.sidecar.pull_policy.as_str()) {
            return fail(
                "--sidecar-pull-policy",
                &self.sidecar.pull_policy,
                "give Always, IfNotPresent or Never",
            );
        }
        for (name, quantity) in &self.sidecar.resources {
            if !is_quantity(quantity) {
                return fail(
                    match name.as_str() {
                        "cpu" => "--sidecar-cpu",
                        "memory" => "--sidecar-memory",
                        _ => "--sidecar-ephemeral-storage",
                    },
                    quantity,
                    "give a positive quantity of Kubernetes, such as 50m or 64Mi",
                );
            }
        }
        if !is_qualified_name(&self.gate) {
            return fail("--gate", &self.gate, "give a name like example.org/gate");
        }
        if let Some(class) = self.priority_class.as_deref().filter(|c| !is_subdomain(c)) {
            return fail("--priority-class", class, "give the name of a PriorityClass");
        }
        Ok(self)
    }
}

/// A positive quantity: digits with at most one dot, then a known suffix.
fn is_quantity(text: &str) -> bool {
    let number: String = text.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let suffix = &text[number.len()..];
    number.parse::<f64>().is_ok_and(|n| n > 0.0)
        && ["", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"].contains(&suffix)
}

fn is_label(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 63
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= 253
        && text.split('.').all(|part| {
            is_label(part)
                && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        })
}

fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(p, n)| (Some(p), n));
    prefix.is_none_or(is_subdomain)
        && is_label(name)
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_config() -> Config {
        Config {
            sidecar: Sidecar {
                image: "sluice-sidecar:dev".into(),
                pull_policy: "IfNotPresent".into(),
                pull_secrets: vec![],
                resources: vec![("cpu".into(), "50m".into()), ("memory".into(), "64Mi".into())],
            },
            gate: sluice_shared::names::GATE.into(),
            default_mode: Mode::Shared,
            priority_class: Some("sluice-released".into()),
            keep_qpu: false,
        }
    }

    #[test]
    fn every_bad_setting_names_its_flag() {
        type Break = fn(&mut Config);
        let rows: [(&str, Break); 8] = [
            ("--sidecar-image", |c| c.sidecar.image = " ".into()),
            ("--sidecar-pull-policy", |c| c.sidecar.pull_policy = "Sometimes".into()),
            ("--sidecar-cpu", |c| c.sidecar.resources[0].1 = "0".into()),
            ("--sidecar-memory", |c| c.sidecar.resources[1].1 = "64Mib".into()),
            ("--gate", |c| c.gate = "a/b/c".into()),
            ("--gate", |c| c.gate = "Upper.example/x".into()),
            ("--gate", |c| c.gate = String::new()),
            ("--priority-class", |c| c.priority_class = Some("No_Such".into())),
        ];
        for (flag, spoil) in rows {
            let mut config = mk_config();
            spoil(&mut config);
            assert_eq!(config.validated().unwrap_err().flag, flag);
        }
        assert_eq!(mk_config().validated(), Ok(mk_config()));
    }
}
