//! The worker's environment, as far as HTTP and TLS libraries read it by themselves. It is the
//! copy of the program's; what would not work in the sidecar's container is put right before the
//! worker starts. PURE.

/// Hosts that are on the node or in the pod, which no proxy reaches: loopback, the instance's and
/// ECS's metadata, the agent of EKS Pod Identity.
const NEAR: [&str; 7] = [
    "127.0.0.1",
    "localhost",
    "::1",
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "fd00:ec2::23",
];
/// Variables that send requests through a proxy.
const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
/// Places of root certificates that the TLS library reads instead of the image's own.
const ROOTS: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The variable gets this value.
    Set(&'static str, String),
    /// The variable names a file or folder that is not in the sidecar's container.
    Remove(&'static str, String),
}

/// What to change in an environment. `get` reads it, `exists` tells of files.
#[must_use]
pub fn changes(get: impl Fn(&str) -> Option<String>, exists: impl Fn(&str) -> bool) -> Vec<Change> {
    let given = |name: &str| get(name).filter(|v| !v.trim().is_empty());
    let mut changes: Vec<Change> = ROOTS
        .into_iter()
        .filter_map(|name| Some((name, given(name)?)))
        .filter(|(_, path)| !exists(path))
        .map(|(name, path)| Change::Remove(name, path))
        .collect();
    if PROXIES.into_iter().any(|name| given(name).is_some()) {
        // Libraries differ in which spelling they read first; both get both lists.
        let listed = [given("NO_PROXY"), given("no_proxy")];
        let mut hosts: Vec<&str> = Vec::new();
        let own = listed.iter().flatten().flat_map(|list| list.split(',')).map(str::trim);
        for host in own.filter(|h| !h.is_empty()).chain(NEAR) {
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        let list = hosts.join(",");
        changes.push(Change::Set("NO_PROXY", list.clone()));
        changes.push(Change::Set("no_proxy", list));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(vars: &[(&str, &str)]) -> Vec<Change> {
        let get = |name: &str| {
            vars.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        };
        changes(get, |path| path == "/there")
    }

    #[test]
    fn metadata_and_loopback_are_reached_without_the_proxy() {
        let found = of(&[
            ("https_proxy", "http://p:3128"),
            ("NO_PROXY", "a.example, 127.0.0.1"),
            ("no_proxy", "b.example"),
        ]);
        let expected = "a.example,127.0.0.1,b.example,localhost,::1,169.254.169.254,169.254.170.2,\
                        169.254.170.23,fd00:ec2::23";
        let set = |name| Change::Set(name, expected.to_owned());
        assert_eq!(found, [set("NO_PROXY"), set("no_proxy")]);
        assert_eq!(of(&[("NO_PROXY", "a.example")]), [], "no proxy, nothing to go round");
        assert_eq!(of(&[("HTTP_PROXY", " ")]), []);
    }

    #[test]
    fn roots_that_are_only_in_the_programs_image_do_not_take_away_ours() {
        let gone = "/opt/conda/cacert.pem";
        let found = of(&[("SSL_CERT_FILE", gone), ("SSL_CERT_DIR", "/there")]);
        assert_eq!(found, [Change::Remove("SSL_CERT_FILE", gone.to_owned())]);
    }
}
