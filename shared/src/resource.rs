//! The services that a program can reach beside Amazon Braket: the table of QRMI's types, the
//! variables that name their endpoints, and the name that a resource has in our contract.
//!
//! Adding a vendor starts with a row of [`TABLE`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A vendor's service whose endpoint a program takes from its environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    /// IBM Quantum Compute Service: queued jobs, sessions.
    IbmQuantumComputeService,
    /// IBM Quantum System: lanes, no queue.
    IbmQuantumSystem,
    /// Pasqal Cloud: batches.
    PasqalCloud,
    /// IQM Server: jobs with a place in the queue.
    IqmServer,
    /// Felis, the cloud of Alice & Bob.
    AliceBobFelis,
}

/// What is known of a service before anything is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The service.
    pub service: Service,
    /// QRMI's word for the type, then the words that it had before.
    pub types: &'static [&'static str],
    /// Variables of its endpoint, without the prefix of the resource, strongest first.
    pub endpoints: &'static [&'static str],
    /// Start of every variable of this service, without the prefix of the resource.
    pub variables: &'static [&'static str],
    /// Where it is when no variable says so.
    pub default_endpoint: Option<&'static str>,
    /// Its name for people.
    pub label: &'static str,
}

/// All services. Sources: QRMI 0.26.4 and its migration notes for 0.23.
pub const TABLE: [Row; 5] = [
    Row {
        service: Service::IbmQuantumComputeService,
        types: &["ibm-quantum-compute-service", "qiskit-runtime-service"],
        endpoints: &["QRMI_IBM_QCS_ENDPOINT", "QRMI_IBM_QRS_ENDPOINT"],
        variables: &["QRMI_IBM_QCS_", "QRMI_IBM_QRS_"],
        default_endpoint: Some("https://quantum.cloud.ibm.com/api/v1"),
        label: "IBM Quantum Compute Service",
    },
    Row {
        service: Service::IbmQuantumSystem,
        types: &["ibm-quantum-system"],
        endpoints: &["QRMI_IBM_QS_ENDPOINT"],
        variables: &["QRMI_IBM_QS_"],
        default_endpoint: None,
        label: "IBM Quantum System",
    },
    Row {
        service: Service::PasqalCloud,
        types: &["pasqal-cloud"],
        endpoints: &["QRMI_PASQAL_CLOUD_BASE_URL"],
        variables: &["QRMI_PASQAL_CLOUD_"],
        default_endpoint: Some("https://apis.pasqal.cloud"),
        label: "Pasqal Cloud",
    },
    Row {
        service: Service::IqmServer,
        types: &["iqm-server"],
        endpoints: &["QRMI_IQM_ISA_ENDPOINT"],
        variables: &["QRMI_IQM_ISA_"],
        default_endpoint: None,
        label: "IQM Server",
    },
    Row {
        service: Service::AliceBobFelis,
        types: &["alice-bob-felis"],
        endpoints: &["QRMI_AB_FELIS_BASE_ENDPOINT"],
        variables: &["QRMI_AB_FELIS_"],
        default_endpoint: None,
        label: "Alice & Bob Felis",
    },
];

impl Service {
    /// What is known of it.
    #[must_use]
    pub const fn row(self) -> &'static Row {
        // In the order of the variants, as a test holds.
        &TABLE[self as usize]
    }

    /// Its word in our contract, which is QRMI's.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.row().types[0]
    }

    /// The service of a type of QRMI, also by a word that it had before.
    ///
    /// ```
    /// use sluice_shared::resource::Service;
    /// let old = Service::of_type("qiskit-runtime-service");
    /// assert_eq!(old, Some(Service::IbmQuantumComputeService));
    /// ```
    #[must_use]
    pub fn of_type(word: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.types.contains(&word)).map(|row| row.service)
    }

    /// The resource whose endpoint a variable names: the prefix may be empty.
    ///
    /// ```
    /// use sluice_shared::resource::Service;
    /// let found = Service::of_endpoint("garnet_QRMI_IQM_ISA_ENDPOINT");
    /// assert_eq!(found, Some(("garnet", Service::IqmServer)));
    /// ```
    #[must_use]
    pub fn of_endpoint(variable: &str) -> Option<(&str, Self)> {
        TABLE.iter().find_map(|row| {
            let of = |name: &&str| variable.strip_suffix(*name);
            let prefix = row.endpoints.iter().find_map(of)?;
            let name = prefix.strip_suffix('_').unwrap_or(prefix);
            // A prefix without its underscore is the end of another word.
            (prefix.is_empty() || name.len() < prefix.len()).then_some((name, row.service))
        })
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Types of QRMI that are known and not followed, each with what to do instead.
pub const NOT_FOLLOWED: [(&str, &str); 2] = [
    (
        "pasqal-local",
        "its warden knows programs by the munge credential of their host, which a sidecar cannot \
         pass on",
    ),
    ("oqtopus", "its jobs are made by a library of its own and not over an endpoint of QRMI"),
];

/// A resource as QRMI names it, at its service. Written `iqm-server/garnet`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Resource {
    /// Where it is.
    pub service: Service,
    /// QRMI's name, which is the prefix of its variables; empty where they have none.
    pub name: String,
}

/// Longest name of a resource, in characters.
pub const MAX_NAME: usize = 128;

/// A text that names no resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no resource; write <type>/<name>, such as iqm-server/garnet, with one of the types \
     {types}",
    types = TABLE.map(|row| row.types[0]).join(", ")
)]
pub struct NotAResource {
    /// The text, cut to a readable length.
    pub text: String,
}

impl Resource {
    /// The variables of its endpoint, strongest first.
    pub fn endpoints(&self) -> impl Iterator<Item = String> + '_ {
        self.service.row().endpoints.iter().map(|name| self.variable(name))
    }

    /// One of its variables.
    #[must_use]
    pub fn variable(&self, name: &str) -> String {
        if self.name.is_empty() { name.to_owned() } else { format!("{}_{name}", self.name) }
    }

    /// Whether a variable is one of its own.
    #[must_use]
    pub fn owns(&self, variable: &str) -> bool {
        let rest = match self.name.as_str() {
            "" => Some(variable),
            name => variable.strip_prefix(name).and_then(|rest| rest.strip_prefix('_')),
        };
        rest.is_some_and(|rest| self.service.row().variables.iter().any(|v| rest.starts_with(v)))
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.service, self.name)
    }
}

impl FromStr for Resource {
    type Err = NotAResource;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = text.split_once('/').and_then(|(word, name)| {
            let fits = name.chars().count() <= MAX_NAME && !name.contains(char::is_control);
            let service = Service::of_type(word).filter(|_| fits)?;
            Some(Self { service, name: name.to_owned() })
        });
        found.ok_or_else(|| NotAResource { text: text.chars().take(MAX_NAME).collect() })
    }
}

impl TryFrom<String> for Resource {
    type Error = NotAResource;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Resource> for String {
    fn from(resource: Resource) -> Self {
        resource.to_string()
    }
}

/// Where a task lives: two submissions are equal only at the same place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A region of Amazon Braket.
    Region(String),
    /// A resource of QRMI.
    Resource(Resource),
}

impl Place {
    /// The resource, if it is one.
    #[must_use]
    pub const fn resource(&self) -> Option<&Resource> {
        match self {
            Self::Region(_) => None,
            Self::Resource(resource) => Some(resource),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Region(region) => f.write_str(region),
            Self::Resource(resource) => resource.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_services_and_names_nothing_twice() {
        for row in &TABLE {
            assert_eq!(row.service.row(), row);
            for endpoint in row.endpoints {
                assert!(row.variables.iter().any(|v| endpoint.starts_with(v)), "{endpoint}");
                assert_eq!(Service::of_endpoint(endpoint), Some(("", row.service)));
            }
            for word in row.types {
                assert_eq!(Service::of_type(word), Some(row.service));
                assert!(NOT_FOLLOWED.iter().all(|(other, _)| other != word));
            }
        }
    }

    #[test]
    fn endpoints_name_their_resource() {
        for (variable, expected) in [
            ("fake_lagos_QRMI_IBM_QS_ENDPOINT", Some(("fake_lagos", Service::IbmQuantumSystem))),
            ("x_QRMI_IBM_QRS_ENDPOINT", Some(("x", Service::IbmQuantumComputeService))),
            ("a_b_QRMI_PASQAL_CLOUD_BASE_URL", Some(("a_b", Service::PasqalCloud))),
            ("QRMI_AB_FELIS_BASE_ENDPOINT", Some(("", Service::AliceBobFelis))),
            ("xQRMI_IQM_ISA_ENDPOINT", None),
            ("x_QRMI_IBM_QS_IAM_ENDPOINT", None),
            ("x_QRMI_IBM_QS_S3_ENDPOINT", None),
            ("ENDPOINT", None),
        ] {
            assert_eq!(Service::of_endpoint(variable), expected, "{variable}");
        }
    }

    #[test]
    fn resources_read_back_and_own_their_variables() {
        let resource: Resource = "ibm-quantum-system/ibm_fez".parse().unwrap();
        assert_eq!(resource.to_string(), "ibm-quantum-system/ibm_fez");
        assert_eq!(resource.endpoints().collect::<Vec<_>>(), ["ibm_fez_QRMI_IBM_QS_ENDPOINT"]);
        assert!(resource.owns("ibm_fez_QRMI_IBM_QS_IAM_APIKEY"));
        assert!(!resource.owns("ibm_fez_QRMI_IQM_ISA_TOKEN"));
        assert!(!resource.owns("ibm_QRMI_IBM_QS_IAM_APIKEY"));
        let old: Resource = "qiskit-runtime-service/x".parse().unwrap();
        assert_eq!(old.to_string(), "ibm-quantum-compute-service/x");
        for text in ["", "garnet", "iqm/garnet", "iqm-server/a\nb"] {
            let error = text.parse::<Resource>().unwrap_err().to_string();
            assert!(error.contains("iqm-server/garnet"), "{error}");
        }
    }
}
