//! A whole sidecar between a program and one vendor of the emulator.

use serde_json::{Value, json};
use sluice_shared::gang::{Order, Task};
use sluice_shared::names;
use sluice_shared::stamp::Stamp;
use sluice_vendors::{Ahead, Config, Emulator, Running as Vendor, Service};

use crate::await_some;
use crate::cluster::Cluster;
use crate::parent::{Running, command};

pub(super) const TEAM: (&str, &str) = ("team", "team-key");

/// One vendor as its clients use it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) service: Service,
    /// Type and name of the resource.
    pub(super) resource: &'static str,
    /// The machine at the emulator.
    pub(super) machine: &'static str,
    pub(super) submit: fn() -> (&'static str, Value),
    /// Where the id is in the answer.
    pub(super) id: &'static str,
    /// How the order says that the vendor is at the front.
    pub(super) front: &'static str,
}

pub(super) const IQM: Row = Row {
    service: Service::Iqm,
    resource: "iqm-server/garnet",
    machine: "iqm/garnet",
    submit: || {
        let measure = json!({"name": "measure", "locus": ["QB1"], "args": {"key": "m"}});
        let circuit = json!({"name": "one", "instructions": [measure]});
        ("/api/v1/jobs/garnet/circuit?tag=mine", json!({"circuits": [circuit], "shots": 10}))
    },
    id: "/id",
    front: "front",
};
pub(super) const COMPUTE: Row = Row {
    service: Service::IbmQuantumComputeService,
    resource: "ibm-quantum-compute-service/ibm_lagos",
    machine: "ibm-quantum-compute-service/ibm_lagos",
    submit: || {
        let program = "OPENQASM 3.0; include \"stdgates.inc\"; bit[1] c; sx $0; c[0] = measure $0;";
        let params = json!({"pubs": [[program, null, 10]], "version": 2, "support_qiskit": false});
        ("/jobs", json!({"program_id": "sampler", "backend": "ibm_lagos", "params": params}))
    },
    id: "/id",
    front: "running",
};
pub(super) const PASQAL: Row = Row {
    service: Service::Pasqal,
    resource: "pasqal-cloud/FRESNEL",
    machine: "pasqal/FRESNEL",
    submit: || {
        let body = json!({"sequence_builder": "{}", "device_type": "FRESNEL",
                          "project_id": "project", "jobs": [{"runs": 10}]});
        ("/core-fast/api/v1/batches", body)
    },
    id: "/data/id",
    front: "running",
};
pub(super) const FELIS: Row = Row {
    service: Service::Felis,
    resource: "alice-bob-felis/emu",
    machine: "felis/EMU:1Q:LESCANNE_2020",
    submit: || {
        let body = json!({"inputDataFormat": "HUMAN_QIR", "outputDataFormat": "HISTOGRAM",
                          "target": "EMU:1Q:LESCANNE_2020", "inputParams": {"nbShots": 10}});
        ("/v1/jobs/", body)
    },
    id: "/id",
    front: "running",
};

pub(super) struct Scene {
    pub(super) vendor: Vendor,
    pub(super) cluster: Cluster,
    pub(super) folder: tempfile::TempDir,
    pub(super) row: Row,
    pub(super) http: reqwest::Client,
}

impl Scene {
    pub(super) async fn start(row: Row, ahead: u64) -> Self {
        let mut config = Config::for_testing().by_hand(Ahead { normal: ahead, priority: 0 });
        config.qrmi.long_poll_ms = 200;
        let scene = Self {
            vendor: Emulator::start(config).await.unwrap(),
            cluster: Cluster::start().await,
            folder: tempfile::tempdir().unwrap(),
            row,
            http: reqwest::Client::new(),
        };
        std::fs::write(scene.folder.path().join("kube"), scene.cluster.kubeconfig()).unwrap();
        scene.cluster.create_gang("g-1");
        scene
    }

    pub(super) async fn sidecar(&self, change: impl Fn(&str, String) -> Option<String>) -> Running {
        self.sidecar_with(change, &[]).await
    }

    /// The same with more variables.
    pub(super) async fn sidecar_with(
        &self,
        change: impl Fn(&str, String) -> Option<String>,
        more: &[(&str, &str)],
    ) -> Running {
        let stamp = Stamp { size: 3, ..Stamp::default() };
        let name = self.row.resource.split_once('/').unwrap().1;
        let mut command = command();
        command
            .env(names::ENV_STAMP, stamp.to_annotation())
            .env(names::ENV_SIDECAR_ROLE, "producer")
            .env(names::ENV_RESOURCES, json!([self.row.resource]).to_string())
            .env("KUBECONFIG", self.folder.path().join("kube"))
            .env("SLUICE_LOG", "info")
            .envs(more.iter().copied());
        for (key, value) in self.vendor.qrmi_environment(self.row.service, name, TEAM.0, TEAM.1) {
            let own =
                ["_ISA_ENDPOINT", "_QCS_ENDPOINT", "_QS_ENDPOINT", "_BASE_URL", "_BASE_ENDPOINT"];
            let is_own = own.iter().any(|end| key.ends_with(end));
            if let Some(value) = change(&key, value) {
                let key = if is_own { format!("SLUICE_UPSTREAM_{key}") } else { key };
                command.env(key, value);
            }
        }
        Running::of(command).await
    }

    /// The program's own right, as its client has it.
    pub(super) async fn right(&self) -> String {
        let url = self.vendor.url_of(self.row.service);
        let bought = |request: reqwest::RequestBuilder| async {
            let answer: Value = request.send().await.unwrap().json().await.unwrap();
            format!("Bearer {}", answer["access_token"].as_str().unwrap())
        };
        match self.row.service {
            Service::Iqm => format!("Bearer {}", TEAM.1),
            Service::Felis => {
                let name = self.row.resource.split_once('/').unwrap().1;
                let all = self.vendor.qrmi_environment(Service::Felis, name, TEAM.0, TEAM.1);
                format!("Basic {}", all.iter().find(|(k, _)| k.ends_with("API_KEY")).unwrap().1)
            }
            Service::Pasqal => {
                let fields = json!({"client_id": TEAM.0, "client_secret": TEAM.1});
                bought(self.http.post(format!("{url}/oauth/token")).json(&fields)).await
            }
            _ => {
                let form = "grant_type=urn%3Aibm%3Aparams%3Aoauth%3Agrant-type%3Aapikey\
                            &apikey=team-key";
                bought(self.http.post(format!("{url}/identity/token")).body(form)).await
            }
        }
    }

    /// Sends with the program's right.
    pub(super) async fn try_send(
        &self,
        sidecar: &Running,
        path: &str,
        body: &Value,
    ) -> Result<reqwest::Response, reqwest::Error> {
        let url = format!("{}/{}{path}", sidecar.tap_url(), self.row.resource);
        self.http.post(url).header("authorization", self.right().await).json(body).send().await
    }

    pub(super) async fn send(
        &self,
        sidecar: &Running,
        path: &str,
        body: &Value,
    ) -> reqwest::Response {
        self.try_send(sidecar, path, body).await.unwrap()
    }

    /// Submits as the program does, and returns the id.
    pub(super) async fn submit(&self, sidecar: &Running) -> String {
        let (path, body) = (self.row.submit)();
        let answer = self.send(sidecar, path, &body).await;
        assert!(answer.status().is_success(), "{answer:?}");
        let answer: Value = answer.json().await.unwrap();
        let id = answer.pointer(self.row.id).unwrap().as_str().unwrap().to_owned();
        if self.row.service == Service::Felis {
            self.send(sidecar, &format!("/v1/jobs/{id}/input"), &json!({})).await;
        }
        id
    }

    /// The same as a program that ends with it: its connections are closed when this returns.
    pub(super) fn whole_program(&mut self, sidecar: &Running) -> String {
        let id = tokio::task::block_in_place(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(self.submit(sidecar))
        });
        self.http = reqwest::Client::new();
        id
    }

    pub(super) async fn task(&self, what: &str, fits: impl Fn(&Task) -> bool) -> Task {
        await_some(what, async || self.cluster.vendor()?.tasks.into_iter().find(&fits)).await
    }

    pub(super) async fn order(&self) -> Order {
        await_some("the order", async || self.cluster.vendor()?.order).await
    }

    pub(super) fn ordered(&self) -> bool {
        self.cluster.vendor().is_some_and(|vendor| vendor.order.is_some())
    }

    pub(super) async fn step(&self, times: u32) {
        self.vendor.step(Some(self.row.machine), times).await.unwrap();
    }
}

#[allow(clippy::unnecessary_wraps, reason = "the form of a change")]
pub(super) fn as_it_is(_: &str, value: String) -> Option<String> {
    Some(value)
}
