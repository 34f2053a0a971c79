//! The programs of a running cluster: how each is started, and in which order.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Result},
    layout::Layout,
    network::{
        FAKE_POD_NETWORK, NODE_ADDRESS, NODE_NAME, NODE_NETWORK, POD_NETWORK, SERVICE_NETWORK, port,
    },
    prerequisites,
    programs::Programs,
    release::Release,
};

/// One program of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Component {
    Etcd,
    Containerd,
    ApiServer,
    ControllerManager,
    Scheduler,
    Proxy,
    Kubelet,
    Kwok,
}

/// In the order of starting; they are stopped the other way round.
pub(crate) const ALL: [Component; 8] = [
    Component::Etcd,
    Component::Containerd,
    Component::ApiServer,
    Component::ControllerManager,
    Component::Scheduler,
    Component::Proxy,
    Component::Kubelet,
    Component::Kwok,
];

/// What a cluster is asked for; kept beside it, so that a component can be started again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wishes {
    pub(crate) version: String,
    pub(crate) features: Vec<String>,
}

/// A command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: &'static [(&'static str, &'static str)],
}

/// Images are loaded, never fetched: with a proxy that nobody serves, an image that is missing is
/// an error at once, no name is looked up and nothing leaves the machine.
const NO_REGISTRY: &[(&str, &str)] =
    &[("HTTPS_PROXY", "http://127.0.0.1:9"), ("HTTP_PROXY", "http://127.0.0.1:9")];

impl Component {
    /// Its name, as of the program.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Containerd => "containerd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Proxy => "kube-proxy",
            Self::Kubelet => "kubelet",
            Self::Kwok => "kwok",
        }
    }

    /// The component of that name.
    pub(crate) fn named(name: &str) -> Result<Self> {
        ALL.into_iter().find(|component| component.name() == name).ok_or_else(|| {
            let names = ALL.map(Self::name).join(", ");
            Error::Invalid(format!("the lab has no component {name:?}; it has {names}"))
        })
    }

    /// How it is started.
    pub(crate) fn launch(
        self,
        layout: &Layout,
        programs: &Programs,
        release: &Release,
        wishes: &Wishes,
    ) -> Launch {
        let program = match self {
            Self::Containerd => {
                prerequisites::find("containerd").unwrap_or_else(|| PathBuf::from("containerd"))
            }
            other => programs.path(other.name()),
        };
        let args = match self {
            Self::Etcd => etcd(layout),
            Self::Containerd => {
                vec![flag("config", layout.settings("containerd.toml").display())]
            }
            Self::ApiServer => api_server(layout, release, wishes),
            Self::ControllerManager => controller_manager(layout, release, wishes),
            Self::Scheduler => scheduler(layout, release, wishes),
            Self::Proxy => proxy(layout),
            Self::Kubelet => kubelet(layout),
            Self::Kwok => kwok(layout, programs),
        };
        let env = if self == Self::Containerd { NO_REGISTRY } else { &[] };
        Launch { program, args, env }
    }
}

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}

fn gates<'a>(sets: &[&[&'a str]], extra: &'a [String]) -> String {
    let names = sets.iter().flat_map(|set| set.iter().copied());
    let all: Vec<String> = names
        .chain(extra.iter().map(String::as_str))
        .map(|name| {
            // `Gate=false` is passed on as it is.
            if name.contains('=') { name.to_owned() } else { format!("{name}=true") }
        })
        .collect();
    flag("feature-gates", all.join(","))
}

fn etcd(layout: &Layout) -> Vec<String> {
    let client = format!("http://127.0.0.1:{}", port::ETCD);
    let peer = format!("http://127.0.0.1:{}", port::ETCD_PEER);
    vec![
        flag("data-dir", layout.etcd().display()),
        flag("listen-client-urls", &client),
        flag("advertise-client-urls", &client),
        flag("listen-peer-urls", &peer),
        flag("initial-advertise-peer-urls", &peer),
        flag("initial-cluster", format!("default={peer}")),
        // The data does not outlive the cluster.
        "--unsafe-no-fsync".to_owned(),
    ]
}

/// Serving on loopback with the lab's certificate.
fn serving(layout: &Layout, port: u16) -> [String; 4] {
    [
        flag("bind-address", "127.0.0.1"),
        flag("secure-port", port),
        flag("tls-cert-file", layout.credential("server.crt").display()),
        flag("tls-private-key-file", layout.credential("server.key").display()),
    ]
}

fn kubeconfig(layout: &Layout, user: &str) -> String {
    flag("kubeconfig", layout.credential(&format!("{user}.kubeconfig")).display())
}

fn api_server(layout: &Layout, release: &Release, wishes: &Wishes) -> Vec<String> {
    let file = |name: &str| layout.credential(name).display().to_string();
    vec![
        flag("etcd-servers", format!("http://127.0.0.1:{}", port::ETCD)),
        flag("bind-address", NODE_ADDRESS),
        flag("advertise-address", NODE_ADDRESS),
        flag("secure-port", port::API),
        flag("tls-cert-file", file("server.crt")),
        flag("tls-private-key-file", file("server.key")),
        flag("client-ca-file", file("ca.crt")),
        flag("token-auth-file", file("tokens.csv")),
        flag("service-account-issuer", "https://kubernetes.default.svc"),
        flag("service-account-key-file", file("accounts.pub")),
        flag("service-account-signing-key-file", file("accounts.key")),
        flag("service-cluster-ip-range", SERVICE_NETWORK),
        flag("authorization-mode", "Node,RBAC"),
        flag("allow-privileged", true),
        flag("kubelet-preferred-address-types", "InternalIP"),
        flag("kubelet-certificate-authority", file("ca.crt")),
        flag("kubelet-client-certificate", file("kubelet-client.crt")),
        flag("kubelet-client-key", file("kubelet-client.key")),
        flag("enable-aggregator-routing", true),
        flag("runtime-config", release.runtime_config),
        gates(&[release.gates], &wishes.features),
    ]
}

fn controller_manager(layout: &Layout, release: &Release, wishes: &Wishes) -> Vec<String> {
    let mut args = vec![
        kubeconfig(layout, "kube-controller-manager"),
        flag("service-account-private-key-file", layout.credential("accounts.key").display()),
        flag("root-ca-file", layout.credential("ca.crt").display()),
        flag("use-service-account-credentials", true),
        flag("leader-elect", false),
        gates(&[release.gates], &wishes.features),
    ];
    args.extend(serving(layout, port::CONTROLLER_MANAGER));
    args
}

fn scheduler(layout: &Layout, release: &Release, wishes: &Wishes) -> Vec<String> {
    let mut args = vec![
        kubeconfig(layout, "kube-scheduler"),
        flag("leader-elect", false),
        gates(&[release.gates, release.scheduler_gates], &wishes.features),
    ];
    args.extend(serving(layout, port::SCHEDULER));
    args
}

fn proxy(layout: &Layout) -> Vec<String> {
    vec![
        kubeconfig(layout, "kube-proxy"),
        flag("hostname-override", NODE_NAME),
        flag("proxy-mode", "nftables"),
        flag("cluster-cidr", POD_NETWORK),
        flag("bind-address", NODE_ADDRESS),
        flag("nodeport-addresses", NODE_NETWORK),
        flag("healthz-bind-address", format!("127.0.0.1:{}", port::PROXY_HEALTH)),
        flag("metrics-bind-address", format!("127.0.0.1:{}", port::PROXY_METRICS)),
        // All pods share one bridge: without this an answer would go past the host, which has
        // to translate it back.
        flag("masquerade-all", true),
        // The machine's connection tracking stays as it is.
        flag("conntrack-max-per-core", 0),
        flag("conntrack-tcp-timeout-established", "0s"),
        flag("conntrack-tcp-timeout-close-wait", "0s"),
    ]
}

fn kubelet(layout: &Layout) -> Vec<String> {
    vec![
        kubeconfig(layout, "kubelet"),
        flag("config", layout.settings("kubelet.json").display()),
        flag("root-dir", layout.kubelet().display()),
        flag("cert-dir", layout.kubelet().join("pki").display()),
        flag("hostname-override", NODE_NAME),
        flag("node-ip", NODE_ADDRESS),
    ]
}

fn kwok(layout: &Layout, programs: &Programs) -> Vec<String> {
    let mut args = vec![
        kubeconfig(layout, "kwok"),
        flag("manage-nodes-with-annotation-selector", "kwok.x-k8s.io/node=fake"),
        flag("node-lease-duration-seconds", 40),
        flag("cidr", FAKE_POD_NETWORK),
        flag("node-ip", NODE_ADDRESS),
    ];
    args.extend(programs.stages().iter().map(|stage| flag("config", stage.display())));
    args
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::release::V1_36;

    fn args(component: Component, features: &[&str]) -> Vec<String> {
        let layout = Layout::of(Some(Path::new("/lab"))).expect("layout");
        let wishes = Wishes {
            version: V1_36.version.into(),
            features: features.iter().map(|&name| name.to_owned()).collect(),
        };
        component.launch(&layout, &Programs::at("/programs"), &V1_36, &wishes).args
    }

    #[test]
    fn gates_reach_the_components_that_need_them() {
        let wanted = [
            (Component::ApiServer, "--feature-gates=GenericWorkload=true,WorkloadWithJob=true"),
            (
                Component::ControllerManager,
                "--feature-gates=GenericWorkload=true,WorkloadWithJob=true",
            ),
            (
                Component::Scheduler,
                "--feature-gates=GenericWorkload=true,GangScheduling=true,WorkloadWithJob=true",
            ),
        ];
        for (component, gates) in wanted {
            let args = args(component, &["WorkloadWithJob"]);
            assert!(args.iter().any(|arg| arg == gates), "{component:?}: {args:?}");
        }
        assert!(gates(&[&["A"]], &["B=false".into()]).ends_with("A=true,B=false"));
    }

    #[test]
    fn nothing_listens_on_real_interfaces() {
        for component in ALL {
            for arg in args(component, &[]) {
                assert!(!arg.contains("0.0.0.0"), "{component:?}: {arg}");
            }
        }
    }

    #[test]
    fn names_lead_back_to_components() {
        for component in ALL {
            assert_eq!(Component::named(component.name()).expect("known"), component);
        }
        assert!(Component::named("dockerd").expect_err("unknown").to_string().contains("etcd"));
    }
}
