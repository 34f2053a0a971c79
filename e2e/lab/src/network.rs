//! Addresses, ports and names of the cluster's networks, all in one place.
//!
//! The node is an interface of its own with a private address: nothing listens on the machine's real
//! interfaces, and pods reach programs of the host at that address.

use std::net::{Ipv4Addr, SocketAddr};

/// The node's address; programs that pods should reach listen here.
pub const NODE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 1);
/// The node's network.
pub const NODE_NETWORK: &str = "10.89.0.0/24";
/// The pods' network.
pub const POD_NETWORK: &str = "10.90.0.0/16";
/// The services' network.
pub const SERVICE_NETWORK: &str = "10.91.0.0/24";
/// The API server's Service.
pub const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 91, 0, 1);
/// Where pods look for names. The lab has no name server: the node refuses at once, whereas an
/// unused service address would keep programs waiting.
pub const NAME_SERVICE: Ipv4Addr = NODE_ADDRESS;
/// Addresses of the pods on nodes without machines.
pub const FAKE_POD_NETWORK: &str = "10.92.0.0/16";
/// The node's interface.
pub const NODE_LINK: &str = "sluice-node";
/// The bridge of the pods.
pub const POD_BRIDGE: &str = "sluice-pods";
/// The table of packet rules that keeps pods away from other networks.
pub const RULES: &str = "sluice_lab";
/// The name of the pods' network at the CNI plugins.
pub const CNI_NAME: &str = "sluice-lab";
/// The name of the node.
pub const NODE_NAME: &str = "lab";

/// Ports, all on the loopback address but the API server's and the kubelet's.
pub mod port {
    /// API server, on the node's address.
    pub const API: u16 = 6443;
    /// Kubelet, on the node's address.
    pub const KUBELET: u16 = 10250;
    /// etcd, for its clients.
    pub const ETCD: u16 = 23790;
    /// etcd, for its peers; there are none.
    pub const ETCD_PEER: u16 = 23800;
    /// Health of the kubelet.
    pub const KUBELET_HEALTH: u16 = 10248;
    /// Metrics of kube-proxy.
    pub const PROXY_METRICS: u16 = 10249;
    /// Health of kube-proxy.
    pub const PROXY_HEALTH: u16 = 10256;
    /// The controller manager.
    pub const CONTROLLER_MANAGER: u16 = 10257;
    /// The scheduler.
    pub const SCHEDULER: u16 = 10259;
}

/// Every address that the cluster will listen on.
#[must_use]
pub fn listeners() -> Vec<SocketAddr> {
    let loopback = [
        port::ETCD,
        port::ETCD_PEER,
        port::KUBELET_HEALTH,
        port::PROXY_METRICS,
        port::PROXY_HEALTH,
        port::CONTROLLER_MANAGER,
        port::SCHEDULER,
    ]
    .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let node = [port::API, port::KUBELET].map(|port| SocketAddr::from((NODE_ADDRESS, port)));
    loopback.into_iter().chain(node).collect()
}
