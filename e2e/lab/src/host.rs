//! What the cluster changes on the machine, and how every bit of it is undone.

use std::{
    collections::BTreeMap,
    io::Write,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::mount::{UnmountFlags, unmount};

use crate::{
    command::run,
    error::{Error, Result, make_dir, read, write},
    layout::Layout,
    network::{CNI_NAME, NODE_ADDRESS, NODE_LINK, POD_BRIDGE, POD_NETWORK, RULES, listeners},
    prerequisites::find,
};

/// Kernel settings that kubelet, kube-proxy and the CNI plugins change.
const KERNEL_SETTINGS: &[&str] = &[
    "net/ipv4/ip_forward",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
];
/// Tables of packet rules that kube-proxy makes.
const PROXY_TABLES: &[&str] = &["ip kube-proxy", "ip6 kube-proxy"];

/// A system program, with the folders that PATH often lacks.
fn tool(name: &str) -> Command {
    Command::new(find(name).unwrap_or_else(|| PathBuf::from(name)))
}

/// Makes the node's interface and the rules that keep pods away from other networks.
///
/// # Errors
/// If the addresses or ports of the lab are in use, or a command fails.
pub(crate) fn prepare(layout: &Layout) -> Result<()> {
    check_networks(&run(tool("ip").args(["-4", "-o", "addr", "show"]))?)?;
    save_kernel_settings(layout)?;
    // A bridge without ports serves as dummy interface: some kernels lack the latter, and without
    // bridges there are no pods.
    run(tool("ip").args(["link", "add", NODE_LINK, "type", "bridge"]))?;
    let address = format!("{NODE_ADDRESS}/24");
    run(tool("ip").args(["addr", "add", &address, "dev", NODE_LINK]))?;
    run(tool("ip").args(["link", "set", NODE_LINK, "up"]))?;
    load_rules()?;
    check_ports()
}

/// The lab's networks must not be somebody else's.
fn check_networks(addresses: &str) -> Result<()> {
    for line in addresses.lines() {
        let mut words = line.split_whitespace();
        let (_, link, _, Some(address)) = (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        if ["10.89.0.", "10.90.", "10.91.0."].iter().any(|net| address.starts_with(net)) {
            return Err(Error::Occupied(format!(
                "the interface {} has the address {address}, which the lab needs for itself: remove it, or run the lab in a network namespace (`unshare -n`, then `ip link set lo up`)",
                link.unwrap_or("?")
            )));
        }
    }
    Ok(())
}

fn check_ports() -> Result<()> {
    let taken: Vec<String> = listeners()
        .into_iter()
        .filter_map(|address| {
            TcpListener::bind(address).err().map(|error| format!("{address} ({error})"))
        })
        .collect();
    if taken.is_empty() {
        return Ok(());
    }
    Err(Error::Occupied(format!(
        "the lab cannot listen on {}: stop what does (`ss -ltnp` names it)",
        taken.join(", ")
    )))
}

/// Pods talk to each other, to services and to the node; what they send elsewhere is refused at
/// once. So a test can never reach a real vendor.
fn load_rules() -> Result<()> {
    let rules = format!(
        "table inet {RULES} {{
  chain forward {{
    type filter hook forward priority 0; policy accept;
    ip saddr {POD_NETWORK} ip daddr != {{ {POD_NETWORK}, {NODE_ADDRESS} }} reject with icmp admin-prohibited
  }}
}}
"
    );
    let doing = "load the packet rules with nft";
    let mut nft = tool("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Error::io(doing))?;
    if let Some(mut stdin) = nft.stdin.take() {
        stdin.write_all(rules.as_bytes()).map_err(Error::io(doing))?;
    }
    let output = nft.wait_with_output().map_err(Error::io(doing))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Command {
        command: "nft -f -".to_owned(),
        status: output.status.to_string(),
        output: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

fn save_kernel_settings(layout: &Layout) -> Result<()> {
    let settings: BTreeMap<&str, String> = KERNEL_SETTINGS
        .iter()
        .filter_map(|&name| {
            let value = std::fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?;
            Some((name, value.trim().to_owned()))
        })
        .collect();
    write(&layout.kernel_settings(), serde_json::to_vec(&settings).unwrap_or_default())
}

fn restore_kernel_settings(layout: &Layout) {
    let Ok(text) = read(&layout.kernel_settings()) else { return };
    let saved: BTreeMap<String, String> = serde_json::from_str(&text).unwrap_or_default();
    for (name, value) in saved {
        let path = Path::new("/proc/sys").join(name);
        let now = std::fs::read_to_string(&path).unwrap_or_default();
        if now.trim() != value {
            let _ = std::fs::write(path, value);
        }
    }
}

/// Can the state directory hold the layers of an overlay?
pub(crate) fn takes_overlay(folder: &Path) -> bool {
    const OVERLAYFS: i64 = 0x794c_7630;
    rustix::fs::statfs(folder).is_ok_and(|stat| stat.f_type != OVERLAYFS)
}

/// Removes all that a cluster left on the machine once its processes are gone, but its logs.
///
/// # Errors
/// If mounts, interfaces or files cannot be removed.
pub(crate) fn clear(layout: &Layout) -> Result<()> {
    let tasks = left_tasks(layout);
    remove_shim_sockets(&tasks);
    for target in mounts_below(&read(Path::new("/proc/self/mountinfo"))?, layout.root()) {
        unmount(&target, UnmountFlags::DETACH)
            .map_err(|e| Error::io(format!("unmount {}", target.display()))(e.into()))?;
    }
    remove_links()?;
    for table in PROXY_TABLES.iter().copied().chain([format!("inet {RULES}").as_str()]) {
        // Missing is as good as removed.
        let _ = run(tool("nft").args(["delete", "table"]).args(table.split(' ')));
    }
    remove_cni_results();
    let name = |path: &PathBuf| path.file_name()?.to_str().map(str::to_owned);
    remove_cgroups(&tasks.iter().filter_map(name).collect::<Vec<_>>());
    remove_log_links(layout);
    restore_kernel_settings(layout);
    clear_files(layout)
}

/// The mount points at or below a folder, the deepest first.
fn mounts_below(mountinfo: &str, folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = mountinfo
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|path| PathBuf::from(path.replace("\\040", " ")))
        .filter(|path| path.starts_with(folder))
        .collect();
    // Mounts on one another are listed in the order they were made.
    found.reverse();
    found.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
    found
}

fn remove_links() -> Result<()> {
    let listed = run(tool("ip").args(["-o", "link", "show"]))?;
    for link in links_to_remove(&listed) {
        // The other end of a pair goes with the first, or with its network namespace.
        let removed = run(tool("ip").args(["link", "del", &link]));
        if Path::new("/sys/class/net").join(&link).exists() {
            removed?;
        }
    }
    Ok(())
}

/// The ends of pods' pairs at our bridge, then the bridge and the node's interface.
fn links_to_remove(listed: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in listed.lines() {
        let name = line.split_whitespace().nth(1).unwrap_or_default();
        let name = name.trim_end_matches(':').split('@').next().unwrap_or_default();
        if line.contains(&format!("master {POD_BRIDGE} ")) {
            found.insert(0, name.to_owned());
        } else if [POD_BRIDGE, NODE_LINK].contains(&name) {
            found.push(name.to_owned());
        }
    }
    found
}

/// The folders of the containers whose shims could not clean up themselves.
fn left_tasks(layout: &Layout) -> Vec<PathBuf> {
    folder(&layout.containerd().join("state/io.containerd.runtime.v2.task/k8s.io"))
}

/// The sockets of shims lie at a fixed place; each shim's folder names its own.
fn remove_shim_sockets(tasks: &[PathBuf]) {
    for task in tasks {
        if let Ok(address) = std::fs::read_to_string(task.join("address"))
            && let Some(socket) = address.trim().strip_prefix("unix://")
        {
            let _ = std::fs::remove_file(socket);
        }
    }
}

/// What the CNI plugins remember of our pods, at a fixed place.
fn remove_cni_results() {
    let results = folder(Path::new("/var/lib/cni/results"));
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let pods: Vec<String> = results
        .iter()
        .filter_map(|path| {
            Some(
                name(path).strip_prefix(CNI_NAME)?.strip_prefix('-')?.strip_suffix("-eth0")?.into(),
            )
        })
        .collect();
    for path in results {
        if pods.iter().any(|pod: &String| name(&path).contains(pod.as_str())) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// containerd puts containers below a fixed cgroup, each under its id.
fn remove_cgroups(containers: &[String]) {
    let base = Path::new("/sys/fs/cgroup");
    // Controllers have a folder each in version 1 of cgroups.
    for root in std::iter::once(base.to_owned()).chain(folder(base)) {
        let parent = root.join("k8s.io");
        for container in containers {
            remove_cgroup(&parent.join(container));
        }
        // Only if it is empty: another containerd may use it.
        let _ = std::fs::remove_dir(parent);
    }
}

fn remove_cgroup(cgroup: &Path) {
    if !cgroup.is_dir() {
        return;
    }
    for child in folder(cgroup).into_iter().filter(|path| path.is_dir()) {
        remove_cgroup(&child);
    }
    // Only an empty one can be removed, so nothing that lives is harmed.
    let _ = std::fs::remove_dir(cgroup);
}

/// The kubelet makes links to the logs of containers at a fixed place.
fn remove_log_links(layout: &Layout) {
    for link in folder(Path::new("/var/log/containers")) {
        if std::fs::read_link(&link).is_ok_and(|target| target.starts_with(layout.root())) {
            let _ = std::fs::remove_file(link);
        }
    }
}

/// Removes what lies in the state directory, but the logs.
fn clear_files(layout: &Layout) -> Result<()> {
    for path in folder(layout.root()) {
        if path == layout.logs() {
            continue;
        }
        let removed = if path.is_dir() {
            std::fs::remove_dir_all(&path)
        } else {
            std::fs::remove_file(&path)
        };
        removed.map_err(Error::io(format!("remove {}", path.display())))?;
    }
    Ok(())
}

/// Begins with fresh logs.
pub(crate) fn fresh_logs(layout: &Layout) -> Result<()> {
    let logs = layout.logs();
    if logs.exists() {
        std::fs::remove_dir_all(&logs).map_err(Error::io(format!("remove {}", logs.display())))?;
    }
    make_dir(&logs)
}

fn folder(path: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(path)
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_undone_inside_out() {
        let info = "\
1 0 0:1 / / rw - ext4 /dev/vda rw
2 1 0:2 / /lab/a rw - tmpfs tmpfs rw
3 2 0:3 / /lab/a/b rw - overlay overlay rw
4 1 0:4 / /labyrinth rw - tmpfs tmpfs rw
5 1 0:5 / /lab/with\\040blank rw - tmpfs tmpfs rw
";
        let found = mounts_below(info, Path::new("/lab"));
        assert_eq!(
            found,
            ["/lab/a/b", "/lab/with blank", "/lab/a"].map(PathBuf::from),
            "another folder that begins alike is not ours"
        );
    }

    #[test]
    fn only_our_links_are_removed() {
        let listed = "\
1: lo: <LOOPBACK,UP> mtu 65536 qdisc noqueue state UNKNOWN
2: eth0: <UP> mtu 1400 qdisc pfifo_fast state UP
3: sluice-node: <UP> mtu 1500 qdisc noqueue state UNKNOWN
4: sluice-pods: <UP> mtu 1500 qdisc noqueue state UP
5: veth12@if2: <UP> mtu 1500 qdisc noqueue master sluice-pods state UP
6: veth13@if2: <UP> mtu 1500 qdisc noqueue master docker0 state UP
";
        assert_eq!(links_to_remove(listed), ["veth12", "sluice-node", "sluice-pods"]);
    }

    #[test]
    fn foreign_use_of_the_addresses_is_reported() {
        let other = "2: eth0    inet 192.0.2.2/24 brd 192.0.2.255 scope global eth0";
        check_networks(other).expect("no clash");
        let clash = "7: cni0    inet 10.90.0.1/16 brd 10.90.255.255 scope global cni0";
        let text = check_networks(clash).expect_err("clash").to_string();
        assert!(text.contains("cni0") && text.contains("10.90.0.1/16"), "{text}");
    }
}
