//! The configuration files of kubelet, containerd and the pods' network.

use serde_json::{Value, json};

use crate::{
    layout::Layout,
    network::{CNI_NAME, NAME_SERVICE, NODE_ADDRESS, POD_BRIDGE, POD_NETWORK, port},
};

/// The image of the process that holds a pod's namespaces.
pub const PAUSE_IMAGE: &str = "sluice.local/pause:lab";

/// The kubelet's configuration.
#[must_use]
pub(crate) fn kubelet(layout: &Layout) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_ADDRESS,
        "port": port::KUBELET,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": port::KUBELET_HEALTH,
        "tlsCertFile": layout.credential("server.crt"),
        "tlsPrivateKeyFile": layout.credential("server.key"),
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": false},
            "x509": {"clientCAFile": layout.credential("ca.crt")},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": format!("unix://{}", layout.socket().display()),
        "podLogsDir": layout.root().join("pods"),
        "volumePluginDir": layout.kubelet().join("volume-plugins"),
        "clusterDNS": [NAME_SERVICE],
        "clusterDomain": "cluster.local",
        // A sandbox of a CI may have cgroups of either version, without systemd and with swap.
        "failCgroupV1": false,
        "failSwapOn": false,
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": false,
        "enforceNodeAllocatable": [],
        // The host's own packet rules stay as they are.
        "makeIPTablesUtilChains": false,
        "maxPods": 200,
        // A full disk of the machine is not the pods' matter.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "0%",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
        },
        "shutdownGracePeriod": "0s",
    })
}

/// containerd's configuration. `overlay` is false where the state directory itself lies on an
/// overlay file system, which cannot be stacked.
#[must_use]
pub(crate) fn containerd(layout: &Layout, overlay: bool) -> String {
    let base = layout.containerd();
    let path = |name: &str| base.join(name).display().to_string();
    let snapshotter = if overlay { "overlayfs" } else { "native" };
    format!(
        r#"version = 2
root = "{root}"
state = "{state}"

[grpc]
  address = "{socket}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{opt}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  # Below the state directory, so that nothing is left when that is cleared.
  netns_mounts_under_state_dir = true

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{cni}"

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        Root = "{runc}"
"#,
        root = path("root"),
        state = path("state"),
        socket = layout.socket().display(),
        opt = path("opt"),
        cni = layout.cni().join("net.d").display(),
        runc = path("runc"),
    )
}

/// The pods' network: one bridge. Packets are not masqueraded: pods have no business elsewhere.
#[must_use]
pub(crate) fn cni(layout: &Layout) -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": CNI_NAME,
        "plugins": [{
            "type": "bridge",
            "bridge": POD_BRIDGE,
            "isGateway": true,
            "ipMasq": false,
            "hairpinMode": true,
            "ipam": {
                "type": "host-local",
                "dataDir": layout.cni().join("addresses"),
                "ranges": [[{"subnet": POD_NETWORK}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }],
    })
}
