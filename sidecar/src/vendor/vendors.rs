//! All vendors of the pod behind the one trait: Braket, and the resources of QRMI.

use sluice_shared::resource::Resource;

use super::braket::Braket;
use super::rest::Rest;
use super::{Cancelled, DeviceReading, Failure, NotATask, Reading, Vendor};

/// Longest foreign text that is repeated.
const QUOTE: usize = 128;

/// Braket and the resources.
#[derive(Debug)]
pub struct Vendors {
    braket: Braket,
    rest: Rest,
}

impl Vendors {
    /// Both.
    #[must_use]
    pub const fn new(braket: Braket, rest: Rest) -> Self {
        Self { braket, rest }
    }

    fn known(&self) -> String {
        self.rest.resources().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

impl Vendor for Vendors {
    async fn task(&self, resource: Option<&Resource>, id: &str) -> Result<Reading, Failure> {
        match resource {
            Some(resource) => self.rest.task(resource, id).await,
            None => self.braket.task(None, id).await,
        }
    }

    async fn device(
        &self,
        resource: Option<&Resource>,
        device: &str,
        task: &str,
    ) -> Result<DeviceReading, Failure> {
        match resource {
            Some(resource) => self.rest.device(resource, device).await,
            None => self.braket.device(None, device, task).await,
        }
    }

    async fn cancel(&self, resource: Option<&Resource>, id: &str) -> Result<Cancelled, Failure> {
        match resource {
            Some(resource) => self.rest.cancel(resource, id).await,
            None => self.braket.cancel(None, id).await,
        }
    }

    fn place(&self, resource: Option<&str>, id: &str) -> Result<Option<Resource>, NotATask> {
        let cut = |text: &str| text.chars().take(QUOTE).collect::<String>();
        if let Some(name) = resource {
            // By its whole name, or by QRMI's alone where that is of one resource.
            let named = |r: &&Resource| r.to_string() == name || r.name == name;
            let mut found = self.rest.resources().filter(named);
            let (Some(resource), None) = (found.next(), found.next()) else {
                return Err(NotATask::NoResource { resource: cut(name), known: self.known() });
            };
            if !self.rest.is_task_id(resource, id) {
                return Err(NotATask::Misshapen { id: cut(id), resource: resource.clone() });
            }
            return Ok(Some(resource.clone()));
        }
        let of_braket = self.braket.place(None, id);
        let mut all = self.rest.resources();
        match (of_braket, all.next(), all.next()) {
            (Ok(place), _, _) => Ok(place),
            (Err(error), None, _) => Err(error),
            (Err(_), Some(only), None) if self.rest.is_task_id(only, id) => Ok(Some(only.clone())),
            (Err(_), Some(only), None) => {
                Err(NotATask::Misshapen { id: cut(id), resource: only.clone() })
            }
            (Err(_), Some(_), Some(_)) => Err(NotATask::Where { id: cut(id), known: self.known() }),
        }
    }
}
