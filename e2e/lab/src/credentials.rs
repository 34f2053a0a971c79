//! Certificates, tokens and kubeconfigs of a new cluster.

use std::{collections::BTreeMap, os::unix::fs::PermissionsExt, path::Path};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use serde_json::json;
use uuid::Uuid;

use crate::{
    error::{Error, Result, write},
    layout::Layout,
    network::{API_SERVICE, NODE_ADDRESS, NODE_NAME, port},
};

/// A user of the API with its groups.
struct User {
    /// Also the name of its kubeconfig.
    file: &'static str,
    name: &'static str,
    groups: &'static str,
}

pub(crate) const ADMIN: &str = "admin";

const USERS: &[User] = &[
    User { file: ADMIN, name: "lab-admin", groups: "system:masters" },
    User { file: "kwok", name: "lab-kwok", groups: "system:masters" },
    User { file: "kube-controller-manager", name: "system:kube-controller-manager", groups: "" },
    User { file: "kube-scheduler", name: "system:kube-scheduler", groups: "" },
    User { file: "kube-proxy", name: "system:kube-proxy", groups: "" },
    User { file: "kubelet", name: "system:node:lab", groups: "system:nodes" },
];

/// Makes all credentials of a cluster, valid for a few years: nothing expires in a long wait.
///
/// # Errors
/// If a key cannot be made or a file not written.
pub(crate) fn make(layout: &Layout) -> Result<()> {
    let bad = |e: rcgen::Error| Error::Invalid(format!("could not make a certificate: {e}"));
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    ca.distinguished_name.push(DnType::CommonName, "sluice lab");
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().map_err(bad)?).map_err(bad)?;
    secret(&layout.credential("ca.crt"), &ca.pem())?;

    let issue = |file: &str, params: &CertificateParams| -> Result<()> {
        let key = KeyPair::generate().map_err(bad)?;
        let certificate = params.signed_by(&key, &ca).map_err(bad)?;
        secret(&layout.credential(&format!("{file}.crt")), &certificate.pem())?;
        secret(&layout.credential(&format!("{file}.key")), &key.serialize_pem())
    };
    // One server certificate for all components: they are one machine.
    let names = [
        "localhost",
        "127.0.0.1",
        &NODE_ADDRESS.to_string(),
        &API_SERVICE.to_string(),
        NODE_NAME,
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
    ]
    .map(str::to_owned);
    let mut server = CertificateParams::new(names).map_err(bad)?;
    server.distinguished_name.push(DnType::CommonName, "sluice lab server");
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    issue("server", &server)?;
    let mut client = CertificateParams::default();
    client.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    issue("kubelet-client", &client)?;

    let accounts = KeyPair::generate().map_err(bad)?;
    secret(&layout.credential("accounts.key"), &accounts.serialize_pem())?;
    secret(&layout.credential("accounts.pub"), &accounts.public_key_pem())?;

    let tokens: BTreeMap<&str, String> = USERS
        .iter()
        .map(|user| (user.file, format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())))
        .collect();
    let mut list = String::new();
    for user in USERS {
        let token = &tokens[user.file];
        list.push_str(&token_line(token, user));
        let file = match user.file {
            ADMIN => layout.kubeconfig(),
            other => layout.credential(&format!("{other}.kubeconfig")),
        };
        secret(&file, &kubeconfig(&layout.credential("ca.crt"), user.name, token))?;
    }
    secret(&layout.credential("tokens.csv"), &list)
}

fn token_line(token: &str, user: &User) -> String {
    format!("{token},{},{},\"{}\"\n", user.name, user.file, user.groups)
}

fn kubeconfig(ca: &Path, user: &str, token: &str) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": {
            "server": server_url(),
            "certificate-authority": ca,
        }}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": user}}],
    });
    format!("{config:#}\n")
}

/// The API server's address.
pub(crate) fn server_url() -> String {
    format!("https://{NODE_ADDRESS}:{}", port::API)
}

fn secret(path: &Path, text: &str) -> Result<()> {
    write(path, text)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .map_err(Error::io(format!("protect {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_one_quoted_field() {
        let user = User { file: "f", name: "n", groups: "a,b" };
        assert_eq!(token_line("t", &user), "t,n,f,\"a,b\"\n");
    }

    #[test]
    fn all_files_are_made_and_private() {
        let dir = tempfile::tempdir().expect("dir");
        let layout = Layout::of(Some(dir.path())).expect("layout");
        make(&layout).expect("made");
        let key = layout.credential("server.key");
        let mode = std::fs::metadata(&key).expect("key").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let public = std::fs::read_to_string(layout.credential("accounts.pub")).expect("public");
        assert!(public.contains("BEGIN PUBLIC KEY"));
        let config = kube::config::Kubeconfig::read_from(layout.kubeconfig()).expect("parses");
        assert_eq!(config.current_context.as_deref(), Some("lab"));
    }
}
