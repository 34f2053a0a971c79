//! What the sidecar needs of the program's container to speak for the same account: the
//! credentials, wherever they are, and the endpoints that the program had before the tap.

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, PodSpec, Volume, VolumeMount};
use sluice_shared::names;
use sluice_shared::resource::Service;

use super::resources::Reached;
use super::{env, resources, tap};

/// Variables that are copied because their names say so, besides the prefixes below.
const COPIED: [&str; 16] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "HOME",
    // How the user wants the sidecar's log: `json` for machines.
    names::ENV_LOG,
    names::ENV_LOG_FORMAT,
];
/// Variables that are copied by prefix: credentials, region, profile, CA of the AWS SDKs.
const COPIED_PREFIXES: [&str; 2] = ["AWS_", "AMZN_BRAKET_"];
/// Variables that are copied by prefix where the program reaches a resource: credentials that its
/// client reads without the name of the resource.
const QRMI_PREFIXES: [&str; 5] = ["QRMI_", "PASQAL_", "IQM_", "QISKIT_IBM_", "IAM_URL"];
/// Variables whose values are files that the sidecar needs too, wherever they are kept.
const FILES: [&str; 10] = [
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
];
/// The folder of the AWS configuration in a home directory.
const AWS_FOLDER: &str = ".aws";

/// What is copied.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Copied {
    /// Environment, in the user's order, then the endpoints under `SLUICE_UPSTREAM_`.
    pub env: Vec<EnvVar>,
    /// Sources of environment: as they are, and again under `SLUICE_UPSTREAM_`.
    pub env_from: Vec<EnvFromSource>,
    /// Mounts of credentials, read-only.
    pub mounts: Vec<VolumeMount>,
}

/// What the sidecar gets from the program's container.
#[must_use]
pub fn of(container: &Container, spec: &PodSpec) -> Copied {
    let entries = container.env.as_deref().unwrap_or_default();
    let mounts = mounts(container, spec.volumes.as_deref().unwrap_or_default());
    let reached = resources::of(container);
    let upstream = upstream(entries, &reached);
    let mut copied = selected(entries, &upstream, &mounts, &reached);
    if env::get(&copied, "HOME").is_none() {
        copied.extend(home(&mounts).map(|home| env::value("HOME", home)));
    }
    copied.extend(upstream);
    Copied { env: copied, env_from: sources(container), mounts }
}

/// Files that the container's environment names and that no volume of it holds: they are in its
/// image, where the sidecar cannot read them. Each with its variable.
#[must_use]
pub fn in_the_image(container: &Container) -> Vec<(&'static str, String)> {
    let entries = container.env.as_deref().unwrap_or_default();
    let is_mounted =
        |file: &str| container.volume_mounts.iter().flatten().any(|m| holds(&m.mount_path, file));
    FILES
        .into_iter()
        .filter_map(|name| Some((name, env::literal(entries, name)?)))
        // What a reference or a home makes of it is not known here.
        .filter(|(_, file)| file.starts_with('/') && !file.contains("$("))
        .filter(|(_, file)| !is_mounted(file))
        .map(|(name, file)| (name, file.to_owned()))
        .collect()
}

/// The endpoints that the program had, under our names. Our own is not one of them.
fn upstream(entries: &[EnvVar], reached: &[Reached]) -> Vec<EnvVar> {
    let of_resources = reached.iter().flat_map(|r| &r.variables).map(String::as_str);
    tap::UPSTREAMS
        .into_iter()
        .chain(of_resources)
        .filter_map(|name| env::get(entries, name))
        .filter(|e| e.value.as_deref() != Some(tap::url().as_str()) && !tap::is_own(e))
        .filter(|e| e.value_from.is_some() || e.value.as_ref().is_some_and(|v| !v.is_empty()))
        .map(|e| EnvVar { name: format!("{}{}", names::ENV_UPSTREAM_PREFIX, e.name), ..e.clone() })
        .collect()
}

/// The variables that are copied, and those that they refer to, in the user's order, because
/// references look backwards only.
fn selected(
    entries: &[EnvVar],
    upstream: &[EnvVar],
    mounts: &[VolumeMount],
    reached: &[Reached],
) -> Vec<EnvVar> {
    let of_resources = |name: &str| {
        let is_plain = QRMI_PREFIXES.iter().any(|p| name.starts_with(p));
        !reached.is_empty()
            && (is_plain || reached.iter().any(|r| r.resource.owns(name)))
            && Service::of_endpoint(name).is_none()
    };
    let by_name = |name: &str| {
        (COPIED.contains(&name)
            || COPIED_PREFIXES.iter().any(|p| name.starts_with(p))
            || of_resources(name))
            && !tap::UPSTREAMS.contains(&name)
    };
    // A list that the tap added in an earlier call is not the user's.
    let own = |e: &EnvVar| {
        tap::NO_PROXY.contains(&e.name.as_str())
            && e.value.as_deref().is_some_and(tap::is_own_bypass)
    };
    let mut wanted: Vec<&str> =
        entries.iter().filter(|e| by_name(&e.name) && !own(e)).map(|e| e.name.as_str()).collect();
    let texts = upstream.iter().filter_map(|e| e.value.as_deref());
    let paths = mounts.iter().filter_map(|m| m.sub_path_expr.as_deref());
    let mut open: Vec<&str> = texts.chain(paths).flat_map(env::references).collect();
    open.extend(wanted.iter().flat_map(|name| referred(entries, name)));
    while let Some(name) = open.pop() {
        if wanted.contains(&name) || is_ours(name) || env::get(entries, name).is_none() {
            continue;
        }
        wanted.push(name);
        open.extend(referred(entries, name));
    }
    entries.iter().filter(|e| wanted.contains(&e.name.as_str())).cloned().collect()
}

/// The names that the values of a variable refer to.
fn referred<'a>(entries: &'a [EnvVar], name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let name = name.to_owned();
    entries
        .iter()
        .filter(move |e| e.name == name)
        .filter_map(|e| e.value.as_deref())
        .flat_map(env::references)
}

/// Whether a name is ours or the tap's and must not reach the sidecar as the user's.
fn is_ours(name: &str) -> bool {
    name.starts_with("SLUICE_")
        || [names::ENV_BRAKET_ENDPOINT, names::ENV_AWS_ENDPOINT_URL_BRAKET].contains(&name)
}

/// An endpoint in an `envFrom` reaches the sidecar under our prefix, as it cannot be seen here.
fn sources(container: &Container) -> Vec<EnvFromSource> {
    let plain: Vec<EnvFromSource> = container.env_from.iter().flatten().cloned().collect();
    let prefixed = plain.iter().map(|source| EnvFromSource {
        prefix: Some(format!(
            "{}{}",
            names::ENV_UPSTREAM_PREFIX,
            source.prefix.as_deref().unwrap_or_default()
        )),
        ..source.clone()
    });
    plain.iter().cloned().chain(prefixed).collect()
}

fn mounts(container: &Container, volumes: &[Volume]) -> Vec<VolumeMount> {
    let entries = container.env.as_deref().unwrap_or_default();
    container
        .volume_mounts
        .iter()
        .flatten()
        .filter(|m| m.mount_path.trim_end_matches('/') != names::TOKEN_MOUNT)
        .filter(|m| {
            home_of(&m.mount_path).is_some()
                || files(entries).any(|file| holds(&m.mount_path, &file))
                || volumes.iter().any(|v| v.name == m.name && holds_secrets(v))
        })
        .map(|m| VolumeMount { read_only: Some(true), mount_propagation: None, ..m.clone() })
        .collect()
}

fn holds_secrets(volume: &Volume) -> bool {
    volume.secret.is_some()
        || volume.projected.is_some()
        || volume.config_map.is_some()
        || volume.csi.is_some()
}

/// The files that the environment names, and the configuration in a home that it names.
fn files(entries: &[EnvVar]) -> impl Iterator<Item = String> + use<'_> {
    let named = FILES.into_iter().filter_map(|name| env::literal(entries, name));
    let home = env::literal(entries, "HOME").filter(|h| !h.is_empty());
    let in_home = home.map(|h| format!("{}/{AWS_FOLDER}", h.trim_end_matches('/')));
    named.map(str::to_owned).chain(in_home)
}

/// Whether a file is in a mount, or is it.
fn holds(mount: &str, file: &str) -> bool {
    let rest = file.strip_prefix(mount.trim_end_matches('/'));
    rest.is_some_and(|r| r.is_empty() || r.starts_with('/'))
}

fn home(mounts: &[VolumeMount]) -> Option<&str> {
    mounts.iter().find_map(|m| home_of(&m.mount_path))
}

/// The home directory of a mount at, or in, its `.aws` folder.
fn home_of(path: &str) -> Option<&str> {
    let (home, rest) = path.rsplit_once(&format!("/{AWS_FOLDER}"))?;
    (rest.is_empty() || rest.starts_with('/')).then_some(if home.is_empty() { "/" } else { home })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mk(container: serde_json::Value) -> (Container, PodSpec) {
        let container: Container = serde_json::from_value(container).unwrap();
        let spec = serde_json::from_value(json!({
            "containers": [],
            "volumes": [
                {"name": "secret", "secret": {"secretName": "s"}},
                {"name": "scratch", "emptyDir": {}},
                {"name": "token", "projected": {"sources": []}},
            ],
        }))
        .unwrap();
        (container, spec)
    }

    fn names_of(copied: &Copied) -> Vec<&str> {
        copied.env.iter().map(|e| e.name.as_str()).collect()
    }

    #[test]
    fn credentials_come_in_the_users_order_with_what_they_refer_to() {
        let (container, spec) = mk(json!({"name": "c", "env": [
            {"name": "OTHER", "value": "x"},
            {"name": "TENANT", "value": "t"},
            {"name": "AWS_PROFILE", "value": "$(TENANT)-quantum"},
            {"name": "AWS_ENDPOINT_URL_STS", "value": "http://sts"},
            {"name": "AWS_ENDPOINT_URL_BRAKET", "value": "http://$(EDGE)/braket"},
            {"name": "EDGE", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "edge"}}},
            {"name": "https_proxy", "value": "http://proxy"},
        ]}));
        let copied = of(&container, &spec);
        assert_eq!(
            names_of(&copied),
            [
                "TENANT",
                "AWS_PROFILE",
                "AWS_ENDPOINT_URL_STS",
                "EDGE",
                "https_proxy",
                "SLUICE_UPSTREAM_AWS_ENDPOINT_URL_BRAKET"
            ]
        );
    }

    #[test]
    fn our_own_endpoint_is_nobodys_upstream() {
        let (container, spec) = mk(json!({"name": "c", "env": [
            {"name": "AWS_ENDPOINT_URL_BRAKET", "value": tap::url()},
            {"name": "BRAKET_ENDPOINT", "value": tap::url()},
        ]}));
        assert_eq!(of(&container, &spec), Copied::default());
    }

    #[test]
    fn mounts_of_credentials_are_copied_and_the_pods_own_token_is_not() {
        let (container, spec) = mk(json!({"name": "c", "volumeMounts": [
            {"name": "secret", "mountPath": "/etc/aws"},
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "scratch", "mountPath": "/home/user/.aws"},
            {"name": "token", "mountPath": "/var/run/secrets/eks.amazonaws.com/serviceaccount"},
            {"name": "token", "mountPath": names::TOKEN_MOUNT},
        ]}));
        let copied = of(&container, &spec);
        let paths: Vec<_> = copied.mounts.iter().map(|m| m.mount_path.as_str()).collect();
        assert_eq!(
            paths,
            ["/etc/aws", "/home/user/.aws", "/var/run/secrets/eks.amazonaws.com/serviceaccount"]
        );
        assert!(copied.mounts.iter().all(|m| m.read_only == Some(true)));
        assert_eq!(env::literal(&copied.env, "HOME"), Some("/home/user"));
    }

    #[test]
    fn mounts_of_files_that_are_named_are_copied_whatever_they_are() {
        let (container, spec) = mk(json!({"name": "c",
            "env": [
                {"name": "AWS_SHARED_CREDENTIALS_FILE", "value": "/scratch/keys/credentials"},
                {"name": "HOME", "value": "/home/user/"},
            ],
            "volumeMounts": [
                {"name": "scratch", "mountPath": "/scratch/"},
                {"name": "scratch", "mountPath": "/scratch/key"},
                {"name": "scratch", "mountPath": "/home/user"},
                {"name": "scratch", "mountPath": "/home/user/data"},
            ],
        }));
        let copied = of(&container, &spec);
        let paths: Vec<_> = copied.mounts.iter().map(|m| m.mount_path.as_str()).collect();
        assert_eq!(paths, ["/scratch/", "/home/user"]);
    }

    #[test]
    fn files_of_the_image_are_named() {
        let (container, _) = mk(json!({"name": "c",
            "env": [
                {"name": "AWS_CA_BUNDLE", "value": "/etc/ssl/corp.pem"},
                {"name": "AWS_CONFIG_FILE", "value": "/scratch/config"},
                {"name": "AWS_SHARED_CREDENTIALS_FILE", "value": "$(DIR)/credentials"},
                {"name": "SSL_CERT_FILE", "value": ""},
                {"name": "NODE_EXTRA_CA_CERTS", "value": "/scratchy/ca.pem"},
            ],
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
        }));
        let found = in_the_image(&container);
        assert_eq!(
            found,
            [
                ("AWS_CA_BUNDLE", "/etc/ssl/corp.pem".to_owned()),
                ("NODE_EXTRA_CA_CERTS", "/scratchy/ca.pem".to_owned())
            ]
        );
    }

    #[test]
    fn the_users_wish_for_the_log_reaches_the_sidecar() {
        let (container, spec) = mk(json!({"name": "c", "env": [
            {"name": "SLUICE_LOG_FORMAT", "value": "json"},
            {"name": "SLUICE_OTHER", "value": "x"},
        ]}));
        let copied = of(&container, &spec);
        assert_eq!(env::literal(&copied.env, names::ENV_LOG_FORMAT), Some("json"));
        assert_eq!(copied.env.len(), 1);
    }

    #[test]
    fn homes() {
        for (path, expected) in [
            ("/home/a/.aws", Some("/home/a")),
            ("/home/a/.aws/credentials", Some("/home/a")),
            ("/.aws", Some("/")),
            ("/home/a/.awsome", None),
            ("/etc", None),
        ] {
            assert_eq!(home_of(path), expected, "{path}");
        }
    }

    #[test]
    fn sources_come_twice() {
        let (container, spec) = mk(json!({"name": "c", "envFrom": [
            {"secretRef": {"name": "aws", "optional": true}},
            {"prefix": "P_", "configMapRef": {"name": "m"}},
        ]}));
        let prefixes: Vec<_> =
            of(&container, &spec).env_from.iter().map(|s| s.prefix.clone()).collect();
        assert_eq!(
            prefixes,
            [
                None,
                Some("P_".to_owned()),
                Some("SLUICE_UPSTREAM_".to_owned()),
                Some("SLUICE_UPSTREAM_P_".to_owned())
            ]
        );
    }
}
