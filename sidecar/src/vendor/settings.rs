//! What the program's AWS settings say of hosts and trust, as far as the sidecar must do the same:
//! from its environment, and from the configuration file that is mounted beside it.
//!
//! Endpoint variables of the environment are not read here: the webhook hands them over under names
//! of their own, because in the program they name the tap.

use std::path::{Path, PathBuf};

use aws_config::profile::ProfileSet;
use aws_runtime::env_config::EnvConfigValue;
use aws_runtime::env_config::file::EnvConfigFiles;
use aws_types::os_shim_internal::{Env, Fs};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sluice_tap::{Hosts, Roots};
use tracing::warn;

/// Name of the service in a `services` section.
const SERVICE: &str = "braket";
/// Variables that name a file of roots, strongest first, as the SDKs for Python have it. The file
/// of the profile comes after the first.
const BUNDLES: [&str; 3] = ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];
/// Names a file of roots that are trusted besides the system's.
const EXTRA: &str = "NODE_EXTRA_CA_CERTS";
/// What in a profile needs a program or a cache that only the program's container has.
const ELSEWHERE: [&str; 5] =
    ["credential_process", "sso_session", "sso_start_url", "sso_account_id", "login_session"];
/// Beginning of a certificate in a file of many.
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";

/// What was set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Name of the profile that counts.
    pub profile: String,
    /// Braket's endpoint, or that of all services, in the profile.
    pub endpoint: Option<String>,
    /// Which hosts of the vendor are used.
    pub hosts: Hosts,
    /// Whether the profile has the SDKs ignore endpoint variables, and so the tap.
    pub ignores_endpoints: bool,
    /// The file of roots.
    pub bundle: Option<Bundle>,
    /// What the profile takes its keys from, if the sidecar cannot do the same.
    pub elsewhere: Option<&'static str>,
}

/// A file of roots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// The variable or key that names it.
    pub named_by: &'static str,
    /// The file.
    pub path: PathBuf,
}

impl Settings {
    /// Reads environment and files of this process. A file that cannot be read is told of and
    /// counts as empty, as the SDKs have it.
    pub async fn read() -> Self {
        let (env, files) = (Env::real(), EnvConfigFiles::default());
        let profiles = match aws_config::profile::load(&Fs::real(), &env, &files, None).await {
            Ok(profiles) => profiles,
            Err(error) => {
                warn!(
                    "the AWS configuration file cannot be used, so nothing of it counts: {error}"
                );
                ProfileSet::default()
            }
        };
        Self::of(&env, &profiles)
    }

    /// What environment and profile say together. PURE.
    #[must_use]
    pub fn of(env: &Env, profiles: &ProfileSet) -> Self {
        let given = |name: &str| env.get(name).ok().filter(|v| !v.trim().is_empty());
        let in_profile = |key: &'static str| {
            let found = EnvConfigValue::new().profile(key).service_id(SERVICE);
            found.load(env, Some(profiles)).map(|(value, _)| value.trim().to_owned())
        };
        let is_on = |text: String| text.trim().eq_ignore_ascii_case("true");
        let on = |name: &str, key: &'static str| {
            given(name).or_else(|| in_profile(key)).is_some_and(is_on)
        };
        let [first, rest @ ..] = BUNDLES;
        let bundle = given(first)
            .map(|path| (first, path))
            .or_else(|| in_profile("ca_bundle").map(|path| ("ca_bundle", path)))
            .or_else(|| rest.into_iter().find_map(|name| given(name).map(|path| (name, path))))
            .or_else(|| given(EXTRA).map(|path| (EXTRA, path)));
        // Keys of the environment go before the profile.
        let has_keys = given("AWS_ACCESS_KEY_ID").is_some();
        Self {
            profile: profiles.selected_profile().to_owned(),
            endpoint: in_profile("endpoint_url").filter(|v| !v.is_empty()),
            hosts: Hosts {
                fips: on("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint"),
                dual_stack: on("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint"),
            },
            ignores_endpoints: on(
                "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
                "ignore_configured_endpoint_urls",
            ),
            bundle: bundle
                .filter(|(_, path)| !path.is_empty())
                .map(|(named_by, path)| Bundle { named_by, path: path.into() }),
            elsewhere: ELSEWHERE
                .into_iter()
                .find(|key| !has_keys && profiles.get(key).is_some_and(|v| !v.trim().is_empty())),
        }
    }

    /// Why the program may not get along with the tap, which the webhook could not see, or why the
    /// sidecar has no keys; each with what to do. PURE.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        let profile = &self.profile;
        let mut hints = Vec::new();
        if self.hosts != Hosts::default() {
            let what = match self.hosts {
                Hosts { fips: true, dual_stack: true } => "FIPS and dual-stack",
                Hosts { fips: true, .. } => "FIPS",
                Hosts { .. } => "dual-stack",
            };
            let host = self.hosts.of("<region>");
            hints.push(format!(
                "the AWS settings ask for {what} hosts, so requests go on to {host}; the AWS SDKs \
                 for Rust and JavaScript refuse that setting beside an endpoint: if the program \
                 fails with such an error, set the annotation discovery: announce"
            ));
        }
        if self.ignores_endpoints {
            hints.push(format!(
                "the AWS settings (environment or profile {profile:?}) have SDKs ignore endpoint \
                 variables, so only a program with amazon-braket-sdk reaches the sidecar; remove \
                 ignore_configured_endpoint_urls, or let the program tell its task"
            ));
        }
        if let Some(key) = self.elsewhere {
            hints.push(format!(
                "the profile {profile:?} takes its keys from {key}, which works in the program's \
                 container alone; give keys by environment, by a mounted credentials file or by a \
                 service account role, or set the annotation discovery: announce and let the \
                 sidecar have keys that may read the task"
            ));
        }
        hints
    }

    /// Reads the file of roots. One that cannot be used is told of, and the system's count.
    #[must_use]
    pub fn roots(&self) -> Roots {
        let Some(Bundle { named_by, path }) = &self.bundle else { return Roots::System };
        match certificates(path) {
            Ok(pem) if *named_by == EXTRA => Roots::Also(pem),
            Ok(pem) => Roots::Only(pem),
            Err(error) => {
                warn!(
                    "{named_by} names {}, which the sidecar cannot use ({error}); it trusts the \
                     system's roots; mount the file as a volume in the container that asks for the \
                     qpu",
                    path.display()
                );
                Roots::System
            }
        }
    }
}

/// Why a file of roots is of no use.
#[derive(Debug, thiserror::Error)]
enum BundleError {
    #[error("{0}")]
    Unreadable(#[from] std::io::Error),
    #[error("there is no certificate in it")]
    Empty,
}

/// The usable certificates of a file, as PEM. One that cannot be parsed is left out: the libraries
/// behind would refuse, or even break off, because of one among many.
fn certificates(path: &Path) -> Result<Vec<u8>, BundleError> {
    let text = std::fs::read(path)?;
    let usable = usable(&String::from_utf8_lossy(&text));
    if usable.is_empty() { Err(BundleError::Empty) } else { Ok(usable.into_bytes()) }
}

fn usable(text: &str) -> String {
    let blocks = text.split(BEGIN).skip(1).map(|block| format!("{BEGIN}{block}"));
    blocks
        .filter(|block| {
            CertificateDer::from_pem_slice(block.as_bytes())
                .is_ok_and(|cert| RootCertStore::empty().add(cert).is_ok())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(vars: &[(&str, &str)], config: &str) -> Settings {
        let env = Env::from_slice(vars);
        let fs = Fs::from_slice(&[("/c", config)]);
        let files = EnvConfigFiles::default();
        let profiles = aws_config::profile::load(&fs, &env, &files, None).await.unwrap();
        Settings::of(&env, &profiles)
    }

    #[tokio::test]
    async fn the_profile_that_counts_is_read_and_the_environment_goes_first() {
        let config = "[default]\nuse_fips_endpoint = true\n\
                      [profile lab]\nendpoint_url = https://all.example\nca_bundle = /etc/ca.pem\n\
                      services = ours\nuse_dualstack_endpoint = true\n\
                      [services ours]\nbraket =\n  endpoint_url = https://vpce.example\n\
                      s3 =\n  endpoint_url = https://s3.example\n";
        let lab = [("AWS_CONFIG_FILE", "/c"), ("AWS_PROFILE", "lab")];
        let found = read(&lab, config).await;
        assert_eq!(found.endpoint.as_deref(), Some("https://vpce.example"));
        assert_eq!(found.hosts, Hosts { fips: false, dual_stack: true });
        let bundle = found.bundle.unwrap();
        assert_eq!((bundle.named_by, bundle.path), ("ca_bundle", "/etc/ca.pem".into()));
        let found = read(&lab[..1], config).await;
        assert_eq!((found.endpoint, found.hosts.fips), (None, true));
        let off = [lab[0], ("AWS_USE_FIPS_ENDPOINT", "false"), ("AWS_CA_BUNDLE", "/x")];
        let found = read(&off, config).await;
        assert!(!found.hosts.fips && found.bundle.unwrap().path == Path::new("/x"));
    }

    #[tokio::test]
    async fn bundles_by_their_strength() {
        let config = [("AWS_CONFIG_FILE", "/c")];
        for (vars, profile, expected) in [
            (vec![("NODE_EXTRA_CA_CERTS", "/n")], "", "NODE_EXTRA_CA_CERTS"),
            (vec![("NODE_EXTRA_CA_CERTS", "/n"), ("CURL_CA_BUNDLE", "/c")], "", "CURL_CA_BUNDLE"),
            (vec![("REQUESTS_CA_BUNDLE", "/r")], "ca_bundle=/p", "ca_bundle"),
            (vec![("AWS_CA_BUNDLE", "/a")], "ca_bundle=/p", "AWS_CA_BUNDLE"),
            (vec![("AWS_CA_BUNDLE", ""), ("REQUESTS_CA_BUNDLE", "/r")], "", "REQUESTS_CA_BUNDLE"),
        ] {
            let vars: Vec<_> = config.into_iter().chain(vars).collect();
            let found = read(&vars, &format!("[default]\n{profile}\n")).await;
            assert_eq!(found.bundle.unwrap().named_by, expected);
        }
        assert_eq!(
            read(&config, "").await,
            Settings { profile: "default".into(), ..Settings::default() }
        );
    }

    #[tokio::test]
    async fn what_the_webhook_could_not_see_is_said_with_a_way_out() {
        for (config, part) in [
            ("use_fips_endpoint=true", "braket-fips.<region>.amazonaws.com"),
            ("use_dualstack_endpoint=true", "braket.<region>.api.aws"),
            ("ignore_configured_endpoint_urls=true", "ignore_configured_endpoint_urls"),
            ("credential_process=/bin/keys --token hush", "credential_process"),
            ("sso_session=corp", "sso_session"),
        ] {
            let file = format!("[default]\n{config}\n");
            let hints = read(&[("AWS_CONFIG_FILE", "/c")], &file).await.hints();
            assert_eq!(hints.len(), 1, "{hints:?}");
            assert!(hints[0].contains(part) && !hints[0].contains("hush"), "{hints:?}");
        }
        let vars = [("AWS_CONFIG_FILE", "/c"), ("AWS_ACCESS_KEY_ID", "AKIA")];
        let found = read(&vars, "[default]\ncredential_process=/bin/keys\n").await;
        assert_eq!(found.hints(), Vec::<String>::new(), "keys of the environment go first");
    }

    #[test]
    fn a_bad_certificate_among_good_ones_is_left_out() {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let good = made.cert.pem();
        let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let found = usable(&format!("# ours\n{bad}{good}{bad}{good}"));
        assert_eq!(found.matches(BEGIN).count(), 2);
        assert_eq!(usable("no certificate"), "");
        assert!(certificates(Path::new("/nonexistent/ca.pem")).is_err());
    }
}
