//! The page `docs/clients.md`, written from what was seen.

use std::fmt::Write;

/// How one submission went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Through the tap, which told the id that the client printed.
    Found,
    /// To the endpoint that the code, or the general variable, names.
    Endpoint,
    /// Through the tap; what came after the submission went to this host and failed.
    FoundThen(String),
    /// To the proxy of the environment.
    Proxy,
    /// To this host, by the client's own choice.
    Host(String),
    /// Nowhere: the client gave up by itself, with this kind of error.
    Failed(String),
}

impl Outcome {
    fn text(&self) -> String {
        match self {
            Self::Found => "found".to_owned(),
            Self::Endpoint => "passes by".to_owned(),
            Self::FoundThen(host) => format!("found; then it fails at `{host}`"),
            Self::Proxy => "passes by, to the proxy".to_owned(),
            Self::Host(host) => format!("passes by, to `{host}`"),
            Self::Failed(kind) => format!("fails in the client (`{kind}`)"),
        }
    }
}

/// A client and how it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Its name.
    pub name: String,
    /// Versions that were tried.
    pub versions: String,
    /// With both variables set, as in a tapped container.
    pub both: Outcome,
    /// With `AWS_ENDPOINT_URL_BRAKET` alone.
    pub service: Outcome,
    /// With `BRAKET_ENDPOINT` alone.
    pub sdk: Outcome,
    /// Whether the tap saw the client's polls of its task.
    pub polls: bool,
    /// Shots of the result that the client fetched; none where it has no way to fetch one.
    pub shots: Option<u64>,
}

/// A client of a vendor of QRMI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceClient {
    /// Its name.
    pub name: String,
    /// Versions that were tried.
    pub versions: String,
    /// QRMI's type of the resource.
    pub kind: String,
    /// With the resource's variable set as in a tapped container.
    pub outcome: Outcome,
    /// Whether the tap saw the client's polls of its task.
    pub polls: bool,
    /// Shots of the result that the client fetched.
    pub shots: Option<u64>,
}

/// Something that keeps a client from the tap, or nearly so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bypass {
    /// The client.
    pub client: String,
    /// What was done.
    pub what: String,
    /// How it went.
    pub outcome: Outcome,
    /// What to do.
    pub remedy: String,
}

const HEAD: &str = "\
# Clients, and how the tap finds them

This page is written by the tests of `e2e/judges` from what they saw; `make clients` writes it anew.
Each client ran unchanged against the vendor emulator, with nothing but environment variables
pointing at the tap; only the old SDK was told S3's endpoint in code, as it reads none. *Found*
means: the tap told the id of the very task that the client printed.

In a tapped container Sluice sets `AWS_ENDPOINT_URL_BRAKET` and `BRAKET_ENDPOINT`, and adds the tap's
address to `NO_PROXY`. The columns show both together and each alone. In every run `HTTP_PROXY` and
`HTTPS_PROXY` named a proxy that refuses, so *found* also means that `NO_PROXY` was obeyed or that
the client uses no proxy.

";

const RESOURCES: &str = "
## QRMI and its vendors

Each ran with the variables of one [resource](vendors.md), the one of its endpoint pointing at the
tap. QRMI reads them itself. The vendors' own clients read no such variable: here the program hands
them QRMI's, as a line of Python does (`IQMClient(os.environ[…])`).

";

const BYPASSES: &str = "
## What passes the tap by

The sidecar still follows such a task when the program tells it the id (`POST
$SLUICE_URL/v1/tasks`, see the [guide](guide.md)).

";

/// The whole page.
#[must_use]
pub fn page(clients: &[Client], of_resources: &[ResourceClient], bypasses: &[Bypass]) -> String {
    let mut page = HEAD.to_owned();
    let columns = [
        "client",
        "version",
        "both",
        "`AWS_ENDPOINT_URL_BRAKET` alone",
        "`BRAKET_ENDPOINT` alone",
        "polls seen",
        "result fetched",
    ];
    row(&mut page, columns);
    row(&mut page, columns.map(|_| "---"));
    for client in clients {
        row(
            &mut page,
            [
                client.name.as_str(),
                &client.versions,
                &client.both.text(),
                &client.service.text(),
                &client.sdk.text(),
                yes_or_no(client.polls),
                &number_of(client.shots),
            ],
        );
    }
    page.push_str(RESOURCES);
    let columns =
        ["client", "version", "type of the resource", "at the tap", "polls seen", "result fetched"];
    row(&mut page, columns);
    row(&mut page, columns.map(|_| "---"));
    for client in of_resources {
        row(
            &mut page,
            [
                client.name.as_str(),
                &client.versions,
                &format!("`{}`", client.kind),
                &client.outcome.text(),
                yes_or_no(client.polls),
                &number_of(client.shots),
            ],
        );
    }
    page.push_str(BYPASSES);
    let columns = ["client", "what is done", "what happens", "what to do"];
    row(&mut page, columns);
    row(&mut page, columns.map(|_| "---"));
    for bypass in bypasses {
        let outcome = bypass.outcome.text();
        row(&mut page, [&bypass.client, &bypass.what, &outcome, &bypass.remedy]);
    }
    page
}

fn yes_or_no(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

fn number_of(shots: Option<u64>) -> String {
    shots.map_or_else(|| "–".to_owned(), |shots| format!("{shots} shots"))
}

fn row<const N: usize>(page: &mut String, cells: [&str; N]) {
    // Writing to a string cannot fail.
    let _ = writeln!(page, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_the_cells_of_its_head() {
        let client = Client {
            name: "a|b".to_owned(),
            versions: "1".to_owned(),
            both: Outcome::Found,
            service: Outcome::Host("host:443".to_owned()),
            sdk: Outcome::Endpoint,
            polls: false,
            shots: None,
        };
        let bypass = Bypass {
            client: "c".to_owned(),
            what: "w".to_owned(),
            outcome: Outcome::Failed("E".to_owned()),
            remedy: "r".to_owned(),
        };
        let of_resource = ResourceClient {
            name: "q".to_owned(),
            versions: "2".to_owned(),
            kind: "iqm-server".to_owned(),
            outcome: Outcome::Found,
            polls: true,
            shots: Some(3),
        };
        let page = page(&[client], &[of_resource], &[bypass]);
        let lines: Vec<_> = page.lines().filter(|line| line.starts_with('|')).collect();
        let cells: Vec<_> =
            lines.iter().map(|line| line.replace("\\|", "").matches('|').count()).collect();
        assert_eq!(cells, [8, 8, 8, 7, 7, 7, 5, 5, 5]);
        assert!(lines[2].contains("| found | passes by, to `host:443` | passes by | no | – |"));
        assert!(lines[5].contains("| `iqm-server` | found | yes | 3 shots |"));
        assert!(lines[8].contains("fails in the client (`E`)"));
    }
}
